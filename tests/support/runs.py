"""Run folders for tests: made by the real store from seeded figures of a plausible server.

`make_campaign` writes whole campaigns, `make_run` one run. What is in them is invented; how it is
written, and every relation between the figures (seconds add up to totals, histograms of the seconds
merge to the step's), is as after a measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from pgstrata.files import digests
from pgstrata.store import Results, Run, RunKey, sums
from pgstrata.store.read import read_run
from pgstrata.store.record import (
    Change,
    Circumstances,
    ConfigFileRecord,
    ConfigRecord,
    Host,
    RunFailure,
    ServerRecord,
    Sizes,
    StepRecord,
)
from pgstrata.store.tables import TABLES
from support.insert import GIB, add_step, sizes
from support.records import circumstances

VARIANTS = ("pg12.22.x10a", "pg17.11.x10a")
INSERT_STEPS = ("l.i0", "l.x", "l.i1", "l.i2", "qr100", "qp100", "qr500", "qp500", "qr1000", "qp1000")


def make_campaign(
    root: Path,
    *,
    campaign: str = "insert-cached",
    variants: Sequence[str] = VARIANTS,
    speeds: Mapping[str, float] | None = None,
    repeats: int = 1,
    seconds: int = 20,
    clients: int = 1,
    missed: Collection[tuple[str, str]] = (),
    failed: Collection[str] = (),
    seed: int = 1,
) -> list[Path]:
    """Finished runs of the Insert Benchmark, all ten steps, one folder per variant and repeat.

    speeds: rate of a variant against the first (default: 5 % more for each further one). missed:
    (variant, step) that miss their SLA. failed: variants whose server dies after l.i1.
    """
    folders = []
    for number, variant in enumerate(variants):
        speed = (speeds or {}).get(variant, 1 + 0.05 * number)
        for repeat in range(1, repeats + 1):
            folders.append(
                make_run(
                    root,
                    RunKey(campaign, variant, "insert", repeat),
                    speed=speed,
                    seconds=seconds,
                    clients=clients,
                    missed=[step for of, step in missed if of == variant],
                    failed_after="l.i1" if variant in failed else None,
                    seed=seed + 1000 * number + repeat,
                )
            )
    return folders


def make_run(
    root: Path,
    key: RunKey,
    *,
    speed: float = 1.0,
    seconds: int = 20,
    clients: int = 1,
    missed: Collection[str] = (),
    failed_after: str | None = None,
    managed: bool = True,
    build: str = "--with-icu --with-lz4",
    host: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    config_file: str = "base-cached",
    seed: int = 1,
) -> Path:
    """One finished run of the Insert Benchmark; `managed=False` as on a server somebody else runs."""
    random = np.random.default_rng(seed)
    version, config = _version_and_config(key.variant)
    run = Results(root).begin(key)
    for order, name in enumerate(INSERT_STEPS, 1):
        add_step(run, random, order, name, speed, seconds, clients, name in missed, managed)
        if name == failed_after:
            break
    run.settings(settings(version, config))
    log = run.folder.parent / f".{run.run_id}.log"
    log.write_text("LOG:  database system is ready to accept connections\n" * 20)
    run.server_log(log)
    log.unlink()
    failure = RunFailure(
        message=f"the server died in step {failed_after}",
        hint="see the tail of its log",
        log_tail="LOG:  server process (PID 4711) was terminated by signal 9: Killed\n",
    )
    dropped = Change(
        name="wal_compression",
        value="lz4",
        fragment="base-cached",
        line=7,
        reason=f"PostgreSQL {version} has no lz4 here",
    )
    return run.finish(
        circumstances(
            status="failed" if failed_after else "done",
            error=failure if failed_after else None,
            server=ServerRecord(
                spec=f"pg:{version}" if managed else "dsn:postgresql://db.example/bench",
                label=f"pg{version}" if managed else f"dsn{version}",
                version=version,
                version_num=_version_num(version),
                build=build if managed else "",
                managed=managed,
            ),
            config=ConfigRecord(
                name=config,
                fragments=(ConfigFileRecord(name=config_file, text="shared_buffers = 25%RAM\n"),),
                settings={"shared_buffers": "4GB", "max_wal_size": "8GB"},
                dropped=() if _version_num(version) >= 140000 else (dropped,),
                mapped=(),
            ),
            initdb=("--locale=C", "--encoding=UTF8"),
            options={"rows": 1_000_000, "clients": clients, "seconds": seconds, **(options or {})},
            seed=seed,
            host=structs.replace(HOST, **(host or {})),
            timings={
                "initdb": 1.4,
                "start": 0.2,
                "setup": 0.1,
                "settle": 20.0,
                "observe": 0.7,
                "stop": 0.3,
                "store": 0.1,
            },
            sizes=sizes(1.0) if managed else Sizes(),
        )
    )


def clone_run(
    root: Path,
    folder: Path,
    key: RunKey,
    factor: float = 1.0,
    change: Callable[[StepRecord], StepRecord] = lambda step: step,
    **circumstances_changed: Any,
) -> Path:
    """A further run with the figures of an existing one, its rates × factor: quick, for many runs."""
    source = read_run(folder)
    assert isinstance(source, Run)
    run = Results(root).begin(key)
    histograms = source.histograms
    # Made of others, or of runs that counted.
    aside = {"histograms", "instructions", "functions", "files", "calls"}
    tables = {name: source.table(name) for name in TABLES if name not in aside}
    for step in source.steps:
        rows: dict[str, Any] = {
            name: [_without(row, "run_id", "step") for row in table.where(step=step.name)]
            for name, table in tables.items()
        }
        changed = change(structs.replace(step, rate=(step.rate or 0.0) * factor))
        run.step(changed, histograms=histograms[step.name], **rows)
    run.settings(source.settings())
    return run.finish(structs.replace(circumstances_of(source), **circumstances_changed))


def _without(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def circumstances_of(run: Run) -> Circumstances:
    """Of a run that is there."""
    return Circumstances(**{name: getattr(run.record, name) for name in Circumstances.__struct_fields__})


def sum_anew(folder: Path) -> None:
    """Writes the check sums of a run folder again, for tests that change its files on purpose."""
    names = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]
    kept = {name: digests.of_file(folder / name) for name in names if name not in ("run.json", sums.NAME)}
    (folder / sums.NAME).write_bytes(sums.text(kept))


def make_many(root: Path, runs: int, *, campaign: str = "many", seconds: int = 10) -> list[Path]:
    """Many runs: 10 variants × as many repeats as it takes."""
    first = make_run(root, RunKey(campaign, "pg9.6.24", "insert", 1), seconds=seconds)
    return [first] + [
        clone_run(
            root,
            first,
            RunKey(campaign, "pg9.6.24" if n % 10 == 0 else f"pg{9 + n % 10}.1", "insert", n // 10 + 1),
            factor=1 + 0.03 * (n % 10) + 0.001 * (n // 10),
        )
        for n in range(1, runs)
    ]


HOST = Host(
    hostname="bench1",
    cpu_model="AMD Ryzen 7 7735HS",
    cpus=8,
    memory_bytes=16 * GIB,
    kernel="6.1.0-28-amd64",
    os="Debian GNU/Linux 12 (bookworm)",
    governor="performance",
    turbo=False,
    thp="madvise",
    swap_bytes=0,
    data_dir_fs="ext4",
    data_dir_device="nvme0n1",
)


def settings(version: str, config: str) -> dict[str, str]:
    """What SHOW ALL could say."""
    return {
        "server_version": version,
        "shared_buffers": "4GB",
        "max_wal_size": "8GB",
        "synchronous_commit": "off",
        "wal_compression": "lz4" if config == "a1" else "off",
        "autovacuum_naptime": "10s",
        "port": str(5400 + _version_num(version) // 10000),
        "data_directory": f"/data/{version}",
    }


def _version_and_config(variant: str) -> tuple[str, str]:
    """`pg17.11.x10a` is 17.11 and x10a."""
    parts = variant.removeprefix("pg").removeprefix("dsn").split(".")
    numbers = [part for part in parts if part.isdigit()]
    return ".".join(numbers) or "17.11", ".".join(p for p in parts if not p.isdigit()) or "default"


def _version_num(version: str) -> int:
    numbers = [int(part) for part in version.split(".")]
    if numbers[0] >= 10:
        return numbers[0] * 10_000 + (numbers[1] if len(numbers) > 1 else 0)
    return numbers[0] * 10_000 + numbers[1] * 100 + (numbers[2] if len(numbers) > 2 else 0)
