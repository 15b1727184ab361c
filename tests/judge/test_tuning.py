"""Classes of overlays, duplicates, unsafe settings, and what to try next."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.judge.tuning import (
    CLASSES,
    Overlay,
    RelativeRate,
    classify,
    differences,
    duplicates,
    next_configs,
    study,
)

BASE = {
    "wal_compression": "off",
    "backend_flush_after": "0",
    "full_page_writes": "on",
    "fsync": "on",
    "synchronous_commit": "off",
    "checkpoint_timeout": "30min",
    "autovacuum_work_mem": "-1",
    "wal_buffers": "16MB",
    "autovacuum_vacuum_scale_factor": "0.2",
    "data_directory": "/a",
    "port": "5432",
}


def overlay(name: str, **changes: str) -> Overlay:
    return Overlay(name, {**BASE, "data_directory": f"/{name}", "port": "6000", **changes})


A1 = overlay("a1", wal_compression="lz4")
A2 = overlay("a2", backend_flush_after="256kB")
A3 = overlay("a3", full_page_writes="off")
A4 = overlay("a4", checkpoint_timeout="30min")
A10 = overlay("a10", autovacuum_work_mem="256MB")
A14 = overlay("a14", backend_flush_after="1MB")
A16 = overlay("a16", autovacuum_vacuum_scale_factor="0.05")
A18 = overlay("a18", wal_compression="lz4", autovacuum_work_mem="256MB")


@pytest.mark.parametrize(
    ("relative", "cls", "between"),
    [
        (1.5, "significant benefit", False),
        (1.0501, "significant benefit", False),
        (1.05, "small benefit", False),
        (1.02, "small benefit", False),
        (1.019, "small benefit", True),
        (1.0151, "small benefit", True),
        (1.015, "no impact", True),
        (1.011, "no impact", True),
        (1.01, "no impact", False),
        (1.0, "no impact", False),
        (0.99, "no impact", False),
        (0.989, "no impact", True),
        (0.985, "no impact", True),
        (0.9849, "hurt", True),
        (0.981, "hurt", True),
        (0.98, "hurt", False),
        (0.2, "hurt", False),
    ],
)
def test_bands(relative: float, cls: str, between: bool) -> None:
    assert classify(relative) == (cls, between)


@given(st.floats(min_value=0.01, max_value=10), st.floats(min_value=0.01, max_value=10))
def test_a_higher_rate_is_never_in_a_lower_class(first: float, two: float) -> None:
    low, high = sorted((first, two))
    assert CLASSES.index(classify(high)[0]) <= CLASSES.index(classify(low)[0])


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_what_is_no_relative_rate_is_refused(bad: float) -> None:
    with pytest.raises(ValueError):
        classify(bad)


def test_differences_leave_out_where_a_cluster_lives() -> None:
    assert differences(BASE, A1.settings) == {"wal_compression": ("off", "lz4")}
    assert differences({"a": "1"}, {"b": "2"}) == {"a": ("1", None), "b": (None, "2")}


def test_duplicates_of_the_base_and_of_each_other() -> None:
    again = overlay("again", wal_compression="lz4")
    once_more = overlay("once-more", wal_compression="lz4")
    originals = duplicates(BASE, [A1, A2, A4, again, once_more])
    assert originals == {"a4": None, "again": "a1", "once-more": "a1"}


def test_the_table() -> None:
    overlays = [A1, A2, A3, A4, A10, A14]
    rates = {
        "cached by PostgreSQL": {
            "a1": RelativeRate(1.10, 1.07, 1.13),
            "a2": RelativeRate(0.95, 0.93, 0.97),
            "a3": RelativeRate(1.40, 1.35, 1.45),
            "a4": RelativeRate(1.06, 1.00, 1.12),
            "a10": RelativeRate(1.017, 0.99, 1.04),
        },
        "cached by the OS": {"a1": RelativeRate(1.00), "a14": RelativeRate(1.03)},
    }
    table = study(BASE, overlays, rates)
    names = {(cls, s): [e.overlay for e in table.cell(cls, s)] for cls in CLASSES for s in table.set_ups}
    assert names["significant benefit", "cached by PostgreSQL"] == ["a1"]
    assert names["small benefit", "cached by PostgreSQL"] == ["a10"]
    assert names["hurt", "cached by PostgreSQL"] == ["a2"]
    assert names["ignored", "cached by PostgreSQL"] == ["a3", "a4"]
    assert names["no impact", "cached by the OS"] == ["a1"]
    assert names["small benefit", "cached by the OS"] == ["a14"]
    assert [e.between for e in table.cell("small benefit", "cached by PostgreSQL")] == [True]
    assert [e.proven for e in table.cell("hurt", "cached by PostgreSQL")] == [True]
    assert [e.proven for e in table.cell("small benefit", "cached by PostgreSQL")] == [False]
    assert [e.proven for e in table.cell("no impact", "cached by the OS")] == [None]
    assert table.duplicates == {"a4": None}
    assert list(table.unsafe) == ["a3"] and "full_page_writes = off" in table.unsafe["a3"][0]
    assert table.next.overlays == ("a1", "a14")
    assert [left.overlay for left in table.next.left] == ["a10"]  # its benefit may be noise


def test_every_measured_overlay_is_in_one_class() -> None:
    overlays = [A1, A2, A3, A4, A10]
    rates = {"s": {o.name: RelativeRate(0.97 + 0.03 * i) for i, o in enumerate(overlays)}}
    table = study(BASE, overlays, rates)
    assert sorted(e.overlay for cls in CLASSES for e in table.cell(cls, "s")) == sorted(rates["s"])


def test_synchronous_commit_is_noted_and_not_unsafe() -> None:
    safe_base = {**BASE, "synchronous_commit": "on"}
    lazy = Overlay("lazy", {**safe_base, "synchronous_commit": "off"})
    table = study(safe_base, [lazy], {"s": {"lazy": RelativeRate(2.0)}})
    assert table.unsafe == {} and "data stays whole" in table.noted["lazy"][0]
    assert table.next.overlays == ("lazy",)
    # In a base that has it already an overlay is not blamed; the base is.
    table = study(BASE, [A1], {"s": {"a1": RelativeRate(2.0)}})
    assert table.noted == {} and "synchronous_commit" in table.base_warnings[0]


def test_winners_that_hurt_elsewhere_stay_out() -> None:
    table = study(BASE, [A1], {"s": {"a1": RelativeRate(1.2)}, "t": {"a1": RelativeRate(0.9)}})
    assert table.next.overlays == ()
    assert table.next.left[0].reason == "hurts in t"


def test_of_rivals_the_better_one_is_taken() -> None:
    table = study(BASE, [A2, A14], {"s": {"a2": RelativeRate(1.04), "a14": RelativeRate(1.08)}})
    assert table.next.overlays == ("a14",)
    assert table.next.left[0].overlay == "a2" and "a14" in table.next.left[0].reason


def test_a_combination_is_built_from_its_parts() -> None:
    rates = {"s": {"a1": RelativeRate(1.1), "a10": RelativeRate(1.03), "a18": RelativeRate(1.15)}}
    table = study(BASE, [A1, A10, A18], rates)
    assert table.next.overlays == ("a1", "a10")
    assert "only joins" in table.next.left[0].reason
    alone = study(BASE, [A18], {"s": {"a18": RelativeRate(1.15)}})
    assert alone.next.overlays == ("a18",)


def test_the_winners_of_the_published_study_are_its_next_config() -> None:
    a12 = overlay("a12", wal_buffers="64MB")
    overlays = [A1, A2, A3, A4, A10, a12, A16]
    rates = {
        "s": {
            "a1": RelativeRate(1.2),
            "a2": RelativeRate(0.9),
            "a3": RelativeRate(1.3),
            "a4": RelativeRate(1.0),
            "a10": RelativeRate(1.03),
            "a12": RelativeRate(1.02),
            "a16": RelativeRate(1.06),
        }
    }
    table = study(BASE, overlays, rates)
    assert table.next.overlays == ("a1", "a10", "a12", "a16")
    assert next_configs(["cached"], overlays, table.next) == [
        ("cached",),
        ("cached", "a1"),
        ("cached", "a10"),
        ("cached", "a12"),
        ("cached", "a16"),
        ("cached", "a1", "a10", "a12", "a16"),
    ]


def test_next_configs_without_and_with_one_winner() -> None:
    nothing = study(BASE, [A1], {"s": {"a1": RelativeRate(1.0)}})
    assert next_configs(["cached"], [A1], nothing.next) == [("cached",)]
    files = Overlay("a1", A1.settings, ("./overlays/a1.conf",))
    one_winner = study(BASE, [files], {"s": {"a1": RelativeRate(1.1)}})
    assert next_configs(["cached"], [files], one_winner.next) == [
        ("cached",),
        ("cached", "./overlays/a1.conf"),
    ]
