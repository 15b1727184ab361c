from __future__ import annotations

import re
from pathlib import Path

import pytest

from pgstrata.stats.metrics import METRICS
from pgstrata.store.ask import query
from support.runs import make_campaign

TEXT = (Path(__file__).parents[2] / "docs/reference/results.md").read_text()
QUERIES = [sql for block in re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL) for sql in block.split("\n\n")]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("results")
    make_campaign(root, seconds=2)
    return root


@pytest.mark.parametrize("sql", QUERIES)
def test_queries_of_the_documentation_have_answers(root: Path, sql: str) -> None:
    answer = query(root, sql)
    assert answer.rows
    assert None not in answer.rows[0]


def test_all_metrics_are_documented() -> None:
    for key, (name, meaning) in METRICS.items():
        assert f"| `{key}` | {name} | {meaning} |" in TEXT
