"""The sessions of a captured file, executed again."""
