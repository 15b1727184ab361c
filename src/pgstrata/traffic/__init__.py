"""What sessions asked of a server: read from its logs, kept in a captured file."""
