from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.judge.latency import added_up, over_repeats
from pgstrata.store import Results, Run, RunKey
from pgstrata.store.histogram import Histogram, histogram_of, merge
from pgstrata.store.record import LatencyRecord, StepRecord
from support.records import circumstances, latency, role_record, step_record


def latency_of(histogram: Histogram) -> LatencyRecord:
    p50, p75, p90, p95, p99 = histogram.percentiles((50, 75, 90, 95, 99))
    return latency(
        mean=histogram.mean_seconds,
        stddev=0.0,
        p50=p50,
        p75=p75,
        p90=p90,
        p95=p95,
        p99=p99,
        max=histogram.max_seconds,
    )


def repeats(root: Path, *histograms: Histogram) -> list[tuple[Run, StepRecord]]:
    """A stored run of one step for each histogram, whose role `query` answered so."""
    pairs = []
    for number, histogram in enumerate(histograms, 1):
        builder = Results(root).begin(RunKey("c", "v", "w", number))
        role = role_record(operations=histogram.responses, latency=latency_of(histogram))
        builder.step(step_record(roles={"query": role}), histograms={"query": histogram.encode()})
        builder.finish(circumstances())
    for run in Results(root).runs():
        pairs.append((run, run.steps[0]))
    return pairs


def test_percentiles_of_repeats_are_those_of_all_their_responses(tmp_path: Path) -> None:
    """One repeat of three stalled: 1 % of all responses are slow, and two of three p99 know nothing of it."""
    fine, stalled = histogram_of([1_000] * 1_000), histogram_of([1_000] * 940 + [500_000] * 60)
    latency = over_repeats(repeats(tmp_path, fine, stalled, fine), "query")
    assert latency is not None
    assert latency.p99 == pytest.approx(0.5, rel=1e-3)
    assert latency.p95 == pytest.approx(0.001, rel=1e-3)
    assert latency.max == stalled.max_seconds
    mean = (0.001 * 2_940 + 0.5 * 60) / 3_000
    assert latency.mean == pytest.approx(mean, rel=1e-3)


def test_a_repeat_of_many_responses_weighs_more(tmp_path: Path) -> None:
    latency = over_repeats(
        repeats(tmp_path, histogram_of([1_000] * 9_950), histogram_of([9_000] * 50)), "query"
    )
    assert latency is not None
    assert latency.p99 == pytest.approx(0.001, rel=1e-3)


def test_one_repeat_says_what_the_driver_said(tmp_path: Path) -> None:
    ((run, step),) = repeats(tmp_path, histogram_of([1_000, 2_000, 3_000]))
    assert over_repeats([(run, step)], "query") == step.headline.latency
    assert over_repeats([(run, step)], "insert") is None


def test_a_repeat_without_a_response_adds_nothing(tmp_path: Path) -> None:
    latency = over_repeats(repeats(tmp_path, histogram_of([2_000] * 10), histogram_of([])), "query")
    assert latency is not None
    assert latency.p50 == pytest.approx(0.002, rel=1e-3)
    assert latency.mean == pytest.approx(0.002, rel=1e-3)


MICROS = st.lists(st.integers(1, 10_000_000), min_size=1, max_size=50)


@given(st.lists(MICROS, min_size=1, max_size=4))
def test_added_up_lies_between_the_parts(values: list[list[int]]) -> None:
    parts = [histogram_of(microseconds) for microseconds in values]
    each = [latency_of(part) for part in parts]
    together = added_up(
        merge(parts), [(p.responses, latency) for p, latency in zip(parts, each, strict=True)]
    )
    for name in ("mean", "p50", "p95", "p99", "max"):
        part_values = [getattr(latency, name) for latency in each]
        assert min(part_values) * 0.999 <= getattr(together, name) <= max(part_values) * 1.001
