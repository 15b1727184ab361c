"""Slices so short that all drivers work at once, each in its own windows: on real servers."""

from __future__ import annotations

import gzip
import json
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.campaign.file.reading import read_campaign
from pgstrata.campaign.plan.model import PlannedVariant
from pgstrata.campaign.plan.order import begins_anew, schedule_of
from pgstrata.driver.spec import WindowsSpec
from pgstrata.layout import draw
from pgstrata.observe.profile import unavailable
from pgstrata.server.config.resolve import Resolved
from pgstrata.server.features import NEWEST
from pgstrata.server.find.model import Server
from pgstrata.store import Results
from pgstrata.turns.windows import WindowSchedule, block_lengths, warmup_of_block, window_moment
from pgstrata.workload.core.language import Step
from support.interleaved import by_variant, write
from support.program import Program, Running, living_in
from support.records import on_disk


@given(
    participants=st.integers(2, 7),
    slice_=st.sampled_from([0.005, 0.02, 0.1]),
    warmup=st.floats(0, 3),
    seed=st.integers(0, 2**32),
    actives=st.lists(st.floats(0, 60), min_size=1, max_size=20),
)
def test_windows_do_not_overlap_and_time_goes_on(
    participants: int, slice_: float, warmup: float, seed: int, actives: list[float]
) -> None:
    windows = WindowSchedule(slice_, participants, warmup, seed)
    for positions in zip(
        *(windows.positions(participant) for participant in range(participants)), strict=True
    ):
        assert sorted(positions) == list(range(participants))
    stride = slice_ + windows.gap_seconds
    for participant in range(participants):
        moments = [windows.moment(participant, active) for active in sorted(actives)]
        assert moments == sorted(moments)
        assert moments[0] >= warmup - 1e-9
        begins = [windows.moment(participant, (k + 1e-6) * slice_) / stride for k in range(4 * participants)]
        assert all(begin == pytest.approx(round(begin), abs=1e-5) for begin in begins)


VECTORS = json.loads((Path(__file__).parents[2] / "windows.json").read_text())
"""What the driver's own tests are held against, too."""


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v['windows']['slice_seconds']} s")
def test_windows_begin_when_those_of_the_driver_do(vector: dict[str, Any]) -> None:
    windows = msgspec.convert(vector["windows"], WindowsSpec)
    warmup, first = vector["warmup_seconds"], vector["warmup_windows"]
    begins = [
        window_moment(windows, warmup, number * windows.slice_seconds)
        for number in range(len(vector["starts_ns"]) - first)
    ]
    assert [round(begin * 1e9) for begin in begins] == vector["starts_ns"][first:]
    half = windows.slice_seconds / 2
    last = (vector["measured_windows"] - 1) * windows.slice_seconds
    assert window_moment(windows, warmup, last + half) == pytest.approx(vector["end_ns"] / 1e9 - half)


@given(seconds=st.floats(0.001, 10_000), fixed=st.booleans())
def test_blocks_make_the_whole(seconds: float, fixed: bool) -> None:
    lengths = block_lengths(seconds, fixed=fixed)
    assert sum(lengths) == pytest.approx(seconds)
    assert len(lengths) % 2 == 0, "as many in one order as in the other"
    assert len(set(lengths)) == 1, "each block counts alike"
    if fixed:
        assert len(lengths) <= 40, "not many connections, however long it takes"
        assert len(lengths) >= 8 or seconds < 2.0, "as many as a verdict needs"
    else:
        assert 0.6 <= lengths[0] <= 1.5 or seconds < 2.0


def anew_with(file: Path, *servers: Server, **of_each: Any) -> bool:
    """Whether the campaign would start these servers anew between blocks."""
    campaign = read_campaign(file)
    variants = [
        PlannedVariant(campaign.variants[0], server, Resolved("plain"), server.label, **of_each)
        for server in servers
    ]
    return begins_anew(campaign.spec, campaign.workloads[0], variants)


def test_small_margins_need_servers_that_begin_anew(place: Path, pg17: Server) -> None:
    for margin, anew in (("0.005", True), ("0.01", False), ("0.02", False)):
        file = write(place, pg17, ["point-query"], slice_=0.02, more=f"margin = {margin}")
        assert anew_with(file, pg17, pg17) is anew


def test_verdicts_need_servers_that_begin_anew(place: Path, pg17: Server) -> None:
    """Equal servers differ from start to start. With much data they would begin with empty buffers."""

    def anew(until: str, rows: int = 500, **of_each: Any) -> bool:
        file = write(place, pg17, ["point-query"], slice_=0.02, rows=rows, more=until)
        return anew_with(file, pg17, pg17, **of_each)

    verdict = 'until = "verdict"'
    assert anew(verdict)
    assert anew("margin = 0.005")
    assert not anew('until = "time"'), "of a given length"
    assert not anew(f"{verdict}\nmargin = 0.1"), "a tenth is no start"
    assert not anew(verdict, rows=10_000_000)
    assert not anew(verdict, memory=1 << 30), "its caches are emptied when it starts"


def test_only_the_first_block_warms_up_as_the_step_asks(place: Path, pg17: Server) -> None:
    file = write(place, pg17, ["point-query"], slice_=0.02, seconds=20)
    file.write_text(file.read_text().replace("warmup = 0", "warmup = 7"))
    campaign = read_campaign(file)
    phases = campaign.workloads[0].phases(NEWEST)
    (step,) = (phase for phase in phases if isinstance(phase, Step) and phase.name == "point-query")
    windows = schedule_of(step, campaign.spec).step
    assert [warmup_of_block(number, windows.warmup) for number in (1, 2, 9)] == [7.0, 0.1, 0.1]
    again = [warmup_of_block(number, windows.warmup, data_bytes=400 << 20) for number in (1, 2, 9)]
    assert again == [1.1, 1.1, 1.1], "a server that has been started anew reads its data again"


@pytest.mark.slow
def test_servers_begin_anew_between_blocks(place: Path, pgstrata: Program, pg17: Server) -> None:
    file = write(place, pg17, ["point-query"], slice_=0.02, seconds=20, more="margin = 0.005")
    done = pgstrata("run", file, "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    for run in Results(place / "results").runs():
        step = next(s for s in on_disk(run)["steps"] if s["name"] == "point-query")
        assert step["turns"] == "windows"
        assert step["blocks"] == [*range(50, 1001, 50)], "as many in one order as in the other"
        assert "span" not in step, "nobody looks before the end"
        assert "one_start" not in step
        assert on_disk(run)["comparison"]["layout"] == ("own" if draw() is None else "shared")
        # The load, the comparison's begin, and two starts of each.
        log = gzip.decompress((run.folder / "server.log.gz").read_bytes())
        assert log.count(b"database system is ready to accept connections") >= 12
        assert log.count(b"database system was interrupted") == 0
    compared = pgstrata("compare", "a", "b", "--format", "json")
    (judged_step,) = json.loads(compared.stdout)[0]["steps"]
    assert (judged_step["margin"], judged_step["evidence"]) == (0.005, "slices")


def test_blocks_have_connections_of_their_own(place: Path, pgstrata: Program, pg17: Server) -> None:
    file = write(place, pg17, ["point-query"], slice_=0.02, seconds=4, more="waits = 50.0")
    done = pgstrata("run", file, "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    for run in Results(place / "results").runs():
        step = next(s for s in on_disk(run)["steps"] if s["name"] == "point-query")
        # One whose window fell into a stall of the machine is left out: on a busy one, many are.
        pairs = [s["pair"] for s in step["slices"]]
        assert pairs == sorted(set(pairs) & set(range(1, 201)))
        assert any(p > 100 for p in pairs), "of a later block"
        assert not {1, *(block + 1 for block in step["blocks"])} & set(pairs), "counters are read meanwhile"
        assert 0 < sum(s["rate"] * s["seconds"] for s in step["slices"]) < step["operations"] + 1
        series = run.table("series")
        rows = series.where(step="point-query", role=step["role"])
        assert sum(rows["operations"]) == step["operations"]
        assert rows["second"] == list(range(len(rows)))
        assert step["waits_cost"]["polls"] > 0
        # What each of the three connections did, one after the other, is there.
        backends = run.table("backends")
        (backend,) = backends.where(step="point-query", role=step["role"])
        (others,) = backends.where(step="point-query", role="server")
        cpu_seconds = backend["cpu_seconds"] + others["cpu_seconds"]
        assert backend["cpu_seconds"] > others["cpu_seconds"] / 2, "one connection alone would be less"
        assert cpu_seconds == pytest.approx(step["server_cpu_seconds"], rel=0.05)


@pytest.mark.parametrize("engine", ["blocking", "auto"])
def test_short_slices(place: Path, pgstrata: Program, pg17: Server, engine: str) -> None:
    more = f'engine = "{engine}"\nwaits = 50.0'
    file = write(place, pg17, ["point-query", "read-only=10"], slice_=0.02, seconds=1, more=more)
    done = pgstrata("run", file, "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    for run in Results(place / "results").runs():
        series = run.table("series")
        for name in ("point-query", "read-only=10"):
            step = next(s for s in on_disk(run)["steps"] if s["name"] == name)
            slices = step["slices"]
            # One whose window fell into a stall of the machine is left out: on a busy one, many are.
            pairs = [s["pair"] for s in slices]
            assert pairs == sorted(set(pairs) & set(range(1, 53)))
            assert len(pairs) > 2
            assert step["one_start"], "no slice tells what its server is by chance"
            # stored in whole microseconds
            assert sum(s["seconds"] for s in slices) <= step["seconds"] + 1e-6 * len(slices)
            assert 0 < sum(s["rate"] * s["seconds"] for s in slices) <= step["operations"] * (1 + 1e-5)
            assert engine in ("auto", step["engine"])
            rows = series.where(step=name, role=step["role"])
            assert sum(rows["operations"]) == step["operations"]
            assert rows["second"] == list(range(len(rows)))
            # Half of the time belongs to the other variant: it is in no share of this one's.
            assert step["server_cpu_seconds"] > 0
            assert step["waits_cost"]["polls"] > 0
            # Two switches an operation at most, where each waits for the other: not those of both variants.
            assert 0 < step["metrics"]["cspq"] < 50
            assert step["metrics"]["rkbpq"] is not None and step["metrics"]["rpq"] is None
            assert step["metrics"]["cpupq"] > 0 and step.get("host_cpu_seconds") is None
            assert any("this server's processes" in note for note in step["notes"])
        # The server has counted the same, and the warm-up before it.
        counters = run.table("pgstat")
        (row,) = counters.where(step="point-query", counter="xact_commit", object="pgstrata")
        operations = next(s["operations"] for s in on_disk(run)["steps"] if s["name"] == "point-query")
        assert operations < row["after"] - row["before"]
    compared = pgstrata("compare", "a", "b", "--format", "json")
    assert compared.returncode == 0, compared.stderr
    assert all(s["n"] <= 52 for s in json.loads(compared.stdout)[0]["steps"])
    assert pgstrata("report").returncode == 0


def test_short_slices_until_a_verdict(place: Path, pgstrata: Program, pg17: Server) -> None:
    """It ends at the verdict or at the limit; one of the two has to be what is told afterwards."""
    more = 'until = "verdict"\nmax_seconds = 24\nmargin = 0.3'
    file = write(place, pg17, ["point-query"], slice_=0.02, seconds=600, more=more)
    done = pgstrata("run", file, "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    runs = by_variant(place).values()
    steps = [next(s for s in run["steps"] if s["name"] == "point-query") for run in runs]
    compared = pgstrata("compare", "a", "b", "--margin", "30%", "--format", "json")
    (verdict,) = json.loads(compared.stdout)[0]["steps"]
    # Eight blocks of 1 s of each are the least that a verdict may rest on; 12 s of each are the limit.
    pairs = {slice_["pair"] for step in steps for slice_ in step["slices"]}
    assert max(pairs) <= 600 and any(pair > 300 for pair in pairs)
    assert verdict["word"] != "unclear" or any(pair > 500 for pair in pairs)


def test_a_server_that_dies_between_windows(place: Path, pgstrata: Program, pg17: Server) -> None:
    file = write(place, pg17, ["point-query"], slice_=0.02, seconds=12)
    running = Running(place, ["run", str(file), "--no-report"])
    running.wait_for_text("data copied from a")
    drivers: set[int] = set()

    def later() -> psutil.Process | None:
        """A backend of the second batch or a later one: the trial before them and each batch have up to two
        drivers of their own."""
        if (driver := running.child("pgstrata-driver")) and (backend := running.backend()):
            drivers.add(driver.pid)
            return backend if len(drivers) > 4 else None
        return None

    backend = running.wait_for(later)
    os.kill(backend.ppid(), signal.SIGKILL)
    assert running.end() == 1, running.printed
    assert "leaves the comparison: the server died" in running.printed
    assert "Traceback" not in running.printed
    runs = by_variant(place)
    assert sorted(run["status"] for run in runs.values()) == ["done", "failed"]
    assert list((place / "data").iterdir()) == []
    compared = pgstrata("compare", "a", "b", "--format", "json")
    assert compared.returncode == 0, compared.stderr + running.printed
    (verdict,) = json.loads(compared.stdout)[0]["steps"]
    assert verdict["word"] == "unclear"
    assert verdict["evidence"] == "slices", "the pairs until then are kept"


def test_one_that_never_comes_up_leaves_the_other_measured(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    (place / "broken.conf").write_text("max_connections = 5\nsuperuser_reserved_connections = 5\n")
    file = write(place, pg17, ["point-query"], slice_=0.02, seconds=2)
    file.write_text(file.read_text().replace('["default", "a17"]', '["default", "./broken.conf"]'))
    done = pgstrata("run", file, "--no-report")
    assert done.returncode == 1
    runs = by_variant(place)
    assert [runs[variant]["status"] for variant in "ab"] == ["done", "failed"]
    step = next(s for s in runs["a"]["steps"] if s["name"] == "point-query")
    assert step["rate"] > 0
    assert any(slice_["pair"] > 90 for slice_ in step["slices"]), "all of its step"


@pytest.mark.skipif(bool(unavailable()), reason="perf is not installed")
def test_a_step_of_one_block_has_a_profile(place: Path, pgstrata: Program, pg17: Server) -> None:
    more = "profile = { seconds = 1 }"
    done = pgstrata(
        "run", write(place, pg17, ["point-query"], slice_=0.02, seconds=2, more=more), "--no-report"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for run in by_variant(place).values():
        assert next(s for s in run["steps"] if s["name"] == "point-query")["profile"]


@pytest.mark.parametrize("cpu_seconds", [0.0, 0.1])
def test_an_interrupt_ends_all_drivers(
    place: Path, pgstrata: Program, pg17: Server, cpu_seconds: float
) -> None:
    """While they connect, and at work."""
    file = write(place, pg17, ["point-query"], slice_=0.02, seconds=30)
    running = Running(place, ["run", str(file), "--no-report"])
    running.wait_for_text("data copied from a")
    running.wait_for(lambda: running.backend(cpu_seconds))
    running.process.send_signal(signal.SIGINT)
    assert running.end() == 130, running.printed
    assert "Traceback" not in running.printed
    psutil.wait_procs(living_in(place), timeout=10)
    assert living_in(place) == []
    assert list((place / "data").iterdir()) == []


def test_turns_are_asked_for_on_the_command_line(place: Path, pgstrata: Program, pg17: Server) -> None:
    options = "rows=500 steps=point-query warmup=0 cache_seconds=0 settle_base=0"
    sets = [word for option in options.split() for word in ("--set", option)]
    configs = ["--config", "default", "--config", "default+a17", "--data-dir", "data"]
    turns = ["--until", "verdict", "--slice", "0.05", "--max-seconds", "1"]
    run = ["run", "--server", pg17.spec, *configs, "--workload", "sysbench", *sets]
    done = pgstrata(*run, *turns, "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    for stored in by_variant(place).values():
        comparison = stored["comparison"]
        assert (comparison["until"], comparison["slice_seconds"]) == ("verdict", 0.05)
        assert comparison["max_seconds"] == 1.0
        step = next(s for s in stored["steps"] if s["name"] == "point-query")
        assert 8 <= len(step["slices"]) <= 10
    refused = pgstrata(*run, "--until", "verdict", "--order", "sequential", "--dry-run")
    assert refused.returncode == 2
    assert "take turns" in refused.stderr
