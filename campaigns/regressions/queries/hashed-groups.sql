SELECT count(*), max(length(last)) FROM (SELECT max(remark) AS last FROM sale GROUP BY shop, receipt) AS receipts;
