-- New-Order, Delivery and Stock-Level with few statements, as HammerDB has them: each works on all lines of an
-- order, or on all districts. They take the place of those in functions.sql and leave the same rows behind.

CREATE OR REPLACE FUNCTION new_order_transaction(
  p_w_id int, p_d_id int, p_c_id int, p_lines int, p_items int[], p_supplies int[], p_quantities int[]
) RETURNS TABLE (r_o_id int, r_total numeric) LANGUAGE plpgsql AS $$
DECLARE
  v_w_tax numeric; v_d_tax numeric; v_discount numeric; v_last text; v_credit text;
  v_prices numeric[]; v_known int; v_infos text[]; v_numbers int[]; v_info text; v_sum numeric := 0;
  v_local int := CASE WHEN p_w_id = ALL (p_supplies[1:p_lines]) THEN 1 ELSE 0 END;
BEGIN
  SELECT w_tax, c_discount, c_last, c_credit INTO v_w_tax, v_discount, v_last, v_credit
  FROM warehouse, customer WHERE w_id = p_w_id AND c_w_id = p_w_id AND c_d_id = p_d_id AND c_id = p_c_id;
  UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = p_w_id AND d_id = p_d_id
  RETURNING d_next_o_id - 1, d_tax INTO r_o_id, v_d_tax;
  INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
  VALUES (p_w_id, p_d_id, r_o_id, p_c_id, now(), p_lines, v_local);
  INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES (p_w_id, p_d_id, r_o_id);
  SELECT array_agg(i_price ORDER BY number), count(i_price) INTO v_prices, v_known
  FROM generate_series(1, p_lines) number LEFT JOIN item ON i_id = p_items[number];
  IF v_known < p_lines THEN
    RAISE no_data_found;
  END IF;
  WITH line AS (
    SELECT number, p_items[number] AS item, p_supplies[number] AS supply, p_quantities[number] AS quantity
    FROM generate_series(1, p_lines) number ORDER BY p_supplies[number], p_items[number]
  ), taken AS (
    UPDATE stock SET
      s_quantity = s_quantity - quantity + CASE WHEN s_quantity >= quantity + 10 THEN 0 ELSE 91 END,
      s_ytd = s_ytd + quantity,
      s_order_cnt = s_order_cnt + 1,
      s_remote_cnt = s_remote_cnt + CASE WHEN supply = p_w_id THEN 0 ELSE 1 END
    FROM line WHERE s_w_id = supply AND s_i_id = item
    RETURNING number, CASE p_d_id
      WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03 WHEN 4 THEN s_dist_04
      WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06 WHEN 7 THEN s_dist_07 WHEN 8 THEN s_dist_08
      WHEN 9 THEN s_dist_09 ELSE s_dist_10 END AS info
  )
  SELECT array_agg(number), array_agg(info) INTO v_numbers, v_infos FROM taken;
  -- A row is updated once by a statement: an item that is twice in an order is taken again.
  FOR v_number IN 1 .. p_lines LOOP
    v_sum := v_sum + p_quantities[v_number] * v_prices[v_number];
    CONTINUE WHEN array_length(v_numbers, 1) = p_lines OR v_number = ANY (v_numbers);
    UPDATE stock SET
      s_quantity = s_quantity - p_quantities[v_number]
        + CASE WHEN s_quantity >= p_quantities[v_number] + 10 THEN 0 ELSE 91 END,
      s_ytd = s_ytd + p_quantities[v_number],
      s_order_cnt = s_order_cnt + 1,
      s_remote_cnt = s_remote_cnt + CASE WHEN p_supplies[v_number] = p_w_id THEN 0 ELSE 1 END
    WHERE s_w_id = p_supplies[v_number] AND s_i_id = p_items[v_number]
    RETURNING CASE p_d_id
      WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03 WHEN 4 THEN s_dist_04
      WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06 WHEN 7 THEN s_dist_07 WHEN 8 THEN s_dist_08
      WHEN 9 THEN s_dist_09 ELSE s_dist_10 END INTO v_info;
    v_numbers := v_numbers || v_number;
    v_infos := v_infos || v_info;
  END LOOP;
  INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity,
    ol_amount, ol_dist_info)
  SELECT p_w_id, p_d_id, r_o_id, v_numbers[n], p_items[v_numbers[n]], p_supplies[v_numbers[n]],
    p_quantities[v_numbers[n]], p_quantities[v_numbers[n]] * v_prices[v_numbers[n]], v_infos[n]
  FROM generate_series(1, p_lines) n;
  r_total := v_sum * (1 - v_discount) * (1 + v_w_tax + v_d_tax);
  RETURN NEXT;
EXCEPTION WHEN no_data_found THEN
  RETURN;
END
$$;

CREATE OR REPLACE FUNCTION delivery_transaction(p_w_id int, p_carrier int)
RETURNS TABLE (r_d_id int, r_o_id int) LANGUAGE plpgsql AS $$
DECLARE
  v_districts int[]; v_orders int[]; v_customers int[]; v_totals numeric[];
BEGIN
  WITH oldest AS (
    SELECT d, (SELECT min(no_o_id) FROM new_order WHERE no_w_id = p_w_id AND no_d_id = d) AS o
    FROM generate_series(1, 10) d
  ), taken AS (
    DELETE FROM new_order USING oldest WHERE no_w_id = p_w_id AND no_d_id = d AND no_o_id = o
    RETURNING no_d_id, no_o_id
  )
  SELECT array_agg(no_d_id ORDER BY no_d_id), array_agg(no_o_id ORDER BY no_d_id)
  INTO v_districts, v_orders FROM taken;
  WITH delivered AS (
    UPDATE orders SET o_carrier_id = p_carrier
    FROM (SELECT v_districts[n] AS d, v_orders[n] AS o FROM generate_series(1, array_length(v_orders, 1)) n) ids
    WHERE o_w_id = p_w_id AND o_d_id = d AND o_id = o RETURNING o_d_id, o_c_id
  )
  SELECT array_agg(o_c_id ORDER BY o_d_id) INTO v_customers FROM delivered;
  WITH line AS (
    UPDATE order_line SET ol_delivery_d = now()
    FROM (SELECT v_districts[n] AS d, v_orders[n] AS o FROM generate_series(1, array_length(v_orders, 1)) n) ids
    WHERE ol_w_id = p_w_id AND ol_d_id = d AND ol_o_id = o RETURNING ol_d_id, ol_amount
  )
  SELECT array_agg(total ORDER BY ol_d_id) INTO v_totals
  FROM (SELECT ol_d_id, sum(ol_amount) AS total FROM line GROUP BY ol_d_id) paid;
  UPDATE customer SET c_balance = c_balance + v_totals[n], c_delivery_cnt = c_delivery_cnt + 1
  FROM generate_series(1, array_length(v_orders, 1)) n
  WHERE c_w_id = p_w_id AND c_d_id = v_districts[n] AND c_id = v_customers[n];
  FOR n IN 1 .. coalesce(array_length(v_orders, 1), 0) LOOP
    r_d_id := v_districts[n];
    r_o_id := v_orders[n];
    RETURN NEXT;
  END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION stock_level_transaction(p_w_id int, p_d_id int, p_threshold int)
RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_low bigint;
BEGIN
  SELECT count(DISTINCT s_i_id) INTO v_low FROM order_line, stock, district
  WHERE d_w_id = p_w_id AND d_id = p_d_id AND ol_w_id = p_w_id AND ol_d_id = p_d_id
    AND ol_o_id >= d_next_o_id - 20 AND ol_o_id < d_next_o_id
    AND s_w_id = p_w_id AND s_i_id = ol_i_id AND s_quantity < p_threshold;
  RETURN v_low;
END
$$;
