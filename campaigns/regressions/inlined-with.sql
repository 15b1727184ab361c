-- Customers, and a costly function over their names that an earlier filter would spare most of them.
CREATE TABLE customer (id int PRIMARY KEY, region int NOT NULL, name text NOT NULL);
INSERT INTO customer SELECT n, n % 50, md5(n::text) FROM generate_series(1, 4000) n;
CREATE TABLE purchase (id int PRIMARY KEY, customer int NOT NULL, amount int NOT NULL);
INSERT INTO purchase SELECT n, n % 4000 + 1, n % 997 FROM generate_series(1, 200000) n;
CREATE FUNCTION score(name text) RETURNS int LANGUAGE plpgsql IMMUTABLE COST 1 AS $$
DECLARE found int := 0;
BEGIN
    FOR i IN 1 .. 50 LOOP found := (found * 31 + ascii(substr(name, 1 + i % 32, 1))) % 1000; END LOOP;
    RETURN found;
END $$;
