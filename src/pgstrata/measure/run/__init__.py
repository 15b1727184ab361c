"""One variant, workload and repeat, from its cluster to its folder."""
