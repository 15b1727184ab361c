\set customer random(1, :customers)
INSERT INTO orders (customer_id, amount, day) VALUES (:customer, 9.99, '2025-06-01');
