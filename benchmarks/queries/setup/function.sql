create function work() returns bigint language plpgsql stable as $$
declare
  total bigint := 0;
begin
  for i in 1 .. current_setting('bench.loops')::int loop
    total := total + i % 7;
  end loop;
  return total;
end $$;
