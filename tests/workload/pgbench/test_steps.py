"""The pgbench workload as data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from pgstrata.driver.message import document
from pgstrata.errors import UsageError
from pgstrata.server.features import NEWEST, Features
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Admin, Phase, Refine, Step
from pgstrata.workload.core.options import REFINED
from pgstrata.workload.pgbench.options import PgbenchOptions

PGBENCH = catalog.find("pgbench")


def phases(version_num: int = 170_000, **options: Any) -> list[Phase]:
    return PGBENCH.phases(PgbenchOptions.model_validate(options), Features(version_num))


def measured(**options: Any) -> list[Step]:
    return [p for p in phases(**options) if isinstance(p, Step) and p.measured]


def test_the_matrix_is_scripts_by_modes_by_clients() -> None:
    chosen = measured(builtin="select-only tpcb-like", modes=["simple", "prepared"], clients=[1, 8])
    assert [s.name for s in chosen] == [
        f"{script}-{mode}-c{n}"
        for script in ("select-only", "tpcb-like")
        for mode in ("simple", "prepared")
        for n in (1, 8)
    ]
    assert {s.group for s in chosen} == {
        "select-only, simple",
        "select-only, prepared",
        "tpcb-like, simple",
        "tpcb-like, prepared",
    }
    assert [s.roles[0].clients for s in chosen] == [1, 8] * 4
    assert len(measured()) == 3 * 3 * 6


def test_only_select_only_reads_only() -> None:
    assert [s.reads_only for s in measured(modes="simple", clients=1)] == [True, False, False]


def test_the_scripts_know_the_scale_and_prepare_at_first_use() -> None:
    step = measured(scale=30, builtin="tpcb-like", modes="prepared", clients=2, define={"x": 5})[0]
    spec = document(step.spec())
    role = spec["roles"][0]
    assert role["variables"] == {"scale": 30, "random_seed": 1, "default_seed": 1, "x": 5}
    assert (role["prepare"], role["mode"]) == ("lazy", "prepared")
    assert role["scripts"][0]["text"].splitlines()[:4] == [
        "\\set aid random(1, 100000 * :scale)",
        "\\set bid random(1, 1 * :scale)",
        "\\set tid random(1, 10 * :scale)",
        "\\set delta random(-5000, 5000)",
    ]


@pytest.mark.parametrize(
    ("text", "clients"),
    [
        ("1..8", (1, 2, 4, 8)),
        ("1..48", (1, 2, 4, 8, 16, 32, 48)),
        ("3..10000", (3, 6, 12, 24, 48, 96, 192, 384, 768, 1536, 3072, 6144, 10_000)),
        ("1..2 12", (1, 2, 12)),
        ("1 8", (1, 8)),
    ],
)
def test_a_range_of_clients_doubles_up_to_its_end(text: str, clients: tuple[int, ...]) -> None:
    assert PgbenchOptions.model_validate({"clients": text}).clients == clients


@pytest.mark.parametrize(
    "text", ["1..", "..8", "8..1", "1..1", "0..8", "1..10001", "1..8..16", "1..N", "1..9999999999"]
)
def test_a_range_that_is_none_is_named_with_what_to_write(text: str) -> None:
    with pytest.raises(ValidationError, match=rf"'{re.escape(text)}' is no range of clients: write 1..N"):
        PgbenchOptions.model_validate({"clients": text})


def test_own_scripts_are_mixed_by_weight_in_one_step(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT 1;\n")
    (tmp_path / "b@home.sql").write_text("SELECT 2;\n")
    options = PgbenchOptions.model_validate(
        {"scripts": ["a.sql@3", "b@home.sql"], "modes": "simple", "clients": 4, "initialise": False},
        context={"folder": tmp_path},
    )
    _, step = PGBENCH.phases(options, NEWEST)
    assert isinstance(step, Step)
    assert step.name == "a+b@home-simple-c4"
    assert [(s["weight"], s["text"]) for s in document(step.spec())["roles"][0]["scripts"]] == [
        (3, "SELECT 1;\n"),
        (1, "SELECT 2;\n"),
    ]


def test_own_scripts_only_read_where_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT 1;\n")
    for reads_only in (False, True):
        more = {
            "builtin": ["select-only", "tpcb-like"],
            "modes": "simple",
            "clients": 1,
            "reads_only": reads_only,
        }
        steps = measured(scripts=[f"{tmp_path}/a.sql"], **more)
        assert {step.name: step.reads_only for step in steps} == {
            "select-only-simple-c1": True,
            "tpcb-like-simple-c1": False,
            "a-simple-c1": reads_only,
        }


def test_scripts_start_programs_only_where_that_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("\\shell true\n")
    for allowed in (False, True):
        (step,) = measured(scripts=[f"{tmp_path}/a.sql"], modes="simple", clients=1, allow_shell=allowed)
        assert document(step.spec())["roles"][0]["allow_shell"] is allowed


def test_a_script_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.sql"):
        phases(scripts=[str(tmp_path / "nowhere.sql")])
    (tmp_path / "latin.sql").write_bytes(b"SELECT 1;\nSELECT '\xe9';\n")
    with pytest.raises(UsageError, match="line 2"):
        phases(scripts=[str(tmp_path / "latin.sql")])


def test_scripts_without_any_weight_run_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT 1;\n")
    with pytest.raises(UsageError, match="weight 0"):
        phases(scripts=[f"{tmp_path}/a.sql@0"])


def test_tables_of_a_large_scale_have_wide_keys() -> None:
    for scale, kind in ((19_999, "int"), (20_000, "bigint")):
        create = phases(scale=scale)[0]
        assert isinstance(create, Admin)
        assert f"create table pgbench_accounts(aid {kind} not null," in create.statements[2]
        assert f",aid {kind},delta" in create.statements[0]


def test_rows_are_frozen_where_the_version_and_the_table_allow() -> None:
    def frozen(version_num: int, **options: object) -> list[str]:
        load = phases(version_num, **options)[1]
        assert isinstance(load, Step)
        ops = document(load.spec())["roles"][0]["scripts"][0]["ops"]
        return [op["copy"].split()[1] for op in ops if "copy" in op and "freeze" in op["copy"]]

    assert frozen(130_000) == []
    assert frozen(140_000) == ["pgbench_branches", "pgbench_tellers", "pgbench_accounts"]
    assert frozen(140_000, partitions=2) == ["pgbench_branches", "pgbench_tellers"]


def test_partitions_and_foreign_keys_need_versions_that_have_them() -> None:
    with pytest.raises(UsageError, match="PostgreSQL 11"):
        phases(100_000, partitions=2)
    phases(110_000, partitions=2)
    with pytest.raises(UsageError, match="PostgreSQL 12"):
        phases(110_000, partitions=2, foreign_keys=True)
    phases(120_000, partitions=2, foreign_keys=True)


def test_a_rate_is_shared_by_the_connections() -> None:
    (step,) = measured(rate=100, builtin="select-only", modes="simple", clients=8)
    assert document(step.spec())["roles"][0]["rate"] == {"per_client": 12.5, "arrivals": "poisson"}


def test_a_scale_by_memory_becomes_a_number_that_grows_with_it() -> None:
    half, double = (PgbenchOptions.model_validate({"scale": s}).scale for s in ("50%", "200%"))
    assert (half >= 1 and 3.9 * half < double < 4.1 * half) or half == 1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"builtin": "select-all"}, "builtin"),
        ({"clients": [0]}, "clients"),
        ({"modes": []}, "modes"),
        ({"builtin": []}, "anything to run"),
        ({"define": {"a b": 1}}, "a b"),
        ({"scale": "half"}, "scale"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        PgbenchOptions.model_validate(options)


def refined(**options: Any) -> list[Refine]:
    return [p for p in phases(builtin="select-only", modes="prepared", **options) if isinstance(p, Refine)]


def test_a_range_of_clients_has_a_place_for_further_points() -> None:
    (place,) = refined(clients="1..8")
    assert (place.steps, tuple(place.clients), place.most) == ("select-only-prepared", (1, 2, 4, 8), REFINED)
    assert isinstance(phases(builtin="select-only", modes="prepared", clients="1..8")[-1], Refine)
    admin, step = place.at(6)
    assert isinstance(admin, Admin) and isinstance(step, Step)
    assert step.name == place.name(6) == "select-only-prepared-c6"
    assert step.roles[0].clients == 6 and step.reads_only
    others = measured(builtin="select-only", modes="prepared", clients=[4, 6])
    assert document(step.spec()) == document(others[1].spec())


@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({"clients": [1, 2, 4]}, []),
        ({"clients": [1, 2, 4], "refine": 3}, [3]),
        ({"clients": "1..8", "refine": 0}, []),
        ({"clients": "1..8", "refine": 7}, [7]),
        ({"clients": [1, 8], "refine": 3}, []),
        ({"clients": 8, "refine": 3}, []),
    ],
)
def test_points_are_added_to_three_numbers_or_more(options: dict[str, Any], most: list[int]) -> None:
    assert [place.most for place in refined(**options)] == most


def test_recorded_options_of_a_range_mean_the_same() -> None:
    options = PgbenchOptions.model_validate({"clients": "1..8"})
    assert PgbenchOptions.model_validate(options.model_dump(mode="json")) == options
    assert PgbenchOptions.model_validate({"clients": [1, 2, 4, 8]}) != options


@pytest.mark.parametrize("refine", [-1, 101, "some"])
def test_points_that_are_no_number_are_refused(refine: object) -> None:
    with pytest.raises(ValidationError, match="refine"):
        PgbenchOptions.model_validate({"refine": refine})
