"""Campaigns: what to compare, in which order, and doing it."""
