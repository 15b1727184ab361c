"""The report of a campaign: HTML, Markdown, CSV and tables for the terminal. Reads only run folders."""
