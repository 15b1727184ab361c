SELECT c.name, sum(o.amount) AS turnover FROM customers c JOIN orders o ON o.customer_id = c.id
GROUP BY c.id ORDER BY turnover DESC, c.id LIMIT 10;
