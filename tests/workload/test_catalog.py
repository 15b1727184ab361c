"""What holds for every workload: of steps, for those that need nothing but a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pgstrata.driver.message import document
from pgstrata.errors import UsageError
from pgstrata.server.features import Features
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Step

DOCS = Path(__file__).parents[2] / "docs"
SPEC = Draft202012Validator(json.loads((DOCS / "driver-spec.schema.json").read_text()))
CONNECTION = {"host": "/tmp", "port": 5432, "user": "postgres", "database": "pgstrata"}

#: Options that make each workload say everything it can say.
UNUSUAL: dict[str, list[dict[str, Any]]] = {
    "insert": [
        {"clients": 3, "tables": "shared", "partitions": 4, "htap_seconds": 1, "min_refresh": 0},
        {"clients": 3, "steps": "0:point 0:range", "indexes": "before-load", "max_refresh": 0},
    ],
    "sysbench": [
        {"steps": "full extras", "tables": 5, "clients": 3, "load_connections": 2},
        {"steps": "full extras", "prepared": False, "secondary": True, "scans": 2, "cache_seconds": 0},
    ],
    "pgbench": [
        {"partitions": 3, "foreign_keys": True, "partition_method": "hash", "rate": 10, "max_tries": 5},
    ],
    "tpcds": [
        {
            "passes": 2,
            "streams": 3,
            "warmup": 1,
            "plans": "estimate",
            "vacuum": "full",
            "load_connections": 5,
        },
        {
            "queries": "14",
            "passes": 0,
            "answers": False,
            "indexes": "none",
            "vacuum": "none",
            "plans": "none",
        },
    ],
    "tpch": [
        {"passes": 2, "streams": 3, "warmup": 1, "plans": "estimate", "vacuum": "full"},
        {"queries": "14", "refresh": False, "indexes": "none", "answers": False, "plans": "none"},
    ],
    "fulltext": [
        {"clients": 3, "passes": 2, "warmup": 1, "build": "after", "indexes": "gist gin"},
        {"build": "before", "indexes": "gin", "language": "simple", "query_count": 1, "clients": 5},
    ],
}


def few_searches(options: dict[str, Any]) -> dict[str, Any]:
    """Returns the options with 100 searches, where it has more: they differ in their words only, and the
    validator takes a millisecond for each."""
    return {**options, "query_count": 100} if "query_count" in options else options


def options_of_all() -> list[Any]:
    cases = []
    for name in UNUSUAL:
        workload = catalog.find(name)
        named = {f"{name}-{s}": catalog.scale(workload, s) for s in workload.scales}
        for i, more in enumerate(UNUSUAL[name]):
            named[f"{name}-unusual{i}"] = {**catalog.scale(workload, "quick"), **more}
        cases += [pytest.param(name, few_searches(options), id=id_) for id_, options in named.items()]
    return cases


def steps(name: str, options: dict[str, Any], version_num: int = 170_000) -> list[Step]:
    workload = catalog.find(name)
    phases = workload.phases(workload.Options.model_validate(options), Features(version_num))
    return [p for p in phases if isinstance(p, Step)]


@pytest.mark.parametrize(("name", "options"), options_of_all())
def test_every_step_is_a_valid_spec(name: str, options: dict[str, Any]) -> None:
    for step in steps(name, options):
        whole = {"version": 1, "connection": CONNECTION, **document(step.spec())}
        SPEC.validate(whole)


@pytest.mark.parametrize(("name", "options"), options_of_all())
def test_steps_fit_together(name: str, options: dict[str, Any]) -> None:
    all_steps = steps(name, options)
    assert len({s.name for s in all_steps}) == len(all_steps)
    for step in all_steps:
        roles = {r.name: r for r in step.roles}
        assert len(roles) == len(step.roles)
        assert step.headline.role in roles
        # A step ends by time, or because every client of some role finishes.
        assert (step.seconds is None) == any(r.operations for r in step.roles)
        assert step.seconds is not None or step.estimated_seconds
        for lockstep in step.lockstep:
            assert len({(roles[name].clients, roles[name].operations) for name in lockstep.roles}) == 1


@pytest.mark.parametrize(("name", "options"), options_of_all())
def test_the_same_options_give_the_same_specs(name: str, options: dict[str, Any]) -> None:
    assert [s.spec() for s in steps(name, options)] == [s.spec() for s in steps(name, options)]


@pytest.mark.parametrize("name", UNUSUAL)
def test_oldest_and_newest_servers_get_phases_and_an_estimate(name: str) -> None:
    workload = catalog.find(name)
    for scale in workload.scales:
        options = workload.Options.model_validate(catalog.scale(workload, scale))
        assert workload.phases(options, Features(90_624)) and workload.phases(options, Features(180_000))
        estimate = workload.estimate(options)
        assert estimate.seconds > 0 and estimate.disk_bytes > 10_000_000


@pytest.mark.parametrize("name", UNUSUAL)
def test_a_larger_scale_takes_longer_and_more_disk(name: str) -> None:
    workload = catalog.find(name)
    quick, large = (
        workload.estimate(workload.Options.model_validate(catalog.scale(workload, s)))
        for s in ("quick", "large")
    )
    assert quick.seconds < 120 < large.seconds
    assert quick.disk_bytes < large.disk_bytes


@pytest.mark.parametrize("name", catalog.names())
def test_every_option_is_described(name: str) -> None:
    for field, info in catalog.find(name).Options.model_fields.items():
        assert info.description, field


@pytest.mark.parametrize("name", UNUSUAL)
def test_options_survive_being_stored(name: str) -> None:
    workload = catalog.find(name)
    options = workload.Options.model_validate(catalog.scale(workload, "quick"))
    stored = json.loads(json.dumps(options.model_dump(mode="json")))
    assert workload.Options.model_validate(stored) == options


def test_unknown_names_are_answered_with_known_ones() -> None:
    with pytest.raises(UsageError, match="'sysbnech'") as raised:
        catalog.find("sysbnech")
    assert "Did you mean 'sysbench'?" in raised.value.hint
    with pytest.raises(UsageError, match="'huge'") as raised:
        catalog.scale(catalog.find("insert"), "huge")
    assert "quick" in raised.value.hint


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.update(version=2),
        lambda d: d.pop("roles"),
        lambda d: d["roles"][0].update(mode="fast"),
        lambda d: d["roles"][0].update(operations=0),
        lambda d: d["roles"][0]["scripts"][0]["ops"][0].update(sequel=1),
        lambda d: d.update(color="red"),
    ],
)
def test_the_schema_refuses_what_the_driver_does(damage: Any) -> None:
    step = steps("insert", {"rows": 1000})[0]
    whole = {"version": 1, "connection": CONNECTION, **document(step.spec())}
    assert SPEC.is_valid(whole)
    damage(whole)
    assert not SPEC.is_valid(whole)
