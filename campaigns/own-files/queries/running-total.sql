SELECT day, sum(sum(amount)) OVER (ORDER BY day) FROM orders GROUP BY day ORDER BY day;
