-- Customers and their orders, in two partitions.
CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL, orders int NOT NULL DEFAULT 0);
CREATE TABLE orders (
    id bigint GENERATED ALWAYS AS IDENTITY,
    customer_id int NOT NULL REFERENCES customers,
    amount numeric(10,2) NOT NULL,
    day date NOT NULL,
    PRIMARY KEY (id, day)
) PARTITION BY RANGE (day);
CREATE TABLE orders_2024 PARTITION OF orders FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE orders_2025 PARTITION OF orders FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');

INSERT INTO customers SELECT g, 'customer ' || g FROM generate_series(1, 10000) g;
INSERT INTO orders (customer_id, amount, day)
SELECT 1 + g * 7919::bigint % 10000, 1 + g % 500, date '2024-01-01' + (g % 700)::int FROM generate_series(1, 300000) g;
CREATE INDEX ON orders (customer_id);

CREATE FUNCTION count_order() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE customers SET orders = orders + 1 WHERE id = NEW.customer_id;
    RETURN NEW;
END $$;
CREATE TRIGGER count_order AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION count_order();
