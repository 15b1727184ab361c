"""Verdicts for assistants: a server of the Model Context Protocol on standard input and output."""

from pgstrata.registry import Capability, Command

CAPABILITY = Capability(
    commands=(Command("mcp", "pgstrata.assist.command:mcp", "Answer assistants with verdicts.", "Share"),),
)
