"""The pages about workloads say what is there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from pgstrata.driver.message import document
from pgstrata.server.features import NEWEST
from pgstrata.workload.core.language import Step
from pgstrata.workload.sysbench.steps import ALL

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_sysbench_names_every_microbenchmark() -> None:
    page = (DOCS / "reference/sysbench.md").read_text()
    for m in ALL:
        stem, _, number = m.name.removesuffix(".pre").partition("=")
        ending = f"-{stem.rpartition('-')[2]}"
        assert f"`{stem}`" in page or f"`{stem}=" in page or f"`{ending}`" in page, m.name
        assert not number or f"={number}`" in page, m.name


def test_the_example_workload_works() -> None:
    page = (DOCS / "guides/adding-a-workload.md").read_text()
    code = re.findall(r"```python\n(.*?)```", page, re.S)[0]
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(code, "adding-a-workload.md", "exec"), names)
    workload = names["Count"]()
    names["CountOptions"].model_rebuild(_types_namespace=names)
    options = workload.Options.model_validate(workload.scales["quick"])
    schema = Draft202012Validator(json.loads((DOCS / "driver-spec.schema.json").read_text()))
    connection = {"host": "/tmp", "port": 5432, "user": "postgres", "database": "pgstrata"}
    steps = [p for p in workload.phases(options, NEWEST) if isinstance(p, Step)]
    assert [s.name for s in steps] == ["count", "count-updates"]
    for step in steps:
        schema.validate({"version": 1, "connection": connection, **document(step.spec())})
    assert workload.estimate(options).seconds >= sum(s.seconds or 0 for s in steps)
