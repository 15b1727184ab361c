WITH scored AS (SELECT id, score(name) AS points FROM customer WHERE region = 7)
SELECT scored.points, count(*) FROM purchase JOIN scored ON scored.id = purchase.customer
GROUP BY scored.points, scored.points % 7, scored.points % 11, scored.points + purchase.amount % 2 ORDER BY 1 LIMIT 10;
