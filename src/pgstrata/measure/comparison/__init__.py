"""Variants that take turns at the steps of one workload."""
