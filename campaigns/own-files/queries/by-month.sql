SELECT date_trunc('month', day) AS month, count(*), avg(amount) FROM orders GROUP BY 1 ORDER BY 1;
