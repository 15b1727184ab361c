-- Events, a second apart.
CREATE TABLE event (id int PRIMARY KEY, at timestamp NOT NULL);
INSERT INTO event SELECT n, timestamp '2020-01-01' + n * interval '1 second' FROM generate_series(1, 200000) n;
