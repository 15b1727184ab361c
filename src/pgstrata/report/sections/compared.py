"""What was compared: servers, configs and what differs between them, hosts, data sizes, dates."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from pgstrata import numbers
from pgstrata.observe.cpus import sentence
from pgstrata.page.blocks import (
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
    words,
)
from pgstrata.page.results import RunSet
from pgstrata.report.sections.defaults import defaults
from pgstrata.report.sections.settings import builds, not_taken, settings, show_all
from pgstrata.report.sections.sizes import sizes
from pgstrata.store import Run
from pgstrata.store.record import Host, RunRecord, StorageRecord

_LAYOUTS = {
    "shared": "The servers run the same programs, so their memory was laid out alike, by a new draw for all "
    "of them at each start: what a layout makes faster or slower is on both sides.",
    "own": "The kernel laid out the memory of each server by itself when it started. The same server can be "
    "a percent faster or slower by that from one start to the next.",
}
"""What is said of `layout` of a comparison."""


def compared(results: RunSet) -> Section | None:
    """Returns section 1 of the report; None if nothing was measured here."""
    if not results.every:
        return None
    parts = [
        settings(results),
        not_taken(results),
        show_all(results),
        defaults(results),
        builds(results),
        _hosts(results),
        _options(results),
        sizes(results),
    ]
    return Section(
        "compared",
        "What was compared",
        blocks=[_variants(results), *_foreign(results), *_attempts(results)],
        parts=[part for part in parts if part is not None],
    )


def _variants(results: RunSet) -> Table:
    rows = []
    for variant in results.variants:
        runs = [run for run in results.every if run.variant == variant]
        counted = [run for run in results.counted if run.variant == variant and run.done]
        ended_badly = {run.run_id for run in results.failed}
        finished = [run for run in results.runs_of(variant) if run.run_id not in ended_badly]
        done = [*finished, *counted]
        record = (done or runs)[-1].record
        name = f"{variant} (base)" if variant == results.base and len(results.variants) > 1 else variant
        first = min(run.record.started for run in runs)
        failed = sum(run.variant == variant for run in results.failed)
        rows.append(
            Row(
                [
                    words(name),
                    words(record.server.version or numbers.UNKNOWN),
                    words(record.server.spec or numbers.UNKNOWN),
                    words(_config(record)),
                    words(_environment(record)),
                    Cell(len(done), numbers.count(len(done))),
                    Cell(failed, numbers.count(failed), "bad" if failed else ""),
                    words(numbers.moment(first)),
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
        stacked=True,
    )


def _config(record: RunRecord) -> str:
    names = [config_file.name for config_file in record.config.fragments]
    return " + ".join(names) or record.config.name or "the server's own"


def _environment(record: RunRecord) -> str:
    parts = [f"{name}={value}" for name, value in record.env.items()]
    if record.initdb:
        parts.append("initdb " + shlex.join(record.initdb))
    if (storage := record.storage) is not None:
        parts += _storage(storage)
    parts += [f"{name} {version}" for name, version in record.extensions.items()]
    if (replicas := record.replicas) is not None:
        facts = [replicas.replication] + (["serves what only reads"] if replicas.reads == "replica" else [])
        facts += [f"{name} = {value}" for name, value in replicas.settings.items()]
        parts.append(f"a replica ({', '.join(facts)})")
    if (through := record.through) is not None:
        settings = ", ".join(f"{name} = {value}" for name, value in through.settings.items())
        parts.append(
            f"through {through.name} {through.version}".strip() + (f" ({settings})" if settings else "")
        )
    return "; ".join(parts) or numbers.UNKNOWN


def _storage(storage: StorageRecord) -> Iterator[str]:
    for what, place in (("data", storage.data), ("write-ahead log", storage.wal)):
        if place is not None:
            known = ", ".join(filter(None, (place.fs, place.device)))
            yield f"{what} in {place.folder}" + (f" ({known})" if known else "")
    if (delay := storage.delay) is not None:
        yield f"every wait for the disk {numbers.milliseconds(delay.seconds)} ms longer, by {delay.by}"


def _foreign(results: RunSet) -> Iterator[Block]:
    names = [v for v in results.variants if any(not r.record.server.managed for r in results.runs_of(v))]
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


def _attempts(results: RunSet) -> Iterator[Block]:
    """Runs that were stopped and gone on with: which steps are from when."""
    attempts: dict[str, tuple[Run, int, str]] = {}
    for run in results.every:
        if begun := run.record.attempts:
            parts = []
            for number, moment in enumerate(begun, 1):
                names = [step.name for step in run.steps if step.measured and step.attempt == number]
                parts.append(f"{', '.join(names) or 'no step'} from the one of {numbers.moment(moment)}")
            # the runs of a comparison were stopped together
            attempts.setdefault((run.comparison or run.run_id), (run, len(begun), "; ".join(parts)))
    for run, count, steps in attempts.values():
        who = "the comparison" if run.comparison else run.variant
        yield Prose(
            f"{run.workload}, repeat {run.repeat}: {who} was measured in {count} attempts: {steps}.", "even"
        )


def _fact(name: str, value: Any) -> str:
    if name == "virtual":
        return str(value) if value else "no"
    if value is None or value == "":
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_bytes"):
        return "none" if value == 0 else numbers.size(value)
    return str(value)


def _facts_of(name: str, host: Host, same: Sequence[Host]) -> str:
    if not name.startswith("data_dir_"):
        return _fact(name, getattr(host, name))
    facts = dict.fromkeys(_fact(name, getattr(other_host, name)) for other_host in same)
    return "; ".join(facts)


def _hosts(results: RunSet) -> Section | None:
    hosts: dict[str, Host] = {}
    for run in (*results.runs, *results.failed):
        hosts.setdefault(run.record.host.hostname or "unnamed", run.record.host)
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
    for name, host in hosts.items():
        # Variants may have disks of their own.
        same = [run.record.host for run in results.every if (run.record.host.hostname or "unnamed") == name]
        blocks.append(Facts([Term(title, _facts_of(key, host, same)) for key, title in _HOST]))
    places = dict.fromkeys(sentence(run.record.cpus) for run in results.every)
    blocks += [Prose(text) for text in places if text]
    blocks += [Prose(_LAYOUTS[layout]) for layout in dict.fromkeys(_layouts(results))]
    blocks += _networks(results)
    return Section("host", "Host", blocks)


def _networks(results: RunSet) -> Iterator[Block]:
    """Yields a paragraph about whether the servers could reach anything beyond their sockets."""
    known = [run for run in results.every if run.record.network_closed is not None]
    still_open = dict.fromkeys(run.variant for run in known if not run.record.network_closed)
    if still_open:
        yield Prose(
            f"{', '.join(still_open)} kept the network of this machine: allow_outside was set, or the kernel "
            "makes no network namespace for pgstrata (pgstrata doctor says so).",
            "even",
        )
    elif known:
        yield Prose("Servers had no network: clients reached them by Unix sockets only.")


def _layouts(results: RunSet) -> Iterator[str]:
    return (c.layout for run in results.every if (c := run.record.comparison) is not None)


def _options(results: RunSet) -> Section | None:
    """Returns a section about how each workload was set up."""
    blocks: list[Block] = []
    for workload in results.workloads:
        options = [run.record.options for run in workload.runs]
        alike = {
            name: value for name, value in options[0].items() if all(o.get(name) == value for o in options)
        }
        other = sorted({name for o in options for name in o} - set(alike))
        if other:
            blocks.append(
                Prose(
                    f"Not every run of {workload.name} had the same {numbers.plural('option', len(other))}: "
                    f"{', '.join(other)}. Their rates are not comparable without care.",
                    "bad",
                )
            )
        lines = "\n".join(
            f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in alike.items()
        )
        blocks.append(Listing(f"Options of {workload.name}", lines))
    drivers = sorted({run.record.driver_version for run in results.runs})
    if len(drivers) > 1:
        blocks.append(Prose(f"The runs were measured by different drivers: {', '.join(drivers)}.", "bad"))
    return Section("options", "Workloads", blocks) if blocks else None
