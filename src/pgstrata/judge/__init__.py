"""Reads runs and says words: verdicts with their evidence, explanations, the SLA, tuning classes."""
