-- Tasks: those that are open are few, and the newest of all; the planner thinks they lie anywhere.
CREATE TABLE task (id int PRIMARY KEY, day int NOT NULL, urgency int NOT NULL, queue int NOT NULL, note text NOT NULL);
INSERT INTO task
SELECT n, n / 100, n % 1000 * 7919 % 1000, CASE WHEN n > 396000 THEN 7 ELSE 8 + n % 90 END, repeat('x', 60)
FROM generate_series(1, 400000) n;
CREATE INDEX task_day ON task (day);
CREATE INDEX task_queue ON task (queue);
