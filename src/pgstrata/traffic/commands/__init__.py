"""The commands `pgstrata capture` and `pgstrata upgrade`."""
