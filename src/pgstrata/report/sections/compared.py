"""What was compared: servers, configs and what differs between them, hosts, data sizes, dates."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from pgstrata.report import numbers
from pgstrata.report.blocks import (
    Block,
    Cell,
    Column,
    Facts,
    Listing,
    Prose,
    Row,
    Section,
    Table,
    Term,
    missing,
    words,
)
from pgstrata.report.sections.settings import builds, not_taken, settings, show_all
from pgstrata.report.study import Study, number, part_of
from pgstrata.stats.metrics import GB
from pgstrata.store import Run


def compared(study: Study) -> Section:
    """Section 1 of the report."""
    parts = [
        settings(study),
        not_taken(study),
        show_all(study),
        builds(study),
        _hosts(study),
        _options(study),
        _sizes(study),
    ]
    return Section(
        "compared",
        "What was compared",
        blocks=[_variants(study), *_foreign(study)],
        parts=[part for part in parts if part is not None],
    )


def _variants(study: Study) -> Table:
    rows = []
    for variant in study.variants:
        runs = [run for run in (*study.runs, *study.failed) if run.variant == variant]
        done = study.runs_of(variant)
        data = (done or runs)[-1].data
        name = f"{variant} (base)" if variant == study.base and len(study.variants) > 1 else variant
        times = sorted(str(run.data["started"]) for run in runs if run.data.get("started"))
        failed = sum(run.variant == variant for run in study.failed)
        rows.append(
            Row(
                [
                    words(name),
                    words(str(part_of(data, "server", "version") or numbers.UNKNOWN)),
                    words(str(part_of(data, "server", "spec") or numbers.UNKNOWN)),
                    words(_config(data)),
                    words(_environment(data)),
                    Cell(len(done), numbers.count(len(done))),
                    Cell(failed, numbers.count(failed), "bad" if failed else ""),
                    words(numbers.moment(times[0] if times else None)),
                ],
                variant=variant,
            )
        )
    return Table(
        name="variants",
        title="Variants",
        columns=[
            Column("variant", "Variant", align="left"),
            Column("version", "PostgreSQL", align="left"),
            Column("server", "Server", align="left"),
            Column("config", "Config", align="left"),
            Column("environment", "Environment, initdb", align="left"),
            Column("runs", "Runs finished"),
            Column("failed", "Runs failed"),
            Column("first_started", "First started", align="left"),
        ],
        rows=rows,
        how="A variant is a server with a config: the thing that is compared. Its colour and its label are "
        "the same everywhere in this report. The base is the variant that the others are held against.",
    )


def _config(data: Mapping[str, Any]) -> str:
    fragments = part_of(data, "config", "fragments") or []
    names = [str(f.get("name")) for f in fragments if isinstance(f, dict)]
    return " + ".join(names) or str(part_of(data, "config", "name") or "the server's own")


def _environment(data: Mapping[str, Any]) -> str:
    env = data.get("env") or {}
    parts = [f"{name}={value}" for name, value in env.items()] if isinstance(env, dict) else []
    initdb = data.get("initdb") or []
    if isinstance(initdb, list) and initdb:
        parts.append("initdb " + shlex.join(map(str, initdb)))
    return "; ".join(parts) or numbers.UNKNOWN


def _foreign(study: Study) -> Iterator[Block]:
    names = [
        v
        for v in study.variants
        if any(part_of(r.data, "server", "managed") is False for r in study.runs_of(v))
    ]
    if names:
        verb = "is a server" if len(names) == 1 else "are servers"
        yield Prose(
            f"{', '.join(names)} {verb} that somebody else runs (dsn:). pgstrata neither started nor "
            "configured it and could not see its host: CPU, disk, memory and log events are not known "
            "there, and the host below is the client's.",
            "even",
        )


_HOST: tuple[tuple[str, str], ...] = (
    ("hostname", "Host"),
    ("cpu_model", "CPU"),
    ("cpus", "CPUs"),
    ("memory_bytes", "Memory"),
    ("swap_bytes", "Swap"),
    ("os", "System"),
    ("kernel", "Kernel"),
    ("governor", "CPU governor"),
    ("turbo", "Turbo"),
    ("thp", "Transparent huge pages"),
    ("data_dir_fs", "File system of the data"),
    ("data_dir_device", "Device of the data"),
    ("virtual", "Virtual machine"),
)


def _fact(name: str, value: Any) -> str:
    if name == "virtual":
        return str(value) if value else "no"
    if value is None or value == "":
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_bytes"):
        return "none" if value == 0 else numbers.size(number(value))
    return str(value)


def _hosts(study: Study) -> Section | None:
    hosts: dict[str, dict[str, Any]] = {}
    for run in (*study.runs, *study.failed):
        host = run.data.get("host")
        if isinstance(host, dict):
            hosts.setdefault(str(host.get("hostname") or "unnamed"), host)
    if not hosts:
        return None
    blocks: list[Block] = []
    if len(hosts) > 1:
        blocks.append(
            Prose(
                f"The runs come from {len(hosts)} hosts: {', '.join(hosts)}. Rates of different hosts "
                "differ for reasons that have nothing to do with PostgreSQL.",
                "bad",
            )
        )
    for host in hosts.values():
        blocks.append(Facts([Term(title, _fact(name, host.get(name))) for name, title in _HOST]))
    return Section("host", "Host", blocks)


def _options(study: Study) -> Section | None:
    """How each workload was set up."""
    blocks: list[Block] = []
    for workload in study.workloads:
        options = [run.data["options"] for run in workload.runs if isinstance(run.data.get("options"), dict)]
        if not options:
            continue
        alike = {
            name: value for name, value in options[0].items() if all(o.get(name) == value for o in options)
        }
        other = sorted({name for o in options for name in o} - set(alike))
        if other:
            blocks.append(
                Prose(
                    f"Not every run of {workload.name} had the same options: {', '.join(other)} differ. "
                    "Their rates are not comparable without care.",
                    "bad",
                )
            )
        lines = "\n".join(
            f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in alike.items()
        )
        blocks.append(Listing(f"Options of {workload.name}", lines))
    drivers = sorted({str(r.data.get("driver_version")) for r in study.runs if r.data.get("driver_version")})
    if len(drivers) > 1:
        blocks.append(Prose(f"The runs were measured by different drivers: {', '.join(drivers)}.", "bad"))
    return Section("options", "Workloads", blocks) if blocks else None


def _table_bytes(run: Run, kind: str) -> float | None:
    tables = part_of(run.data, "sizes", "tables")
    if not isinstance(tables, dict) or not tables:
        return None
    return sum(number(part_of(t, kind)) or 0.0 for t in tables.values())


def _gigabytes(value: float | None) -> Cell:
    return missing("not observed") if value is None else Cell(value / GB, numbers.significant(value / GB))


def _sizes(study: Study) -> Section | None:
    rows: list[Row] = []
    for workload in study.workloads:
        for variant in study.variants:
            runs = [run for run in workload.runs if run.variant == variant]
            if not runs:
                continue
            run = runs[-1]
            wal = [number(step.get("wal_bytes")) for step in run.steps]
            known = [w for w in wal if w is not None]
            rows.append(
                Row(
                    [
                        words(variant),
                        words(workload.name),
                        _gigabytes(number(part_of(run.data, "sizes", "database_bytes"))),
                        _gigabytes(number(part_of(run.data, "sizes", "data_dir_bytes"))),
                        _gigabytes(_table_bytes(run, "table_bytes")),
                        _gigabytes(_table_bytes(run, "index_bytes")),
                        _gigabytes(sum(known) if known else None),
                    ],
                    variant=variant,
                )
            )
    if not rows:
        return None
    table = Table(
        name="sizes",
        title="Sizes at the end of a run — smaller is better",
        columns=[
            Column("variant", "Variant", align="left"),
            Column("workload", "Workload", align="left"),
            Column("database", "Database", "GB"),
            Column("data_folder", "Data folder", "GB"),
            Column("tables", "Tables", "GB"),
            Column("indexes", "Indexes", "GB"),
            Column("wal", "WAL written in the steps", "GB"),
        ],
        rows=rows,
        how="Sizes after the last step of the newest run, a GB being 1024³ bytes. The data folder holds the "
        "database, the WAL that was kept and everything else of the server.",
    )
    return Section("sizes", "Data sizes", [table])
