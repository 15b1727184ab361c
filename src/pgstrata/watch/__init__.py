"""The watch: every commit measured, every change dated and explained."""

from pgstrata.registry import Capability, Command

CAPABILITY = Capability(
    commands=(
        Command(
            "watch", "pgstrata.watch.command:watch", "Measure every commit, and date each change.", "Searches"
        ),
    ),
)
