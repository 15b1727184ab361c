"""What sessions asked of a server: read from its logs, kept in a captured file, and replayed."""

from pgstrata.registry import Capability, Command

CAPABILITY = Capability(
    commands=(
        Command(
            "capture",
            "pgstrata.traffic.commands.capture:capture",
            "Your traffic, from a server's logs into one file.",
            "Traffic",
        ),
        Command(
            "record",
            "pgstrata.traffic.commands.record:record",
            "Your traffic, from the wire: a proxy that records.",
            "Traffic",
        ),
        Command(
            "upgrade",
            "pgstrata.traffic.commands.upgrade:upgrade",
            "Your dump and log on old and new: what is slower?",
            "Traffic",
        ),
        Command(
            "export-statistics",
            "pgstrata.traffic.commands.export_statistics:export_statistics",
            "Planner statistics of a server, for plans without its data.",
            "Traffic",
        ),
    ),
    workloads={"replay": "pgstrata.traffic.replay.steps:Replay"},
)
