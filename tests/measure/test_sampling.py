"""Sample statements for EXPLAIN: whole SQL with the middle of every range, the same for every version."""

from __future__ import annotations

import pytest

from pgstrata.measure.sampling import Prepared, evaluate, samples, script_statements
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Step


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        ("random(1, 101)", 51),
        ("random(1, 100 * :scale)", 500),
        (":scale + 3 * 2", 16),
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("greatest(1, 5, 3)", 5),
        ("random_zipfian(1, 1000, 1.2)", 1),
        ("permute(:nothing, 5)", 1),
        ("1 / 0", 1),
        ("CASE WHEN true THEN 3 END", 1),
        ("__import__('os')", 1),
        ("(" * 5000, 1),
    ],
)
def test_expressions(expr: str, value: object) -> None:
    assert evaluate(expr, {"scale": 10}) == value


def test_repeated_values_spread_over_the_range() -> None:
    step = {"repeat": 4, "of": [{"expr": "random(0, 80)", "type": "int4"}], "separator": ", "}
    (sample,) = samples(_spec({"sql": ["SELECT c FROM t WHERE id IN (", step, ")"], "name": "s"}))
    assert sample.sql == "SELECT c FROM t WHERE id IN (10, 30, 50, 70)"


def test_parts() -> None:
    parts = [
        "INSERT INTO t",
        {"text": ":t", "from": 3, "to": 9},
        " VALUES (",
        {"digits": "##-#"},
        ", ",
        {"fill": {"min": 3, "max": 9, "random": 0.5}},
        ", ",
        {"expr": ":name", "type": "text"},
        ")",
    ]
    (sample,) = samples(_spec({"set": "name", "expr": "5"}, {"sql": parts, "name": "in"}))
    assert sample.sql == "INSERT INTO t3 VALUES ('55-5', 'aaa', '5')"


def test_only_statements_that_have_a_plan_and_each_once() -> None:
    begin, select = {"sql": ["BEGIN"], "name": ""}, {"sql": ["SELECT 1"], "name": "one"}
    found = samples(_spec(begin, select, {"every": 5, "ops": [select]}, {"if": [["1 = 1", [select]]]}))
    assert [s.name for s in found] == ["one"]


def test_script_text() -> None:
    text = (
        "\\set aid random(1, 100000 * :scale)\n-- a comment; with a semicolon\n"
        "BEGIN;\nSELECT ':aid', x::int, a[1:2] FROM t WHERE aid = :aid;\n"
        "SELECT $$ ; $$ \\gset p_\n\\if :p_x\nUPDATE t SET n = :unknown\\; SELECT 2;\n\\endif\nEND"
    )
    found = list(script_statements(text, {"scale": 2}))
    assert [sample for _, sample, _ in found] == [
        "BEGIN",
        "SELECT ':aid', x::int, a[1:2] FROM t WHERE aid = 100000",
        "SELECT $$ ; $$",
        "UPDATE t SET n = :unknown",
        "SELECT 2",
        "END",
    ]
    assert found[1][0].endswith("WHERE aid = :aid")
    assert found[1][2] == ("SELECT ':aid', x::int, a[1:2] FROM t WHERE aid = $1", ["aid"])
    assert found[3][2] == ("UPDATE t SET n = $1", ["unknown"])


@pytest.mark.parametrize(("role", "op"), [("prepared", None), ("simple", "prepared")])
def test_parameters_of_a_prepared_statement(role: str, op: str | None) -> None:
    key = {"expr": "random(0, 40)", "type": "int4"}
    parts = ["SELECT ", {"digits": "##"}, " FROM t WHERE id IN (", {"repeat": 2, "of": [key]}, ")"]
    spec = _spec({"sql": parts, "name": "s"} | ({"mode": op} if op else {}))
    spec["roles"][0] |= {"mode": role, "declare_types": True}  # type: ignore[index]
    (sample,) = samples(spec)
    assert sample.sql == "SELECT '55' FROM t WHERE id IN (10,30)"
    assert sample.prepared == Prepared(
        "SELECT $1 FROM t WHERE id IN ($2,$3)", ("unknown", "int4", "int4"), ("55", 10, 30)
    )


def test_what_execute_runs_is_the_statement_that_was_prepared_in_sql() -> None:
    spec = _spec({"sql": ["execute q (", {"expr": "random(0, 40)", "type": "int4"}, ")"], "name": "s"})
    prepare = {"sql": ["PREPARE q (int) AS SELECT a FROM t", {"text": ":client", "from": 1, "to": 2}]}
    prepare["sql"].append(" WHERE b >= $1 LIMIT 3")
    spec["roles"][0] |= {"mode": "simple", "start": [prepare]}  # type: ignore[index]
    (sample,) = samples(spec)
    assert (sample.name, sample.sql) == ("s", "SELECT a FROM t1 WHERE b >= 20 LIMIT 3")
    assert sample.prepared == Prepared("SELECT a FROM t1 WHERE b >= $1 LIMIT 3", ("int",), (20,))


@pytest.mark.parametrize("name", ["insert", "sysbench", "pgbench"])
def test_every_measured_step_has_statements_to_explain(name: str) -> None:
    workload = catalog.find(name)
    options = workload.Options.model_validate({**workload.scales["quick"]})
    for phase in workload.phases(options, 170000):
        if isinstance(phase, Step) and phase.measured and phase.name not in ("l.i0", "l.x"):
            found = samples(phase.spec())
            assert found, phase.name
            assert not any("{" in s.sql or "None" in s.sql for s in found)


def _spec(*ops: object) -> dict[str, object]:
    return {"roles": [{"name": "q", "scripts": [{"ops": list(ops), "before": []}]}]}
