"""Searches: the commit, release or config that made it slower, and what each patch of a series does."""

from pgstrata.registry import Capability, Command

CAPABILITY = Capability(
    errands={"pair": "pgstrata.search.bisect.errands:count_pair_there"},
    commands=(
        Command(
            "bisect",
            "pgstrata.search.commands.bisect:bisect",
            "Find the commit that made it slower.",
            "Searches",
        ),
        Command(
            "patch", "pgstrata.search.commands.patch:patch", "What does a patch do to the speed?", "Searches"
        ),
    ),
)
