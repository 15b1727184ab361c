"""A server's logs, in all forms in which it writes them, line by line."""
