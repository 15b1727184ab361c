-- 200 bytes in the write-ahead log and a commit: no row changes.
SELECT pg_logical_emit_message(true, 'commit', repeat('x', 200));
