"""Configurations: fragments, and what each version of PostgreSQL makes of them."""
