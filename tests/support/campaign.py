"""Plans of campaigns for servers that are only named, never started."""

from __future__ import annotations

from pathlib import Path

from pgstrata.campaign.file.reading import read_campaign
from pgstrata.campaign.plan.runs import Plan, make_plan
from pgstrata.server.find.model import Server
from pgstrata.server.find.recipe import Build
from pgstrata.store import Results

VERSIONS = {"pg:12": ("12.22", 120022), "pg:15": ("15.14", 150014), "pg:17": ("17.6", 170006)}


def server(spec: str, how: Build | None = None) -> Server:
    version, number = VERSIONS[spec]
    return Server(f"pg:{version}", f"pg{version}", version, number, "", Path("/nowhere"), None)


def plan(folder: Path, head: str, *, fresh: bool = False, name: str = "study", options: str = "") -> Plan:
    """Returns the plan of a campaign of the Insert Benchmark. options: more of its options, as TOML."""
    file = folder / f"{name}.toml"
    more = f"[workloads.options]\n{options}\n" if options else ""
    file.write_text(f'{head}\n[[workloads]]\nname = "insert"\nscale = "quick"\n{more}')
    return make_plan(read_campaign(file), Results(folder / "results"), server, fresh=fresh)
