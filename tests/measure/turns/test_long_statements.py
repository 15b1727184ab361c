"""Statements that are longer than a slice: turns end with them, and no two servers work at the same time."""

from __future__ import annotations

import gzip
import itertools
import re
import statistics
import time
from datetime import datetime
from pathlib import Path

import pytest

from pgstrata.driver.events import SliceEnded
from pgstrata.measure.turns.given import GivenTurns
from pgstrata.server.find.model import Server
from pgstrata.store import Results
from pgstrata.turns.windows import GROWN_SECONDS, grown_slice
from pgstrata.workload.core.language import Headline, Step
from support.interleaved import by_variant
from support.program import Program

LINE = re.compile(r"^(\S+ \S+) UTC .*LOG: +duration: (\d+\.\d+) ms .*pg_sleep", re.MULTILINE)


@pytest.mark.parametrize(
    ("statement", "grown"),
    [(0.0001, None), (0.005, None), (0.01, 0.05), (0.05, 0.25), (0.1, GROWN_SECONDS), (30.0, GROWN_SECONDS)],
)
def test_a_slice_grows_with_its_statements(statement: float, grown: float | None) -> None:
    assert grown_slice(0.02, statement) == grown


def test_slices_that_are_long_already_stay() -> None:
    assert grown_slice(0.2, 0.03) is None
    assert grown_slice(0.2, 0.06) == pytest.approx(0.3)


def write(place: Path, server: Server, seconds: float, clients: int, more: str, variants: int = 2) -> Path:
    """A campaign with a script that takes so many seconds; every server writes down when it was executed."""
    (place / "sleep.sql").write_text(f"SELECT pg_sleep({seconds});\n")
    log = '"log_min_duration_statement=0"'
    each = "\n".join(
        f'[[variants]]\nserver = "{server.spec}"\nlabel = "{label}"\nconfig = ["default", {log}]'
        for label in "abc"[:variants]
    )
    file = place / "long.toml"
    file.write_text(
        f"""
name = "long"
data_dir = "data"
order = "interleaved"
slice_seconds = 0.02
other_load = 1
{more}
{each}
[[workloads]]
name = "custom"
[workloads.options]
scripts = ["sleep.sql"]
clients = [{clients}]
reads_only = true
warmup = 0
seconds = 4
"""
    )
    return file


@pytest.mark.parametrize(("clients", "variants"), [(1, 2), (4, 3)])
def test_no_two_servers_work_at_the_same_time(
    place: Path, pgstrata: Program, pg17: Server, clients: int, variants: int
) -> None:
    done = pgstrata("run", write(place, pg17, 0.3, clients, "", variants), "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "a turn ends with its transactions" in done.stdout + done.stderr
    executions = []
    for run in Results(place / "results").runs():
        log = gzip.decompress((run.folder / "server.log.gz").read_bytes()).decode()
        for text, milliseconds in LINE.findall(log):
            end = datetime.fromisoformat(text).timestamp()
            executions.append((end - float(milliseconds) / 1000, end, run.variant))
    executions.sort()
    assert len({variant for _, _, variant in executions}) == variants
    for (_, end, earlier), (begin, _, other) in itertools.pairwise(executions):
        assert earlier == other or begin >= end - 0.002
    for variant, record in by_variant(place).items():
        step = record["steps"][-1]
        assert step["turns"] == "windows" and step["slice_seconds"] == GROWN_SECONDS
        assert all(slice_["seconds"] >= 0.6 for slice_ in step["slices"]), variant
        # Two executions for each connection in 0.6 s; none that was under way at the begin counts.
        rate = clients / 0.3
        rates = [slice_["rate"] for slice_ in step["slices"]]
        assert max(rates) < 1.01 * rate
        # On a busy machine executions take longer than they sleep.
        assert 0.5 * rate < statistics.median(rates) and 0.5 * rate < step["rate"] < 1.01 * rate
        pairs = [slice_["pair"] for slice_ in step["slices"]]
        assert pairs == list(range(1, len(pairs) + 1)) and len(pairs) >= 4
        assert 4 <= step["seconds"] < 8
        assert sum(slice_["seconds"] for slice_ in step["slices"]) == pytest.approx(step["seconds"], rel=0.02)


def test_a_transaction_that_does_not_fit_is_refused_with_the_number_to_use(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    file = write(place, pg17, 2.0, 1, 'until = "verdict"\nmax_seconds = 3')
    done = pgstrata("run", file, "--no-report")
    assert done.returncode != 0
    output = " ".join((done.stdout + done.stderr).split())
    assert "a transaction takes 2" in output and "max_seconds = 3 leaves 1.5" in output
    assert re.search(r"max_seconds = 3[23] or more", output)
    runs = Results(place / "results").runs()
    assert [run.record.status for run in runs] == ["failed", "failed"], output


def test_one_of_three_that_ends_early_leaves_the_turns_to_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0]
    monkeypatch.setattr(time, "monotonic_ns", lambda: now[0])
    monkeypatch.setattr(time, "monotonic", lambda: now[0] / 1e9)
    step = Step("s", [], Headline("query", "operations", "transactions/s"), seconds=0.02, reads_only=True)
    turns = GivenTurns(step, 0.001, 3, 0)
    turns.begin()
    order: list[int] = []
    for own_turns in turns.members:
        own_turns.is_started = True
    for _ in range(200):
        over = [False, len(order) > 4, False]
        turns.go_on(over)
        if turns.turn is None:
            break
        own_turns = turns.members[turns.turn]
        order.append(turns.turn)
        now[0] += 2_000_000
        own_turns.stretch(SliceEnded(number=own_turns.ended))
    assert turns.turn is None and turns.pairs == 10
    assert order[:3] == [0, 1, 2] and order.count(1) <= 3
    assert abs(order.count(0) - order.count(2)) <= 1
