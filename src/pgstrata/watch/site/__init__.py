"""The site of watches and results: static pages, a feed of alarms, JSON beside each page."""
