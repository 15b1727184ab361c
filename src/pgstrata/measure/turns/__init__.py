"""Doing a comparison: variants that take turns, each kind of turns in a file of its own."""
