\set customer random(1, :customers)
SELECT c.name, count(*), sum(o.amount) FROM customers c JOIN orders o ON o.customer_id = c.id
WHERE c.id = :customer GROUP BY c.name;
