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
            error_codes={"--runner": 128},  # git bisect stops at 128, and takes 1 … 127 for a bad commit
        ),
        Command(
            "patch", "pgstrata.search.commands.patch:patch", "What does a patch do to the speed?", "Searches"
        ),
    ),
)
