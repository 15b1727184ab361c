"""What all workloads are written in: the language, values, options, recorded statements."""
