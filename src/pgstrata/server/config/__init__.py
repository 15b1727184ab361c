"""Configurations: config files, and what each version of PostgreSQL makes of them."""
