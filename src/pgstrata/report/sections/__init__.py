"""The parts of a report: each file makes the sections of one subject, or none without such data."""
