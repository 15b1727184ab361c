-- Sales: of two columns together the planner expects a tenth as many groups as there are rows; each row is one.
CREATE TABLE sale (shop int NOT NULL, receipt int NOT NULL, remark text NOT NULL);
INSERT INTO sale SELECT n % 400, n / 400, repeat(md5(n::text), 5) FROM generate_series(1, 140000) n;
