"""What TPC-DS and TPC-H have in common: rows, query texts, load, query runs, answers checked, report."""
