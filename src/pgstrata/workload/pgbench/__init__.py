"""pgbench's tables and scripts."""
