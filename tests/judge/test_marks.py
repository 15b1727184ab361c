from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.errors import UsageError
from pgstrata.judge.marks import background_mark, check_thresholds, column_marks, relative_mark
from pgstrata.judge.sla import met, sla
from support.records import role_record

VALUES = st.lists(st.one_of(st.none(), st.floats(0.1, 1e6)), max_size=12)


@given(VALUES, st.data())
def test_quarters_of_the_range(values: list[float | None], data: st.DataObject) -> None:
    met = data.draw(
        st.lists(st.sampled_from([True, False, None]), min_size=len(values), max_size=len(values))
    )
    marks = column_marks(values, met)
    judged = [v for v, ok in zip(values, met, strict=True) if v is not None and ok is not False]
    for value, ok, mark in zip(values, met, marks, strict=True):
        if value is None:
            assert mark == "missing"
        elif ok is False:
            assert mark == "missed"
        elif min(judged) == max(judged):
            assert mark == ""
        else:
            place = (value - min(judged)) / (max(judged) - min(judged))
            if mark == "good":
                assert place >= 0.75 - 1e-9
            elif mark == "bad":
                assert place <= 0.25 + 1e-9
                assert min(judged) < 0.8 * max(judged)
            else:
                assert place < 0.75 + 1e-9
                assert place > 0.25 - 1e-9 or min(judged) >= 0.8 * max(judged)


def test_tones_by_hand() -> None:
    assert column_marks([100.0, 90.0, 60.0, 40.0]) == ["good", "good", "", "bad"]
    # the smallest is within 80 % of the largest: nothing is bad
    assert column_marks([100.0, 90.0, 80.0]) == ["good", "", ""]
    assert column_marks([100.0, 90.0, 79.0]) == ["good", "", "bad"]
    # a fast rate that let its writes down does not make the others look slow
    assert column_marks([500.0, 100.0, 90.0], [False, True, True]) == ["missed", "good", ""]
    assert column_marks([]) == []
    assert column_marks([7.0]) == [""]


@pytest.mark.parametrize(
    ("ratio", "mark"),
    [
        (0.5, "bad"),
        (0.95, "bad"),
        (0.9501, "even"),
        (1.0, "even"),
        (1.0499, "even"),
        (1.05, "good"),
        (3.0, "good"),
    ],
)
def test_relative_marks(ratio: float, mark: str) -> None:
    assert relative_mark(ratio) == mark
    assert relative_mark(ratio, comparable=False) == "missed"


def test_careful_thresholds() -> None:
    assert relative_mark(0.96, (0.97, 1.03)) == "bad"
    assert relative_mark(None) == "missing"
    assert background_mark(True) == ""
    assert background_mark(False) == "bad"
    assert background_mark(None) == "missing"


@pytest.mark.parametrize(
    "thresholds", [(1.05, 0.95), (0.0, 1.05), (-1.0, 2.0), (0.95, 0.99), (float("nan"), 1.05)]
)
def test_thresholds_that_make_no_sense(thresholds: tuple[float, float]) -> None:
    with pytest.raises(UsageError, match="thresholds"):
        check_thresholds(thresholds)


def test_sla_is_95_percent_of_the_target() -> None:
    assert met(95.0, 100.0) is True
    assert met(94.999, 100.0) is False
    assert met(None, 100.0) is False
    assert met(5.0, None) is None


def test_the_role_that_is_furthest_behind_decides() -> None:
    roles = {
        "query": role_record(rate=5.0),
        "insert": role_record(rate=1000.0, target_rate=1000.0),
        "delete": role_record(rate=940.0, target_rate=1000.0),
    }
    outcome = sla(roles)
    assert (outcome.target_rate, outcome.background_rate, outcome.met) == (1000.0, 940.0, False)
    del roles["delete"]
    assert sla(roles).met is True
    del roles["insert"]
    assert sla(roles).met is None
    assert sla({"insert": role_record(target_rate=10.0)}).met is False
