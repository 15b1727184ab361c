-- Visits of shops by customers; rows lie in the order of their ids, not in that of the customers.
CREATE TABLE visit (id int PRIMARY KEY, shop int NOT NULL, customer text NOT NULL, amount numeric NOT NULL);
INSERT INTO visit SELECT n, n % 200, md5((n % 50000)::text), (n % 997) / 10.0 FROM generate_series(1, 300000) n;
CREATE INDEX visit_customer ON visit (customer);
