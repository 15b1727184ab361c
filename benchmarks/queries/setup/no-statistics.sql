create table customer (customer int primary key, region int not null, credit numeric not null);
insert into customer select n, n % 20, 500 from generate_series(1, 5000) n;
create table orders (id int primary key, customer int not null, day int not null, amount numeric not null, note text);
insert into orders
select n, n % 5000 + 1, n, n % 1000, md5(n::text) from generate_series(1, 150000) n;
create index on orders (customer);
create index on orders (day);
do $$ begin
  if current_setting('server_version_num')::int >= 170000 then
    alter table orders alter column day set statistics 0;
  end if;
end $$;
