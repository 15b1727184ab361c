"""Sample statements for EXPLAIN: whole SQL with the middle of every range, the same for every version."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest

from pgstrata.driver.samples import Prepared, Sample, samples
from pgstrata.driver.spec import RoleSpec, StepSpec
from pgstrata.errors import DriverError
from pgstrata.server.features import NEWEST
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Step

pytestmark = pytest.mark.program


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        ("random(1, 101)", "51"),
        ("random(1, 100 * :scale)", "500"),
        (":scale + 3 * 2", "16"),
        ("7 / 2", "3"),
        ("-7 / 2", "-3"),
        ("-7 % 3", "-1"),
        ("greatest(1, 5, 3)", "5"),
        ("random_zipfian(1, 1000, 1.2)", "1"),
        ("sqrt(2.25)", "1.5"),
        ("CASE WHEN true THEN 3 END", "3"),
        ("permute(:nothing, 5)", "1"),
        ("1 / 0", "1"),
    ],
)
def test_a_value_is_the_middle_of_its_range_and_1_where_it_cannot_be_known(expr: str, value: str) -> None:
    (sample,) = samples(
        _spec(
            {"set": "x", "expr": expr},
            {"sql": ["SELECT ", {"expr": ":x"}], "name": "s"},
            variables={"scale": 10},
        )
    )
    assert sample.sql == f"SELECT {value}"


@pytest.mark.parametrize("expr", ["__import__('os')", "(" * 5000, ""])
def test_an_expression_that_is_none_is_refused_with_the_step(expr: str) -> None:
    with pytest.raises(DriverError, match="does not accept the step"):
        samples(_spec({"set": "x", "expr": expr}))


def test_repeated_values_spread_over_the_range() -> None:
    part = {"repeat": 4, "of": [{"expr": "random(0, 80)", "type": "int4"}], "separator": ", "}
    (sample,) = samples(_spec({"sql": ["SELECT c FROM t WHERE id IN (", part, ")"], "name": "s"}))
    assert sample.sql == "SELECT c FROM t WHERE id IN (10, 30, 50, 70)"


def test_every_kind_of_part_has_a_sample_value() -> None:
    parts = [
        "INSERT INTO t",
        {"text": ":t", "from": 3, "to": 9},
        " VALUES (",
        {"digits": "##-#"},
        ", ",
        {"fill": {"min": 3, "max": 9, "random": 0.5}},
        ", ",
        {"expr": ":name", "type": "text"},
        ", ",
        {"now": "second"},
        ")",
    ]
    spec = _spec({"sql": parts, "name": "in"}, variables={"name": "o'neil"})
    (sample,) = samples(spec)
    values = r"'55-5', 'aaa', 'o''neil', '\d{4}-\d\d-\d\d \d\d:\d\d:\d\d'"
    assert re.fullmatch(rf"INSERT INTO t3 VALUES \({values}\)", sample.sql)


def test_only_statements_that_have_a_plan_and_each_once() -> None:
    begin, select = {"sql": ["BEGIN"], "name": ""}, {"sql": ["/* a */ SELECT 1"], "name": "one"}
    statements = samples(_spec(begin, select, {"every": 5, "ops": [select]}, {"if": [["1 = 1", [select]]]}))
    assert [s.name for s in statements] == ["one"]


def test_statements_that_differ_in_numbers_only_are_one() -> None:
    first, two = ({"sql": [f"SELECT {n} FROM t{n}"], "name": "s"} for n in (1, 22))
    assert [s.sql for s in samples(_spec(first, two))] == ["SELECT 1 FROM t1"]


SCRIPT = (
    "\\set aid random(1, 100000 * :scale)\n-- a comment; with a semicolon\n"
    "BEGIN;\nSELECT ':aid', x::int, a[1:2] FROM t WHERE aid = :aid;\n"
    "SELECT $$ ; $$ \\gset p_\n\\if :p_x\nUPDATE t SET n = :unknown\\; SELECT 2;\n\\endif\nEND"
)


def _script(mode: str) -> list[Sample]:
    role = {"name": "q", "clients": 1, "mode": mode, "variables": {"scale": 2}}
    return samples(_whole({**role, "scripts": [{"name": "s.sql", "text": SCRIPT}]}))


def test_a_script_is_cut_into_statements_as_the_driver_sends_them() -> None:
    assert [s.sql for s in _script("simple")] == [
        "SELECT ':aid', x::int, a[1:2] FROM t WHERE aid = 100000".replace(":aid", "100000"),
        "SELECT $$ ; $$",
        "UPDATE t SET n = :unknown",
        "SELECT 2",
    ]


def test_variables_of_a_prepared_script_are_parameters() -> None:
    first, second, third = _script("prepared")[:3]
    assert first.name == "SELECT ':aid', x::int, a[1:2] FROM t WHERE aid = :aid;"
    text = "SELECT '$1', x::int, a[1:2] FROM t WHERE aid = $2"
    assert first.prepared == Prepared(text, ("unknown", "unknown"), ("100000", "100000"))
    assert second.prepared == Prepared("SELECT $$ ; $$", (), ())
    # two statements in one are not prepared; what an earlier one returned is not known
    assert (third.sql, third.prepared) == ("UPDATE t SET n = 1", None)


@pytest.mark.parametrize(("role", "op"), [("prepared", None), ("simple", "prepared")])
def test_parameters_of_a_prepared_statement(role: str, op: str | None) -> None:
    key = {"expr": "random(0, 40)", "type": "int4"}
    parts = ["SELECT ", {"digits": "##"}, " FROM t WHERE id IN (", {"repeat": 2, "of": [key]}, ")"]
    statement = {"sql": parts, "name": "s"} | ({"mode": op} if op else {})
    (sample,) = samples(_spec(statement, mode=role, declare_types=True))
    assert sample.sql == "SELECT '55' FROM t WHERE id IN (10,30)"
    assert sample.prepared == Prepared(
        "SELECT $1 FROM t WHERE id IN ($2,$3)", ("unknown", "int4", "int4"), ("55", "10", "30")
    )


def test_what_execute_runs_is_the_statement_that_was_prepared_in_sql() -> None:
    prepare: dict[str, Any] = {
        "sql": [
            "PREPARE q (int) AS SELECT a FROM t",
            {"text": ":client", "from": 1, "to": 2},
            " WHERE b >= $1 LIMIT 3",
        ]
    }
    execute = {"sql": ["execute q (", {"expr": "random(0, 40)", "type": "int4"}, ")"], "name": "s"}
    (sample,) = samples(_spec(execute, start=[prepare]))
    assert (sample.name, sample.sql) == ("s", "SELECT a FROM t1 WHERE b >= 20 LIMIT 3")
    assert sample.prepared == Prepared("SELECT a FROM t1 WHERE b >= $1 LIMIT 3", ("int",), ("20",))


@pytest.mark.parametrize("name", ["insert", "sysbench", "pgbench"])
def test_every_measured_step_has_statements_to_explain(name: str) -> None:
    workload = catalog.find(name)
    options = workload.Options.model_validate({**workload.scales["quick"]})
    for phase in workload.phases(options, NEWEST):
        if isinstance(phase, Step) and phase.measured and phase.name not in ("l.i0", "l.x"):
            statements = samples(phase.spec())
            assert statements, phase.name
            assert not any("{" in s.sql or "None" in s.sql for s in statements)


def _spec(*ops: object, **role: object) -> StepSpec:
    return _whole({"name": "q", "clients": 1, **role, "scripts": [{"ops": list(ops)}]})


def _whole(role: dict[str, Any]) -> StepSpec:
    """A step with a role as JSON has it: the driver sees no difference."""
    return StepSpec(step="s", seconds=None, roles=[cast(RoleSpec, role)])
