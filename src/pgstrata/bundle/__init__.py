"""Bundles: a campaign's results in one file that anybody can verify and draw."""

from pgstrata.registry import Capability, Command

CAPABILITY = Capability(
    commands=(
        Command("bundle", "pgstrata.bundle.command:bundle", "Put results into one file to share.", "Share"),
        Command("verify", "pgstrata.bundle.command:verify", "Judge the results of a bundle anew.", "Share"),
    ),
    unpackers={".pgstrata": "pgstrata.bundle.packing:results_of"},
)
