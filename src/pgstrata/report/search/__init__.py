"""What a search over commits, releases or configs found: sentences, JSON, and a page."""
