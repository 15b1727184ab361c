"""pgstrata: did PostgreSQL get slower — where, by how much, is it real, and why?"""

__version__ = "0.1.0"
