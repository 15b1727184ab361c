"""Options of the workload, its steps as data, and how many rows its changes change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from pgstrata.count.measure.asked import PILOT
from pgstrata.count.measure.start import CountedPhase, plan_steps
from pgstrata.driver.message import document
from pgstrata.loads.options import STEPS, LoadsOptions
from pgstrata.loads.steps import Loads, changes
from pgstrata.server.features import NEWEST, Features
from pgstrata.workload.core.language import RecoveryKind, Step
from pgstrata.workload.core.options import NotInVersionError

SCHEMA = Path(__file__).parents[2] / "docs/driver-spec.schema.json"
CONNECTION = {"host": "/tmp", "port": 5432, "user": "postgres", "database": "pgstrata"}


def steps(**options: Any) -> list[Step]:
    phases = Loads().phases(LoadsOptions.model_validate(options), NEWEST)
    return [phase for phase in phases if isinstance(phase, Step)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"steps": "copy copy"}, "steps names one of copy, copy twice"),
        ({"steps": "reindex"}, "'crash-recovery' or 'standby-replay'"),
        ({"steps": []}, "at least 1"),
        ({"rows": 10}, "greater than or equal to 1000"),
        ({"rows": 10**15}, "less than or equal to"),
        ({"jobs": 0}, "greater than or equal to 1"),
        ({"workers": 1000}, "less than or equal to 64"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        LoadsOptions.model_validate(options)


def test_steps_come_in_their_own_order_and_make_what_they_need() -> None:
    assert [step.name for step in steps() if step.measured] == list(STEPS)
    chosen = steps(steps="crash-recovery vacuum")
    assert [(step.name, step.measured) for step in chosen] == [
        ("copy", False), ("vacuum", True), ("crash-recovery", True),
    ]  # fmt: skip
    assert Loads().only(["restore", "copy", "nothing"], 5) == {"steps": ["copy", "restore"]}
    assert Loads().only(["nothing"], 5) == {}
    with pytest.raises(NotInVersionError, match="loads needs PostgreSQL 10 or later"):
        Loads().phases(LoadsOptions(), Features(90_624))


def test_every_step_explains_itself_and_is_a_valid_spec() -> None:
    validator = Draft202012Validator(json.loads(SCHEMA.read_text()))
    for scale in Loads.scales.values():
        for step in steps(**scale):
            assert step.summary.endswith(".") and step.estimated_seconds and step.judged_load == step.measured
            if step.recovery is None:
                validator.validate({"version": 1, "connection": CONNECTION, **document(step.spec())})
        cost = Loads().estimate(LoadsOptions.model_validate(scale))
        assert cost.seconds > 0 and cost.disk_bytes > 500_000_000


@given(st.integers(1000, 20_000), st.sampled_from(get_args(RecoveryKind)))
def test_changed_rows_are_counted_right(rows: int, kind: RecoveryKind) -> None:
    statements, changed = changes(LoadsOptions(rows=rows), kind)
    ids, rest = range(1, rows + 1), 1 if kind == "crash" else 3
    assert f"id % 8 = {rest}" in statements[1]
    updated, deleted = sum(i % 4 == 0 for i in ids), sum(i % 8 == rest for i in ids)
    assert changed == updated + deleted + rows // 8


def test_what_a_driver_does_can_be_counted() -> None:
    phases = Loads().phases(LoadsOptions(rows=1000, jobs=1), NEWEST)
    plan = plan_steps(phases, lambda name: True, lambda name: PILOT, marks=False)
    counted = [phase.step.name for phase in plan.phases if isinstance(phase, CountedPhase)]
    assert counted[:5] == ["copy", "index", "index-parallel", "vacuum", "analyze"]
    assert {"crash-recovery", "standby-replay"} <= plan.left_out.keys()
    assert not [p for p in plan.phases if isinstance(p, Step) and p.recovery is not None]
