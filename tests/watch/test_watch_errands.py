"""Commits of a watch as errands: each once, in the watch's order, and stored as the watch's own."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from pgstrata.errors import UsageError
from pgstrata.watch.errands import WatchErrands
from pgstrata.watch.file import read_watch
from pgstrata.watch.history import History
from pgstrata.watch.known import Known
from pgstrata.watch.passing import Pass, next_stop, read
from support.watched import make_watch

pytestmark = pytest.mark.program

SUBJECTS = [f"change {n}" for n in range(1, 9)]


def a_pass(tmp_path: Path, unmeasured: list[int], codes: dict[int, str] | None = None) -> Pass:
    watch = read_watch(make_watch(tmp_path, SUBJECTS, {}, unmeasured=unmeasured, codes=codes))
    known, measuring = read(watch, lambda text: None, Console(quiet=True), lambda: None)
    return Pass(known, measuring, History(watch.folder), time.monotonic() + 600, None)


def place(known: Known, name: str) -> int:
    return next(n for n, stop in enumerate(known.line.stops) if name.startswith(stop.name))


def test_several_commits_are_begun_in_the_order_of_the_watch(tmp_path: Path) -> None:
    this = a_pass(tmp_path, [2, 4, 8])
    errands = WatchErrands(this)
    kind = "CPU, C library, compiler"
    assert errands.preferred([kind]) == ""  # another kind than that of the values
    newest, *others = errands.next(2)
    assert place(this.known, newest.name) == 8
    assert {place(this.known, errand.name) for errand in (*others, *errands.next(5))} == {2, 4}
    assert errands.next(5) == []


def test_what_comes_home_is_stored_and_not_due_any_more(tmp_path: Path) -> None:
    this = a_pass(tmp_path, [3, 6], codes={5: "same"})
    known = this.known
    errands = WatchErrands(this)
    first, second = errands.next(2)
    before = known.values[known.line.stops[5].id]
    stop = known.line.stops[place(known, first.name)]
    twin = msgspec.structs.replace(before, commit=stop.id, values={}, same_as=before.commit)
    with pytest.raises(UsageError, match="came instead"):
        errands.arrived(second, msgspec.json.encode(twin), ())
    errands.arrived(first, msgspec.json.encode(twin), ())
    stored = History(known.watch.folder).values([stop.id])[stop.id]
    assert stored.values == before.values and stored.same_as == before.commit
    errands.failed(second, "it burns")
    assert errands.next(2) == [] and known.failed == [f"{second.name}: it burns"]
    due = next_stop(known)
    assert due is not None and second.name.startswith(due.name)  # of the next pass


def test_an_earlier_client_has_begun_it(tmp_path: Path) -> None:
    this = a_pass(tmp_path, [3, 6])
    begun, _ = WatchErrands(this).next(2)
    errands = WatchErrands(this)
    again = errands.earlier(begun.id)
    assert again is not None and again.name == begun.name
    assert begun.id not in {errand.id for errand in errands.next(5)}
    assert errands.earlier("0" * 16) is None
    # an edited file asks another question
    this.known.series = {name: replace(s, asked="other") for name, s in this.known.series.items()}
    assert WatchErrands(this).earlier(begun.id) is None


def test_nothing_is_begun_when_the_time_is_over(tmp_path: Path) -> None:
    this = a_pass(tmp_path, [3, 6])
    this.until = time.monotonic() - 1
    assert WatchErrands(this).next(2) == []
    assert this.known.stopped == "the time of this pass is over"
