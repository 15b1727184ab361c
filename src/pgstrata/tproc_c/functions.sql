-- The five transactions of TPC-C, each in one call. The client draws all values, so that every server does the
-- same work: no random number is drawn here.

-- Last name of a number from 0 to 999 (4.3.2.3).
CREATE OR REPLACE FUNCTION last_name(number int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT ('{BAR,OUGHT,ABLE,PRI,PRES,ESE,ANTI,CALLY,ATION,EING}'::text[])[number / 100 + 1]
    || ('{BAR,OUGHT,ABLE,PRI,PRES,ESE,ANTI,CALLY,ATION,EING}'::text[])[number / 10 % 10 + 1]
    || ('{BAR,OUGHT,ABLE,PRI,PRES,ESE,ANTI,CALLY,ATION,EING}'::text[])[number % 10 + 1]
$$;

-- New-Order (2.4). Rows: one, or none where an item is unused and everything has been rolled back.
-- Stocks are locked in one order, so that orders of equal items never wait for each other in a circle.
CREATE OR REPLACE FUNCTION new_order_transaction(
  p_w_id int, p_d_id int, p_c_id int, p_lines int, p_items int[], p_supplies int[], p_quantities int[]
) RETURNS TABLE (r_o_id int, r_total numeric) LANGUAGE plpgsql AS $$
DECLARE
  v_w_tax numeric; v_d_tax numeric; v_discount numeric; v_last text; v_credit text;
  v_price numeric; v_name text; v_data text; v_stock stock; v_info text; v_quantity int;
  v_local int; v_sum numeric := 0; v_line record;
BEGIN
  SELECT w_tax, c_discount, c_last, c_credit INTO v_w_tax, v_discount, v_last, v_credit
  FROM warehouse, customer WHERE w_id = p_w_id AND c_w_id = p_w_id AND c_d_id = p_d_id AND c_id = p_c_id;
  UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = p_w_id AND d_id = p_d_id
  RETURNING d_next_o_id - 1, d_tax INTO r_o_id, v_d_tax;
  v_local := CASE WHEN p_w_id = ALL (p_supplies[1:p_lines]) THEN 1 ELSE 0 END;
  INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
  VALUES (p_w_id, p_d_id, r_o_id, p_c_id, now(), p_lines, v_local);
  INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES (p_w_id, p_d_id, r_o_id);
  FOR v_line IN
    SELECT number, p_items[number] AS item, p_supplies[number] AS supply, p_quantities[number] AS quantity
    FROM generate_series(1, p_lines) number ORDER BY p_supplies[number], p_items[number], number
  LOOP
    SELECT i_price, i_name, i_data INTO v_price, v_name, v_data FROM item WHERE i_id = v_line.item;
    IF NOT FOUND THEN
      RAISE no_data_found;
    END IF;
    UPDATE stock SET
      s_quantity = s_quantity - v_line.quantity
        + CASE WHEN s_quantity >= v_line.quantity + 10 THEN 0 ELSE 91 END,
      s_ytd = s_ytd + v_line.quantity,
      s_order_cnt = s_order_cnt + 1,
      s_remote_cnt = s_remote_cnt + CASE WHEN v_line.supply = p_w_id THEN 0 ELSE 1 END
    WHERE s_w_id = v_line.supply AND s_i_id = v_line.item RETURNING * INTO v_stock;
    v_info := CASE p_d_id
      WHEN 1 THEN v_stock.s_dist_01 WHEN 2 THEN v_stock.s_dist_02 WHEN 3 THEN v_stock.s_dist_03
      WHEN 4 THEN v_stock.s_dist_04 WHEN 5 THEN v_stock.s_dist_05 WHEN 6 THEN v_stock.s_dist_06
      WHEN 7 THEN v_stock.s_dist_07 WHEN 8 THEN v_stock.s_dist_08 WHEN 9 THEN v_stock.s_dist_09
      ELSE v_stock.s_dist_10 END;
    INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity,
      ol_amount, ol_dist_info)
    VALUES (p_w_id, p_d_id, r_o_id, v_line.number, v_line.item, v_line.supply, v_line.quantity,
      v_line.quantity * v_price, v_info);
    v_sum := v_sum + v_line.quantity * v_price;
  END LOOP;
  r_total := v_sum * (1 - v_discount) * (1 + v_w_tax + v_d_tax);
  RETURN NEXT;
EXCEPTION WHEN no_data_found THEN
  RETURN;
END
$$;

-- The customer in the middle of those with a last name, by first name (2.5.2.2); by number where that is given.
CREATE OR REPLACE FUNCTION customer_asked_for(p_w_id int, p_d_id int, p_c_id int, p_name int)
RETURNS int LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_ids int[];
BEGIN
  IF p_c_id > 0 THEN
    RETURN p_c_id;
  END IF;
  v_ids := ARRAY(
    SELECT c_id FROM customer WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_last = last_name(p_name)
    ORDER BY c_first
  );
  RETURN v_ids[(array_length(v_ids, 1) + 1) / 2];
END
$$;

-- Payment (2.5). p_c_id is 0 where the customer is looked for by last name.
CREATE OR REPLACE FUNCTION payment_transaction(
  p_w_id int, p_d_id int, p_c_w_id int, p_c_d_id int, p_c_id int, p_name int, p_cents int
) RETURNS TABLE (r_c_id int, r_balance numeric, r_credit text, r_data text) LANGUAGE plpgsql AS $$
DECLARE
  v_amount numeric := round(p_cents / 100.0, 2); v_w_name text; v_d_name text;
BEGIN
  UPDATE warehouse SET w_ytd = w_ytd + v_amount WHERE w_id = p_w_id RETURNING w_name INTO v_w_name;
  UPDATE district SET d_ytd = d_ytd + v_amount WHERE d_w_id = p_w_id AND d_id = p_d_id
  RETURNING d_name INTO v_d_name;
  r_c_id := customer_asked_for(p_c_w_id, p_c_d_id, p_c_id, p_name);
  UPDATE customer SET
    c_balance = c_balance - v_amount,
    c_ytd_payment = c_ytd_payment + v_amount,
    c_payment_cnt = c_payment_cnt + 1,
    c_data = CASE WHEN c_credit = 'BC' THEN
      left(concat_ws(' ', c_id, c_d_id, c_w_id, p_d_id, p_w_id, v_amount, c_data), 500)
      ELSE c_data END
  WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_id = r_c_id
  RETURNING c_balance, c_credit, CASE WHEN c_credit = 'BC' THEN left(c_data, 200) END
  INTO r_balance, r_credit, r_data;
  INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
  VALUES (r_c_id, p_c_d_id, p_c_w_id, p_d_id, p_w_id, now(), v_amount, v_w_name || '    ' || v_d_name);
  RETURN NEXT;
END
$$;

-- Order-Status (2.6). Rows: the lines of the customer's last order.
CREATE OR REPLACE FUNCTION order_status_transaction(p_w_id int, p_d_id int, p_c_id int, p_name int)
RETURNS TABLE (r_item int, r_supply int, r_quantity int, r_amount numeric, r_delivered timestamptz)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_c_id int; v_balance numeric; v_first text; v_middle text; v_last text;
  v_o_id int; v_entry timestamptz; v_carrier int;
BEGIN
  v_c_id := customer_asked_for(p_w_id, p_d_id, p_c_id, p_name);
  SELECT c_balance, c_first, c_middle, c_last INTO v_balance, v_first, v_middle, v_last
  FROM customer WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_id = v_c_id;
  SELECT o_id, o_entry_d, o_carrier_id INTO v_o_id, v_entry, v_carrier FROM orders
  WHERE o_w_id = p_w_id AND o_d_id = p_d_id AND o_c_id = v_c_id ORDER BY o_id DESC LIMIT 1;
  RETURN QUERY SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
  WHERE ol_w_id = p_w_id AND ol_d_id = p_d_id AND ol_o_id = v_o_id;
END
$$;

-- Delivery (2.7) of the oldest order of each district. Rows: one for each order that was delivered.
CREATE OR REPLACE FUNCTION delivery_transaction(p_w_id int, p_carrier int)
RETURNS TABLE (r_d_id int, r_o_id int) LANGUAGE plpgsql AS $$
DECLARE
  v_c_id int; v_total numeric;
BEGIN
  FOR v_d_id IN 1 .. 10 LOOP
    SELECT no_o_id INTO r_o_id FROM new_order WHERE no_w_id = p_w_id AND no_d_id = v_d_id
    ORDER BY no_o_id LIMIT 1 FOR UPDATE;
    CONTINUE WHEN NOT FOUND;
    DELETE FROM new_order WHERE no_w_id = p_w_id AND no_d_id = v_d_id AND no_o_id = r_o_id;
    UPDATE orders SET o_carrier_id = p_carrier WHERE o_w_id = p_w_id AND o_d_id = v_d_id AND o_id = r_o_id
    RETURNING o_c_id INTO v_c_id;
    UPDATE order_line SET ol_delivery_d = now()
    WHERE ol_w_id = p_w_id AND ol_d_id = v_d_id AND ol_o_id = r_o_id;
    SELECT sum(ol_amount) INTO v_total FROM order_line
    WHERE ol_w_id = p_w_id AND ol_d_id = v_d_id AND ol_o_id = r_o_id;
    UPDATE customer SET c_balance = c_balance + v_total, c_delivery_cnt = c_delivery_cnt + 1
    WHERE c_w_id = p_w_id AND c_d_id = v_d_id AND c_id = v_c_id;
    r_d_id := v_d_id;
    RETURN NEXT;
  END LOOP;
END
$$;

-- Stock-Level (2.8): items of the last 20 orders of a district of which there is little.
CREATE OR REPLACE FUNCTION stock_level_transaction(p_w_id int, p_d_id int, p_threshold int)
RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_next int; v_low bigint;
BEGIN
  SELECT d_next_o_id INTO v_next FROM district WHERE d_w_id = p_w_id AND d_id = p_d_id;
  SELECT count(DISTINCT s_i_id) INTO v_low FROM order_line, stock
  WHERE ol_w_id = p_w_id AND ol_d_id = p_d_id AND ol_o_id >= v_next - 20 AND ol_o_id < v_next
    AND s_w_id = p_w_id AND s_i_id = ol_i_id AND s_quantity < p_threshold;
  RETURN v_low;
END
$$;
