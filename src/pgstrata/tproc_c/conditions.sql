-- The consistency conditions of TPC-C (3.3.2), by number: each gives a sentence about what violates it.
-- Condition 11 holds for loaded data only.

-- 1
SELECT format('warehouse %s has w_ytd %s, its districts have %s', w_id, w_ytd, ytd)
FROM warehouse LEFT JOIN (SELECT d_w_id, sum(d_ytd) AS ytd FROM district GROUP BY d_w_id) d ON d_w_id = w_id
WHERE w_ytd IS DISTINCT FROM ytd

-- 2
SELECT format('district %s of warehouse %s has d_next_o_id %s, its last order is %s, its last new order %s',
  d_id, d_w_id, d_next_o_id, o_last, no_last)
FROM district
LEFT JOIN (SELECT o_w_id, o_d_id, max(o_id) AS o_last FROM orders GROUP BY o_w_id, o_d_id) o
  ON o_w_id = d_w_id AND o_d_id = d_id
LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS no_last FROM new_order GROUP BY no_w_id, no_d_id) n
  ON no_w_id = d_w_id AND no_d_id = d_id
WHERE d_next_o_id - 1 IS DISTINCT FROM o_last OR no_last <> o_last

-- 3
SELECT format('district %s of warehouse %s has %s new orders, numbered %s to %s',
  no_d_id, no_w_id, count(*), min(no_o_id), max(no_o_id))
FROM new_order GROUP BY no_w_id, no_d_id HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)

-- 4
SELECT format('district %s of warehouse %s has orders of %s lines, and %s lines', o_d_id, o_w_id, asked, lines)
FROM (SELECT o_w_id, o_d_id, sum(o_ol_cnt) AS asked FROM orders GROUP BY o_w_id, o_d_id) o
LEFT JOIN (SELECT ol_w_id, ol_d_id, count(*) AS lines FROM order_line GROUP BY ol_w_id, ol_d_id) l
  ON ol_w_id = o_w_id AND ol_d_id = o_d_id
WHERE asked IS DISTINCT FROM lines

-- 5
SELECT format('order %s of district %s, warehouse %s has carrier %s and new order %s',
  o_id, o_d_id, o_w_id, coalesce(o_carrier_id::text, 'none'), coalesce(no_o_id::text, 'none'))
FROM orders LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)

-- 6
SELECT format('order %s of district %s, warehouse %s is of %s lines, and has %s', o_id, o_d_id, o_w_id, o_ol_cnt,
  lines)
FROM orders
LEFT JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS lines FROM order_line
  GROUP BY ol_w_id, ol_d_id, ol_o_id) l ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
WHERE o_ol_cnt IS DISTINCT FROM lines

-- 7
SELECT format('line %s of order %s of district %s, warehouse %s was delivered %s, its order has carrier %s',
  ol_number, o_id, o_d_id, o_w_id, coalesce(ol_delivery_d::text, 'never'), coalesce(o_carrier_id::text, 'none'))
FROM orders, order_line
WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
  AND (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)

-- 8
SELECT format('warehouse %s has w_ytd %s, its history has %s', w_id, w_ytd, paid)
FROM warehouse LEFT JOIN (SELECT h_w_id, sum(h_amount) AS paid FROM history GROUP BY h_w_id) h ON h_w_id = w_id
WHERE w_ytd IS DISTINCT FROM paid

-- 9
SELECT format('district %s of warehouse %s has d_ytd %s, its history has %s', d_id, d_w_id, d_ytd, paid)
FROM district
LEFT JOIN (SELECT h_w_id, h_d_id, sum(h_amount) AS paid FROM history GROUP BY h_w_id, h_d_id) h
  ON h_w_id = d_w_id AND h_d_id = d_id
WHERE d_ytd IS DISTINCT FROM paid

-- 10
SELECT format('customer %s of district %s, warehouse %s has balance %s, orders of %s and payments of %s',
  c_id, c_d_id, c_w_id, c_balance, coalesce(amount, 0), coalesce(paid, 0))
FROM customer
LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS amount FROM orders, order_line
  WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id AND ol_delivery_d IS NOT NULL
  GROUP BY o_w_id, o_d_id, o_c_id) delivered ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid FROM history
  GROUP BY h_c_w_id, h_c_d_id, h_c_id) h ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
WHERE c_balance <> coalesce(amount, 0) - coalesce(paid, 0)

-- 12
SELECT format('customer %s of district %s, warehouse %s has balance %s, has paid %s, and has orders of %s',
  c_id, c_d_id, c_w_id, c_balance, c_ytd_payment, coalesce(amount, 0))
FROM customer
LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS amount FROM orders, order_line
  WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id AND ol_delivery_d IS NOT NULL
  GROUP BY o_w_id, o_d_id, o_c_id) delivered ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
WHERE c_balance + c_ytd_payment <> coalesce(amount, 0)
