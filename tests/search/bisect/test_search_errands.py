"""Commits between the ends of a search as errands, and a search on a real fleet of this machine."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import msgspec
import pytest

from pgstrata.campaign.study import Variant
from pgstrata.errors import ServerError, UsageError
from pgstrata.measure.two_servers import MeasuredWork
from pgstrata.search.bisect import state as states
from pgstrata.search.bisect.errands import SearchErrands
from pgstrata.search.bisect.hunt import SearchSettings
from pgstrata.search.bisect.line import commits
from pgstrata.search.bisect.search import Outcome, Search
from pgstrata.search.bisect.state import Measurement
from pgstrata.server.find.model import Server
from pgstrata.store.write import now
from support.program import Program, wait_until_ended
from support.tree import commit, git, repository, serving

pytestmark = pytest.mark.program

N = 16


def search_with(n: int, *seen: tuple[int, float]) -> Search:
    search = Search(n)
    for position, log_ratio in seen:
        search.add(position, Outcome(log_ratio, 0.0003))
    return search


def test_positions_beside_others_divide_what_is_left() -> None:
    search = search_with(64, (64, -0.05))
    first = search.next_position(0.0003)
    assert first is not None
    second = search.apart_from({first})
    assert second is not None and abs(second / 64 - 0.5) == pytest.approx(0.25, abs=0.06)
    third = search.apart_from({first, second})
    assert third is not None and min(abs(third - first), abs(third - second)) > 8
    assert search_with(2, (2, -0.05)).apart_from({1}) is None


def measured(other: int, log_ratio: float) -> Measurement:
    rates = 1000.0, 1000.0 * math.exp(-log_ratio)
    return Measurement(
        0, other, "ends", log_ratio, 0.0001, 4, *rates, "", "m", 0, 0, 1, now(), by="instructions"
    )


def errands_of(place: Path) -> SearchErrands:
    repo = repository(place / "repo")
    git(repo, "tag", "good")
    for number in range(N):
        (repo / "src/backend/main.c").write_text(f"/* {number} */\n")
        commit(repo, f"change {number}")
    line = commits(repo, "good", "HEAD", lambda server: Variant(server=server))
    sets = ('builtin=["select-only"]', 'modes=["prepared"]', "scale=1")
    work = MeasuredWork(("select-only-prepared-c1",), "pgbench", "count", sets)
    settings = SearchSettings(line, work, place / "search", 0.002, by="instructions", both_ways=False)
    (place / "search").mkdir()
    state = states.begin(settings.folder, line, settings.question())
    state.measured += [measured(N, -0.05), measured(N, -0.05)]
    return SearchErrands(settings, state, math.inf, None, lambda text: None)


def answer_with(**more: object) -> bytes:
    return msgspec.json.encode({"build_seconds": 1.0, "seconds": 2.0, **more})


def test_what_comes_home_goes_into_the_state(tmp_path: Path) -> None:
    errands = errands_of(tmp_path)
    first, second = errands.next(2)
    assert errands.next(1) and len({first.id, second.id}) == 2
    assert [run.key.variant for run in first.runs] == ["base", "other"]
    assert errands.earlier("0" * 16) is None
    with pytest.raises(UsageError, match="no count of a pair"):
        errands.arrived(first, b"[]", ())
    with pytest.raises(ServerError, match="without its runs"):
        errands.arrived(first, answer_with(log_ratio=-0.05, error=0.0001, pairs=4), ())
    errands.arrived(first, answer_with(skipped="it does not compile"), ())
    errands.arrived(second, answer_with(same=0, code="abc"), ())
    state = states.load(tmp_path / "search")
    assert state is not None
    assert [entry.why for entry in state.set_aside] == ["it does not compile"]
    ((same, code),) = [(entry, state.codes[entry.position]) for entry in state.same]
    assert same.other == 0 and code == "abc"
    (third, *_) = errands.next(1)
    errands.failed(third, "no machine")
    assert errands.next(3) == [] and "could not be counted by any machine: no machine" in errands.failure


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_a_search_on_a_fleet_finds_the_commit(place: Path, pg17: Server, pgstrata: Program) -> None:
    repo = serving(place / "repo", pg17, "track_activities = off\nupdate_process_title = off")
    git(repo, "tag", "good")
    for number in range(1, 7):
        settings = "off" if number < 5 else "on"
        (repo / "extra.conf").write_text(
            f"# {number}\ntrack_activities = {settings}\nupdate_process_title = {settings}\n"
        )
        commit(repo, f"change {number}")
    (place / "one.sql").write_text("select 1\n")
    search = [
        "bisect",
        "--repo",
        "repo",
        "--good",
        "good",
        "--bad",
        "main",
        "--seconds",
        "0.2",
        "--no-profile",
        "--other-load",
        "100%",
    ]
    search += ["--workload", "custom", "--set", 'scripts=["one.sql"]', "--set", "reads_only=true"]
    search += ["--step", "one", "--results", "found", "--fleet", "local:2"]
    refused = pgstrata(*search)
    assert refused.returncode == 2 and "add --by instructions" in refused.stderr
    done = pgstrata(*search, "--by", "instructions", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert "change 5" in json.dumps(json.loads(done.stdout))
    state = states.load(place / "found")
    assert state is not None
    on_fleet = [m for m in state.measured if m.campaign.startswith("f")]
    assert len(on_fleet) >= 2 and {m.base for m in on_fleet} == {0}
    assert len({m.other for m in on_fleet}) == len(on_fleet) == done.stderr.count(" is home")
    wait_until_ended(place)
