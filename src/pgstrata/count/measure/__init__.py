"""Instructions per operation: counted, not timed."""
