"""Doing what a campaign asks for: one step, one run, one comparison."""
