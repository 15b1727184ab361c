"""The report of a campaign: HTML, Markdown, CSV and tables for the terminal. Reads only run folders."""

from pgstrata.report.write import Report, write_report

__all__ = ["Report", "write_report"]
