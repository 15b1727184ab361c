"""Counting instead of timing: instructions per operation, exact on any machine."""

from pgstrata.registry import Capability, Command

CAPABILITY = Capability(
    commands=(
        Command(
            "count", "pgstrata.count.command:count", "Instructions per operation, not time.", "Instructions"
        ),
    ),
    errands={"count": "pgstrata.count.errands:count_there"},
    prints={
        "compare": ("pgstrata.count.verdicts:CountRecords",),
        "check": ("pgstrata.count.verdicts:CountRecords",),
        "study show": ("pgstrata.count.verdicts:CountRecords",),
        "noise": ("pgstrata.count.by:CountNoiseRecord",),
    },
    report="pgstrata.count.report",
    kinds={"instructions": "pgstrata.count.by"},
)
