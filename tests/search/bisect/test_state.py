"""The state of a search on disk: whole or not there, and never that of another question."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from pgstrata.campaign.study import Variant
from pgstrata.errors import StoreError, UsageError
from pgstrata.search.bisect import state as states
from pgstrata.search.bisect.hunt import TRIES, tries_of
from pgstrata.search.bisect.line import Range, Stop
from pgstrata.search.bisect.state import FILE, Measurement, SetAside

USUAL = Variant(server="pg:17")
LINE = Range("release", "a … c", [Stop(name, name, USUAL) for name in "abc"])


def measurement(base: int, other: int) -> Measurement:
    return Measurement(base, other, "ends", -0.1, 0.003, 90, 10.0, 9.0, "queries/s", "m", 4.0, 0.0, 9.0, "t")


def test_what_is_saved_is_there_again(tmp_path: Path) -> None:
    state = states.begin(tmp_path, LINE, {"step": "x"})
    state.measured.append(measurement(0, 2))
    state.set_aside.append(SetAside(1, "it does not build", "t"))
    states.save(tmp_path, state)
    again = states.begin(tmp_path, LINE, {"step": "x"})
    assert again == state
    procedure = again.procedure(0.01, "rate")
    assert procedure.search.broken == {1} and len(procedure.seen) == 1
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_another_question_is_refused_by_what_differs(tmp_path: Path) -> None:
    states.save(tmp_path, states.begin(tmp_path, LINE, {"step": "x", "seconds": 1}))
    with pytest.raises(UsageError, match="differs in step"):
        states.begin(tmp_path, LINE, {"step": "y", "seconds": 1})
    longer = Range("release", "a … d", [*LINE.stops, Stop("d", "d", USUAL)])
    with pytest.raises(UsageError, match="differs in the releases"):
        states.begin(tmp_path, longer, {"step": "x", "seconds": 1})


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 1}', '{"version": 1, "question": 3, "line": []}']
)
def test_a_damaged_state_is_said_to_be(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(StoreError, match=r"bisect\.json"):
        states.load(tmp_path)


def test_positions_outside_the_line_are_damage(tmp_path: Path) -> None:
    state = states.begin(tmp_path, LINE, {})
    state.measured.append(measurement(0, 9))
    states.save(tmp_path, state)
    loaded = states.load(tmp_path)
    assert loaded is not None
    with pytest.raises(StoreError, match="damaged"):
        loaded.procedure(0.01, "rate")


def test_a_state_of_another_version_is_not_taken_for_this_one(tmp_path: Path) -> None:
    state = states.begin(tmp_path, LINE, {})
    states.save(tmp_path, state)
    document = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps({**document, "version": 99}))
    with pytest.raises(StoreError, match="another version"):
        states.load(tmp_path)


def test_where_all_cpus_may_be_used_nothing_is_measured_again() -> None:
    quiet = measurement(0, 2)
    busy = msgspec.structs.replace(quiet, others=0.4)
    assert [tries_of("rate", 0.25, timed) for timed in ([], [quiet], [busy, quiet])] == [TRIES] * 3
    assert tries_of("rate", 0.25, [quiet, busy]) == 1
    assert tries_of("rate", 1.0, []) == tries_of("instructions", 0.25, []) == 1
