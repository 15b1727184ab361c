create table customer (customer int primary key, name text not null);
insert into customer select n, md5(n::text) from generate_series(1, 1000) n;
create function score(name text) returns int language plpgsql stable as $$
declare
  total int := 0;
begin
  for i in 1 .. 50 loop
    total := (total * 31 + ascii(substr(name, 1 + i % 32, 1))) % 1000;
  end loop;
  return total;
end $$;
