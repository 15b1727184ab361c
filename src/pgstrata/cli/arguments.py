"""Options that mean the same in several commands, and the campaign that they ask for."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from pgstrata.campaign.checked import Campaign

RESULTS = Path("results")

ResultsOption = Annotated[
    Path,
    typer.Option(
        "--results", metavar="DIR", help="Folder of the runs (default: results).", show_default=False
    ),
]

WhatArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SERVER…|CAMPAIGN.toml",
        help="Servers, as --server takes them, or one campaign file.",
    ),
]
ServersOption = Annotated[
    list[str] | None,
    typer.Option(
        "--server",
        metavar="SPEC",
        help="pg:17, pg:17.11, path:DIR, dsn:URL, release:9.0.23, tar:FILE, src:DIR, git:DIR#REF; "
        "SPEC=LABEL names it in results. Repeatable, or with commas between.",
    ),
]
BuildsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--build", metavar="NAME", help="What source trees are built with, say o2_nofp. Repeatable."
    ),
]
ConfigsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        metavar="NAME[+NAME]",
        help="A stack of config files and settings: default+work_mem=64MB. Repeatable: one variant each.",
    ),
]
SettingsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set-guc",
        metavar="NAME=VALUE",
        help="A setting of PostgreSQL for all variants, after their config: work_mem=64MB. Repeatable.",
    ),
]
KeepSettingsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--keep-setting",
        metavar="NAME",
        help="A setting of the config that would be left out, say archive_command. Repeatable.",
    ),
]
WorkloadsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--workload",
        metavar="NAME",
        help="Workload to run (default: sysbench; of one --server insert). Repeatable.",
    ),
]
ScriptsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--script", metavar="FILE[@WEIGHT]", help="A pgbench script, run by workload pgbench. Repeatable."
    ),
]
ScaleOption = Annotated[
    str | None, typer.Option("--scale", metavar="NAME", help="A named set of options of the workload.")
]
SetsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="An option of the workload (workload.key=value for one)."
    ),
]
RunsOption = Annotated[
    Path | None, typer.Option("--results", metavar="DIR", help="Folder of the runs (default: results).")
]
MarginOption = Annotated[
    str | None,
    typer.Option(
        "--margin", metavar="SHARE", help="Smallest difference that counts: 0.5% or 0.005 (default: 2%)."
    ),
]
WhySecondsOption = Annotated[
    float | None,
    typer.Option(
        "--why-seconds",
        metavar="S",
        help="Most seconds for why single queries are slower, and what helps (default: 120); 0: none.",
    ),
]
LoadLimitOption = Annotated[
    str | None,
    typer.Option(
        "--other-load",
        metavar="SHARE",
        help="Share of the CPUs that other programs may use (default: 25%); 100% leaves out no slice "
        "that waited for a CPU.",
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show runs, order, time and disk; do nothing.")]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Measure anew what is there already.")]
NoReportOption = Annotated[bool, typer.Option("--no-report", help="Do not write the HTML report.")]
ByOption = Annotated[
    Literal["time", "instructions"],
    typer.Option("--by", help="By time, or by counted instructions (pgstrata count)."),
]
WaitQuietOption = Annotated[
    str | None,
    typer.Option(
        "--wait-quiet",
        metavar="TIME",
        help="Wait until other programs leave the CPUs alone, for 10m at most, say, then measure all the "
        "same.",
    ),
]
NameOption = Annotated[str | None, typer.Option("--name", metavar="NAME", help="Name of the campaign.")]
BaseOption = Annotated[str | None, typer.Option("--base", metavar="LABEL", help="Variant to compare with.")]
DataDirOption = Annotated[
    Path | None, typer.Option("--data-dir", metavar="DIR", help="Folder on the disk to be measured.")
]

# Of commands that measure two servers made from one choice:
WorkloadOption = Annotated[
    str, typer.Option("--workload", metavar="NAME", help="What to run: see pgstrata workloads.")
]
SmallScaleOption = Annotated[
    str | None,
    typer.Option("--scale", metavar="NAME", help="Options of the workload (default: quick, if it has one)."),
]
ConfigOption = Annotated[
    str,
    typer.Option(
        "--config",
        metavar="NAME[+NAME]",
        help="Config files and settings of all servers: default+work_mem=64MB.",
    ),
]
BuildOption = Annotated[
    str | None,
    typer.Option(
        "--build", metavar="NAME", help="What is built with: o2, o2_nofp, o3_native, debug-asserts."
    ),
]
OtherLoadOption = Annotated[
    str,
    typer.Option(
        "--other-load",
        metavar="SHARE",
        help="Share of the CPUs that other programs may use; 100% leaves out no slice that waited for a CPU.",
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of all random streams.")]


@dataclass(frozen=True)
class Asked:
    """What a command line says of a campaign, beside or instead of a file.

    what: servers, or one campaign file. small, usual_workload: what to take where none is given and there is
    no file.
    compares: several variants take turns until each step is known, on small data, unless the command line
    says how they are measured.
    """

    what: Sequence[str] | None
    servers: Sequence[str] | None
    configs: Sequence[str] | None
    workloads: Sequence[str] | None
    scripts: Sequence[str] | None
    scale: str | None
    sets: Sequence[str] | None
    fields: Mapping[str, Any]
    small: str | None = None
    settings: Sequence[str] | None = None
    compares: bool = False
    usual_workload: str | None = None
    fraction: float | None = None

    def read(self) -> Campaign:
        """Returns the checked campaign. Raises UsageError."""
        from pgstrata.campaign.file.reading import (
            COMPARED_WORKLOAD,
            SMALLEST_SCALE,
            Overrides,
            adhoc_campaign,
            read_campaign,
        )
        from pgstrata.campaign.named_servers import divide_arguments

        campaign, servers = divide_arguments(self.what or [], self.servers or [])
        workloads, sets = self.workloads or [], self.sets or []
        if self.scripts:
            workloads = workloads or ["pgbench"]
            # JSON's lists of text are TOML's
            files = json.dumps([os.path.abspath(script) for script in self.scripts])  # noqa: PTH100
            sets = [*sets, f"scripts={files}"]
        small, usual = self.small, self.usual_workload
        if self.what:  # servers by themselves: something small, known soon
            small, usual = small or SMALLEST_SCALE, usual or COMPARED_WORKLOAD
        if not workloads and campaign is None and usual is not None:
            workloads = [usual]
        overrides = Overrides(
            servers=servers,
            configs=self.configs or [],
            workloads=workloads,
            scale=self.scale,
            small=None if campaign else small,
            compares=self.compares and campaign is None,
            sets=sets,
            settings=self.settings or [],
            fraction=self.fraction,
            fields=self.fields,
        )
        return read_campaign(campaign, overrides) if campaign else adhoc_campaign(overrides)
