CREATE TABLE customer (id int PRIMARY KEY, name text NOT NULL, region int NOT NULL, credit numeric NOT NULL);
CREATE TABLE orders (
    id bigserial PRIMARY KEY, customer int NOT NULL REFERENCES customer, amount int NOT NULL, day int NOT NULL, note text
);
INSERT INTO customer
    SELECT g, CASE g % 3 WHEN 0 THEN 'Bäcker ' WHEN 1 THEN 'arnold ' ELSE 'Zoe ' END || g, g % 7, g FROM generate_series(1, 1000) g;
INSERT INTO orders (customer, amount, day, note)
    SELECT 1 + g % 1000, g % 500, g % 365, 'note' || chr(10) || g FROM generate_series(1, 20000) g;
CREATE INDEX orders_customer ON orders (customer);
