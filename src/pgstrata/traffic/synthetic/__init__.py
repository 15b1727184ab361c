"""A captured file made without a log: of what pg_stat_statements counted and ANALYZE found in the tables."""
