"""The commands `pgstrata bisect` and `pgstrata patch`."""
