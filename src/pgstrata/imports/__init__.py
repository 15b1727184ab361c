"""Figures of other benchmark programs, imported from their result files: shown, never judged."""

from pgstrata.registry import Capability, Command

CAPABILITY = Capability(
    commands=(
        Command(
            "import",
            "pgstrata.imports.command:import_files",
            "Show results of pgbench, sysbench, HammerDB.",
            "Share",
        ),
    ),
    report="pgstrata.imports.report",
)
