"""More, fewer, same or unclear of counts, and the functions that account for a difference."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pgstrata.cli.output import aligned
from pgstrata.count import by
from pgstrata.count.report import answers
from pgstrata.count.results import counts_of
from pgstrata.count.text import text
from pgstrata.count.verdicts import (
    USUAL_OF_COUNTS,
    CountVerdict,
    compare_counts,
    estimate_counts,
    precise,
)
from pgstrata.errors import UsageError
from pgstrata.page.results import RunSet
from pgstrata.stats.criterion import Criterion
from pgstrata.stats.verdict import interval, judge, p_value
from pgstrata.store.choose import Side
from pgstrata.store.names import RunKey
from pgstrata.store.read import Run, read_run
from pgstrata.store.record import CountedRole, CountedStep, CountRecord
from support.runs import make_run


def word(base: list[float], other: list[float], margin: float = 0.002) -> str:
    estimate = estimate_counts(base, other)
    return judge(estimate, interval(estimate), p_value(estimate), Criterion(margin)).word


@pytest.mark.parametrize(
    ("base", "other", "expected"),
    [
        ([1000, 1000.1, 999.9], [1005, 1005.1, 1004.9], "slower"),
        ([1000, 1000.1, 999.9], [995, 995.1, 994.9], "faster"),
        ([1000, 1000.1, 999.9], [1001, 1001.1, 1000.9], "same"),
        ([1000, 1010, 990], [1004, 994, 1014], "unclear"),
        ([1000], [1100], "unclear"),  # one start each has no interval
    ],
)
def test_words_of_counts(base: list[float], other: list[float], expected: str) -> None:
    assert word(base, other) == expected


def test_starts_that_agree_by_chance_do_not_prove_the_last_instruction() -> None:
    estimate = estimate_counts([1e6, 1e6], [1e6 + 1, 1e6 + 1])
    low, high = interval(estimate)
    assert low < 0 < high
    assert p_value(estimate) > 0.05


def test_starts_are_added_until_the_interval_reaches_half_the_margin() -> None:
    assert precise(estimate_counts([1000, 1000.1], [1000, 1000.1]), 0.002)
    assert not precise(estimate_counts([1000, 1002], [1000, 1002]), 0.002)
    assert not precise(estimate_counts([1000], [1000]), 0.002)


def counted_run(
    root: Path,
    variant: str,
    *,
    instructions: tuple[float, ...] = (1000.0, 1000.0),
    timed: tuple[float, ...] = (0.0, 0.0),
    **how: Any,
) -> Run:
    """A run that counted these instructions for each query."""
    run = read_run(make_run(root, RunKey("mine", variant, "insert.counted", 1), **how))
    assert isinstance(run, Run)
    role = CountedRole(operations=100, instructions=instructions, timed=timed)
    step = CountedStep(
        name="qr100", order=1, group="", reads_only=True, role="query", warm=25, roles={"query": role}
    )
    record = CountRecord(
        engine="valgrind", tool="", event="", margin=0.002, settings={}, symbols="all", steps=(step,)
    )
    return replace(run, record=structs.replace(run.record, steps=(), counted=record))


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "word"),
    [({}, "same"), ({"options": {"rows": 7}}, "unclear"), ({"seed": 2}, "unclear"), ({"seconds": 9}, "same")],
)
def test_counts_of_other_work_are_not_judged(tmp_path: Path, how: dict[str, Any], word: str) -> None:
    base = Side("base", (counted_run(tmp_path, "pg16.10-base"),))
    other = Side("other", (counted_run(tmp_path, "pg17.1-base", **how),))
    verdict = compare_counts(base, [other])[0].steps[0]
    assert verdict.word == word
    assert ("other work" in verdict.reason) == (word == "unclear")


@pytest.mark.long
def test_a_step_that_was_not_counted_is_named_with_the_nearest_that_was(tmp_path: Path) -> None:
    sides = [Side(name, (counted_run(tmp_path, f"pg{name}-base"),)) for name in ("16", "17")]
    with pytest.raises(UsageError, match="16 has no counted step qr10") as raised:
        by.compare(sides[0], sides[1:], ["qr10"], USUAL_OF_COUNTS)
    assert raised.value.hint == "did you mean `qr100`?"


def verdict_of(root: Path, base: dict[str, Any], other: dict[str, Any]) -> CountVerdict:
    sides = [
        Side(name, (counted_run(root, f"pg{name}-base", **what),))
        for name, what in (("16", base), ("17", other))
    ]
    return compare_counts(sides[0], sides[1:])[0].steps[0]


SAME = {"instructions": (10_000.0, 10_001.0, 9_999.0)}


@pytest.mark.long
@pytest.mark.parametrize(
    ("base", "other", "word"),
    [
        # 15 % of an operation in what nobody judges
        ({**SAME, "timed": (50.0, 52.0, 51.0)}, {**SAME, "timed": (1550.0, 1553.0, 1549.0)}, "unclear"),
        ({**SAME, "timed": (50.0, 52.0, 51.0)}, {**SAME, "timed": (50.0, 54.0, 51.0)}, "same"),
        # waiting differs from start to start, so nothing is proven of it
        ({**SAME, "timed": (50.0, 90.0, 51.0)}, {**SAME, "timed": (90.0, 54.0, 130.0)}, "same"),
        # more of what is judged, and as many fewer of what is not
        (
            {**SAME, "timed": (200.0, 200.0, 201.0)},
            {"instructions": (10_100.0, 10_101.0, 10_099.0), "timed": (100.0, 101.0, 99.0)},
            "unclear",
        ),
        # both went the same way
        (
            {**SAME, "timed": (100.0, 100.0, 101.0)},
            {"instructions": (10_100.0, 10_101.0, 10_099.0), "timed": (200.0, 201.0, 199.0)},
            "more",
        ),
    ],
)
def test_a_difference_in_what_is_left_out_forbids_the_word(
    tmp_path: Path, base: dict[str, Any], other: dict[str, Any], word: str
) -> None:
    verdict = verdict_of(tmp_path, base, other)
    assert verdict.word == word, verdict.reason
    assert verdict.left_out is not None and 0 < verdict.left_out.other < 0.2
    if word == "unclear":
        assert "left out of the count differs" in verdict.reason
    json.dumps(verdict.record(), allow_nan=False)


@pytest.mark.parametrize(
    ("base", "other"),
    [
        ({**SAME, "timed": (50.0, 52.0, 51.0)}, {**SAME, "timed": (1550.0, 1553.0, 1549.0)}),
        # By what is judged it is unclear, and not more.
        (
            {**SAME, "timed": (50.0, 52.0, 51.0)},
            {"instructions": (9_980.0, 9_985.0, 9_990.0), "timed": (1550.0, 1553.0, 1549.0)},
        ),
        # The starts of the base did not do the same work.
        (
            {"instructions": tuple(10_000.0 + 30 * (n % 2) for n in range(60))},
            {"instructions": (9_999.0, 10_000.0, 10_001.0)},
        ),
    ],
)
def test_check_does_not_pass_what_forbids_the_word(
    tmp_path: Path, base: dict[str, Any], other: dict[str, Any]
) -> None:
    """By what is judged it needs no more than 0.2 % more, and that is not all of it."""
    sides = [
        Side(name, (counted_run(tmp_path, f"pg{name}-base", **what),))
        for name, what in (("16", base), ("17", other))
    ]
    comparisons = compare_counts(sides[0], sides[1:])
    (verdict,) = comparisons[0].steps
    assert (verdict.word, verdict.aside) == ("unclear", True) and verdict.high < 1.002
    assert by.check(comparisons, 0.002) == 3


def test_a_page_has_the_margin_of_the_count(tmp_path: Path) -> None:
    """Half a percent more, which was counted with a margin of one."""

    def counted_with(variant: str, margin: float, *instructions: float) -> Run:
        run = counted_run(tmp_path, variant, instructions=instructions)
        assert run.record.counted is not None
        counted = structs.replace(run.record.counted, margin=margin)
        return replace(run, record=structs.replace(run.record, counted=counted))

    def verdict(margin: float) -> CountVerdict | None:
        runs = (
            counted_with("pg16.10-base", margin, 1000.0, 1000.1),
            counted_with("pg17.1-base", margin, 1005.0, 1005.1),
        )
        variants = tuple(run.variant for run in runs)
        results = RunSet("mine", variants, variants[0], (), (), counted=runs)
        return counts_of(results).verdict("insert", variants[1], "qr100", "query")

    usual, wide = verdict(0.002), verdict(0.01)
    assert usual is not None and (usual.word, usual.margin) == ("more", 0.002)
    assert wide is not None and (wide.word, wide.margin) == ("same", 0.01)


def test_nothing_is_said_where_nothing_of_the_base_was_counted(tmp_path: Path) -> None:
    base, other = counted_run(tmp_path, "pg16.10-base"), counted_run(tmp_path, "pg17.1-base")
    assert base.record.counted is not None
    nothing = structs.replace(base.record, counted=structs.replace(base.record.counted, steps=()))
    runs = replace(base, record=nothing), other
    assert answers(RunSet("mine", (base.variant, other.variant), base.variant, (), (), counted=runs)) == []


@pytest.mark.long
def test_the_share_that_is_left_out_stands_beside_the_verdict(tmp_path: Path) -> None:
    sides = [
        Side(variant, (counted_run(tmp_path, variant, timed=timed),))
        for variant, timed in (("pg16.10-base", (10.0, 11.0)), ("pg17.1-base", (20.0, 21.0)))
    ]
    lines = text(sides[0], sides[1:], compare_counts(sides[0], sides[1:]), aligned)
    assert any("left out" in line for line in lines)
    assert any("1.04%, 2.01%" in line for line in lines), lines
    (alone,) = [line for line in text(sides[1], [], [], aligned) if "qr100" in line]
    assert "2.01%" in alone


@pytest.mark.long
@pytest.mark.parametrize(
    ("base", "other", "word"),
    [
        # the same table at five starts, all-visible to a different degree
        ((123e6, 142e6, 131e6, 127e6, 140e6), (133e6, 124e6, 141e6, 130e6, 136e6), "unclear"),
        ((123e6, 142e6, 131e6, 127e6, 140e6), (150e6, 169e6, 160e6, 155e6, 166e6), "unclear"),
        # many starts make an interval that is narrow enough
        (
            tuple(1000.0 + 3 * (n % 2) for n in range(60)),
            tuple(1000.0 + 3 * (n % 2) for n in range(60)),
            "unclear",
        ),
        # whichever starts are compared, the other needs a third more
        ((1000.0, 1003.0, 1001.0), (1330.0, 1331.0, 1330.0), "more"),
    ],
)
def test_starts_that_differ_beyond_the_margin_are_not_averaged(
    tmp_path: Path, base: tuple[float, ...], other: tuple[float, ...], word: str
) -> None:
    verdict = verdict_of(tmp_path, {"instructions": base}, {"instructions": other})
    assert verdict.word == word
    assert "starts of pg16-base differ by" in verdict.reason


def test_counts_of_machines_of_different_kinds_say_so(tmp_path: Path) -> None:
    def on(variant: str, cpu: str | None, libc: str) -> Side:
        run = counted_run(tmp_path, variant)
        assert run.record.counted is not None
        host = structs.replace(run.record.host, cpu_model=cpu)
        counted = structs.replace(run.record.counted, libc=libc)
        return Side(variant, (replace(run, record=structs.replace(run.record, host=host, counted=counted)),))

    def notes(base: Side, other: Side) -> str:
        return " ".join(compare_counts(base, [other])[0].notes)

    here = on("a", "EPYC", "glibc 2.36")
    assert "different kinds" not in notes(here, on("b", "EPYC", "glibc 2.36"))
    assert "different kinds" not in notes(here, on("b", "EPYC", ""))  # counted before it was noted
    assert "EPYC, glibc 2.36; EPYC, glibc 2.41" in notes(here, on("b", "EPYC", "glibc 2.41"))
    assert "EPYC; Xeon" in notes(here, on("b", "Xeon", ""))
