"""The benchmarks: what each one does, as data."""
