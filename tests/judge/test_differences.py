from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pgstrata.judge.differences import differences, doubts
from pgstrata.store import Results, Run, RunKey
from pgstrata.store.read import read_run
from pgstrata.store.record import Sizes
from support.records import circumstances
from support.runs import clone_run, make_run


def read(folder: Path) -> Run:
    run = read_run(folder)
    assert isinstance(run, Run)
    return run


def changed(run: Run, **keys: Any) -> Run:
    return Run(run.folder, structs.replace(run.record, **keys))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return read(make_run(tmp_path_factory.mktemp("r"), RunKey("c", "pg17.11.a0", "insert", 1), seconds=2))


def test_a_repeat_differs_in_nothing(base: Run, tmp_path: Path) -> None:
    other = read(clone_run(tmp_path, base.folder, RunKey("c", "pg17.11.a0", "insert", 2)))
    assert differences(base, other) == []


def test_another_version_and_config_are_what_is_compared(base: Run, tmp_path: Path) -> None:
    other = read(make_run(tmp_path, RunKey("c", "pg12.22.a1", "insert", 1), seconds=2))
    by_name = {(d.kind, d.name): (d.base, d.other) for d in differences(base, other)}
    assert by_name == {
        ("server", "spec"): ("pg:17.11", "pg:12.22"),
        ("server", "version"): ("17.11", "12.22"),
        ("config", "name"): ("a0", "a1"),
        ("setting", "wal_compression"): ("off", "lz4"),
    }
    assert doubts([base, other]) == []


def test_what_makes_a_comparison_doubtful_is_named_and_comes_first(base: Run, tmp_path: Path) -> None:
    other = read(
        make_run(
            tmp_path,
            RunKey("c", "pg12.22.a0", "insert", 1),
            seconds=2,
            clients=4,
            options={"rows": 50_000_000},
            host={"hostname": "bench2", "cpus": 16},
        )
    )
    all_differences = differences(base, other)
    doubtful = {str(d) for d in all_differences if d.doubtful}
    assert doubtful == {
        "option rows: 1000000 and 50000000",
        "option clients: 1 and 4",
        "host hostname: bench1 and bench2",
        "host cpus: 8 and 16",
    }
    assert [d.doubtful for d in all_differences] == sorted(
        (d.doubtful for d in all_differences), reverse=True
    )
    assert {str(d) for d in doubts([base, other])} == doubtful
    assert {d.name for d in all_differences if d.wrong} == {"rows", "clients"}


def test_programs_and_data(base: Run) -> None:
    steps = tuple(structs.replace(step, engine="io_uring") for step in base.steps)
    other = changed(base, driver_version="0.2.0", sizes=Sizes(database_bytes=5), steps=steps)
    by_name = {(d.kind, d.name): d.doubtful for d in differences(base, other)}
    assert by_name == {
        ("program", "driver"): True,
        ("program", "engine"): True,
        ("data", "database_bytes"): False,
    }


def with_engines(run: Run, **engines: str) -> Run:
    """The run with these steps only, each with its engine."""
    template = run.steps[-1]
    steps = (structs.replace(template, name=name, engine=engine) for name, engine in engines.items())
    return changed(run, steps=tuple(steps))


def test_engines_are_compared_step_by_step(base: Run) -> None:
    loaded = with_engines(base, load="blocking", scan="io_uring", insert="io_uring")
    # Only the base ran the load; the other got a copy of its data.
    assert doubts([loaded, with_engines(base, scan="io_uring", insert="io_uring")]) == []
    (doubt,) = doubts([loaded, with_engines(base, scan="io_uring", insert="blocking")])
    assert str(doubt) == "program engine of insert: io_uring and blocking"
    many = with_engines(base, **dict.fromkeys("abcdef", "blocking"))
    (doubt,) = doubts([many, with_engines(base, **dict.fromkeys("abcde", "io_uring"), f="blocking")])
    assert str(doubt) == "program engine of a, b, c and 2 more: blocking and io_uring"


def test_the_engine_of_an_unmeasured_load_makes_no_doubt(base: Run) -> None:
    first, second = (with_engines(base, load=load, scan="io_uring") for load in ("blocking", "io_uring"))
    unmeasured = [
        changed(run, steps=(structs.replace(run.steps[0], measured=False), *run.steps[1:]))
        for run in (first, second)
    ]
    assert doubts(unmeasured) == []


def test_environment_and_initdb(base: Run) -> None:
    other = changed(base, env={"LD_PRELOAD": "x.so"}, initdb=("--data-checksums",))
    assert [str(d) for d in differences(base, other)] == [
        "environment LD_PRELOAD: not set and x.so",
        "environment initdb: ['--locale=C', '--encoding=UTF8'] and ['--data-checksums']",
    ]


def test_another_workload_is_no_comparison(base: Run) -> None:
    other = changed(base, workload="sysbench")
    (difference,) = differences(base, other)
    assert (difference.kind, difference.doubtful) == ("workload", True)


def test_missing_parts_are_no_crash(base: Run, tmp_path: Path) -> None:
    bare = Results(tmp_path).begin(RunKey("c", "v", "insert", 1)).finish(circumstances())
    assert differences(base, read(bare))
    assert differences(read(bare), read(bare)) == []


def test_each_doubt_is_named_once(base: Run) -> None:
    other = changed(base, driver_version="0.2.0")
    assert len(doubts([base, other, other, other])) == 1
    assert doubts([]) == []
