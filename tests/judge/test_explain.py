from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from pgstrata.judge.explain import explain
from pgstrata.judge.plan_shape import changed_plans, shape
from pgstrata.store.record import Metrics, QueryPlan, StepRecord
from support.records import role_record, step_record

SECONDS = 100.0


def step(
    rate: float,
    *,
    cpu: float = 0.0,
    rest: float = 0.0,
    reads: float = 0.0,
    switches: float = 0.0,
    clients: int = 1,
    waits: dict[str, float] | None = None,
    plan: str | None = None,
    target: float | None = None,
    driver: float = 0.0,
    sla_met: bool | None = None,
    observed: bool = True,
) -> StepRecord:
    """A step by what one operation costs: cpu, rest and driver in µs, reads and switches as counts."""
    per_second = {"rps": reads * rate, "csps": switches * rate, "rmbps": 0.0, "wps": 0.0, "wmbps": 0.0}
    cpu_seconds = cpu * rate * SECONDS / 1e6
    roles = {"query": role_record(clients=clients, cpu_seconds=cpu_seconds if observed else None)}
    if target is not None:
        roles["insert"] = role_record(clients=clients, cpu_seconds=0.0, target_rate=target)
    return step_record(
        rate=rate,
        seconds=SECONDS,
        roles=roles,
        target_rate=target,
        sla_met=sla_met,
        server_cpu_seconds=cpu_seconds + rest * rate * SECONDS / 1e6 if observed else None,
        driver_cpu_seconds=driver * rate * SECONDS / 1e6,
        metrics=Metrics(**per_second) if observed else Metrics(),
        waits={"query": waits} if waits is not None else None,
        plans=(query_plan("point", [{"Plan": {"Node Type": plan}}]),) if plan else (),
    )


def names(base: StepRecord, other: StepRecord) -> list[str]:
    explanation = explain([base], [other])
    assert explanation is not None
    return [factor.name for factor in explanation.factors]


def test_more_cpu_is_named_with_its_share() -> None:
    explanation = explain([step(10_000, cpu=80)], [step(8_000, cpu=100)])
    assert explanation is not None
    assert explanation.ratio == pytest.approx(0.8)
    assert (explanation.base_micros, explanation.micros) == pytest.approx((100, 125))
    (factor,) = explanation.factors
    assert (factor.name, factor.kind, factor.unit) == ("CPU of the query connections", "time", "µs")
    assert (factor.base, factor.value, factor.share) == pytest.approx((80, 100, 0.8))
    assert explanation.sentence == (
        "20 % slower: 25.0 µs more per operation (100 → 125 µs); "
        "with it moved CPU of the query connections (+20.0 µs, 80 % of the change)."
    )


def test_less_cpu_of_a_faster_one() -> None:
    explanation = explain([step(8_000, cpu=100)], [step(10_000, cpu=80)])
    assert explanation is not None
    assert explanation.sentence.startswith("25 % faster: 25.0 µs less per operation (125 → 100 µs)")
    assert "(−20.0 µs, 80 % of the change)" in explanation.sentence


def test_many_times_as_fast() -> None:
    explanation = explain([step(1_000, cpu=800)], [step(13_900, cpu=60)])
    assert explanation is not None
    assert explanation.sentence.startswith("13.9 times as fast: 928 µs less per operation (1,000 → 71.9 µs)")


def test_what_moved_the_other_way_explains_nothing() -> None:
    explanation = explain(
        [step(10_000, cpu=80, reads=2, switches=3)], [step(8_000, cpu=60, reads=1, switches=2)]
    )
    assert explanation is not None
    assert explanation.factors == ()
    assert explanation.sentence.endswith("nothing we measure explains it.")


def test_waits_are_time() -> None:
    base = step(10_000, cpu=80, waits={"running": 0.9})
    other = step(8_000, cpu=80, waits={"running": 0.7, "Lock: transactionid": 0.2})
    explanation = explain([base], [other])
    assert explanation is not None
    (factor,) = explanation.factors
    assert factor.name == "waiting for locks: transactionid"
    assert (factor.base, factor.value, factor.share) == pytest.approx((0, 25, 1))


def test_disk_and_switches_are_counts() -> None:
    explanation = explain([step(10_000, reads=0.5, switches=2)], [step(8_000, reads=1.0, switches=2.05)])
    assert explanation is not None
    (factor,) = explanation.factors
    assert (factor.name, factor.kind, factor.base, factor.value) == ("disk reads", "count", 0.5, 1.0)
    assert not factor.steady
    assert "disk reads (0.500 → 1.00)" in explanation.sentence


def test_what_goes_by_time_is_said_or_left_out() -> None:
    """100 reads/s on both sides: per operation more, but not because of the operations."""
    base, other = step(10_000, reads=0.01), step(5_000, reads=0.02)
    explanation = explain([base], [other])
    assert explanation is not None
    assert explanation.factors[0].steady
    assert "as much per second as before" in explanation.sentence
    assert names(step(10_000, reads=0.01, target=100.0), step(5_000, reads=0.02, target=100.0)) == []


def test_rare_events_are_noise() -> None:
    assert names(step(10_000, reads=0.0001), step(8_000, reads=0.009)) == []


def test_another_plan_is_named() -> None:
    explanation = explain([step(10_000, plan="Index Scan")], [step(8_000, plan="Seq Scan")])
    assert explanation is not None
    assert [factor.kind for factor in explanation.factors] == ["plan"]
    assert "the plan of point, which has another shape" in explanation.sentence


def test_several_plans_are_one_phrase() -> None:
    names = ("point", "range", "sum")
    base, other = (step(rate, plan=plan) for rate, plan in ((10_000, "Index Scan"), (8_000, "Seq Scan")))
    base, other = (
        structs.replace(record, plans=tuple(structs.replace(record.plans[0], name=n) for n in names))
        for record in (base, other)
    )
    explanation = explain([base], [other])
    assert explanation is not None
    assert explanation.sentence.endswith("with it moved the plans of point, range and sum (other shapes).")


def test_medians_of_the_repeats() -> None:
    base = [step(10_000, cpu=80), step(10_100, cpu=79), step(9_000, cpu=85)]
    explanation = explain(base, [step(8_000, cpu=100)])
    assert explanation is not None
    assert explanation.ratio == pytest.approx(8_000 / (10_000 * 10_100 * 9_000) ** (1 / 3))
    assert explanation.factors[0].base == pytest.approx(80)


def test_the_ratio_of_the_verdict_is_what_the_sentence_says() -> None:
    """Whole steps say 40.6 % faster, the pairs 16.5 %: what share a part of the first is of the second is
    not known."""
    explanation = explain([step(20.7, cpu=30_000)], [step(29.1, cpu=20_000)], 1.165)
    assert explanation is not None
    assert explanation.ratio == 1.165
    assert explanation.micros == pytest.approx(explanation.base_micros / 1.165)
    assert explanation.sentence.startswith("16.5 % faster: 6,842 µs less per operation (48,309 → 41,467 µs)")
    assert explanation.factors[0].share is None
    assert "of the change" not in explanation.sentence


def test_no_part_of_a_change_in_the_other_direction_is_named() -> None:
    explanation = explain([step(100, cpu=5_000)], [step(110, cpu=4_000)], 0.9)
    assert explanation is not None
    assert [factor.kind for factor in explanation.factors if factor.kind == "time"] == []
    assert explanation.sentence.startswith("10 % slower")


def test_the_drivers_own_cpu_counts_where_it_is_alone() -> None:
    assert names(step(10_000, driver=5), step(8_000, driver=25)) == ["CPU of the driver"]


def test_a_pooler_that_one_of_them_goes_through_is_named() -> None:
    through = structs.replace(step(5_000), pooler_cpu_seconds=30 * 5_000 * SECONDS / 1e6)
    explanation = explain([step(10_000)], [through])
    assert explanation is not None and "CPU of the pooler (0 → 30.0 µs)" in explanation.sentence
    assert names(through, structs.replace(through)) == []


def test_rates_that_cannot_be_compared() -> None:
    fine = step(10_000, cpu=80)
    assert explain([fine], [step(8_000, sla_met=False)]) is None
    assert explain([step(8_000, sla_met=False)], [fine]) is None
    assert explain([], [fine]) is None
    assert explain([fine], [structs.replace(fine, rate=0.0)]) is None


def test_unobserved_servers_are_not_explained_from_nothing() -> None:
    explanation = explain([step(10_000, observed=False)], [step(8_000, observed=False)])
    assert explanation is not None
    assert explanation.factors == ()


def test_the_same_rate() -> None:
    explanation = explain([step(10_000, cpu=80)], [step(10_000, cpu=90)])
    assert explanation is not None
    assert explanation.factors == ()
    assert explanation.sentence == "The rate is the same: 100 µs per operation."


COST = st.floats(0, 1000)


@given(st.floats(1, 1e6), st.floats(1, 1e6), COST, COST, COST, COST, COST, COST)
def test_named_is_only_what_moved_with_the_rate(
    rate: float,
    of_base: float,
    cpu: float,
    base_cpu: float,
    reads: float,
    base_reads: float,
    x: float,
    y: float,
) -> None:
    base = step(of_base, cpu=base_cpu, reads=base_reads, switches=y)
    explanation = explain([base], [step(rate, cpu=cpu, reads=reads, switches=x)])
    assert explanation is not None
    slower = explanation.micros > explanation.base_micros
    for factor in explanation.factors:
        assert factor.base is not None
        assert factor.value is not None
        assert (factor.value > factor.base) == slower
        if factor.kind == "time":
            assert factor.share is not None
            assert factor.share >= 0.2
    assert explanation.sentence.count("\n") == 0
    assert explanation.sentence.endswith(".")
    assert ("nothing we measure explains it" in explanation.sentence) == (
        not explanation.factors and rate != of_base
    )


# --- plans ------------------------------------------------------------------------------------


def plan(**root: Any) -> list[dict[str, Any]]:
    return [{"Plan": root, "Planning Time": 0.1}]


def query_plan(name: str, shown: Any) -> QueryPlan:
    return QueryPlan(name=name, statement="", plan=shown, kind="custom")


INDEX = plan(
    **{
        "Node Type": "Limit",
        "Total Cost": 5.0,
        "Plans": [
            {
                "Node Type": "Index Scan",
                "Scan Direction": "Forward",
                "Parent Relationship": "Outer",
                "Index Name": "pi1_pdc",
                "Relation Name": "pi1",
                "Plan Rows": 10,
            }
        ],
    }
)


def test_shape_of_a_plan() -> None:
    assert shape(INDEX) == "Limit(Index Scan pi1_pdc on pi1)"
    assert shape(INDEX[0]) == shape(INDEX[0]["Plan"]) == shape(INDEX)
    below = [{"Node Type": "Hash"}, {"Node Type": "X"}]
    joined = plan(**{"Node Type": "Hash Join", "Join Type": "LeftOut", "Plans": below})
    assert shape(joined) == "Hash Join [LeftOut](Hash, X)"


@pytest.mark.parametrize("odd", [None, [], {}, "text", [1], {"Plan": None}, {"Plan": {"Plans": "x"}}])
def test_odd_plans_are_no_crash(odd: Any) -> None:
    assert shape(odd) in {"", "?"}


def test_costs_do_not_make_another_shape() -> None:
    dearer = plan(**(INDEX[0]["Plan"] | {"Total Cost": 9e9}))
    base = [query_plan("a", INDEX), query_plan("b", INDEX), query_plan("gone", INDEX)]
    other = [query_plan("a", dearer), query_plan("b", plan(**{"Node Type": "Result"}))]
    assert changed_plans(base, other) == {"b": ("Limit(Index Scan pi1_pdc on pi1)", "Result")}
