from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from pgstrata.cli.main import app
from pgstrata.errors import StoreError
from pgstrata.store import RunKey
from support.runs import make_run


def test_a_folder_without_runs_is_named_and_one_near_by_that_has_some(tmp_path: Path) -> None:
    """As the folder of `pgstrata upgrade`, whose runs lie below `runs`."""
    make_run(tmp_path / "upgrade" / "runs", RunKey("c", "pg17.11", "insert", 1), seconds=2)
    asked = ["query", "select count(*) from runs", "--format", "csv", "--results"]
    done = CliRunner().invoke(app, [*asked, str(tmp_path / "upgrade")])
    assert isinstance(done.exception, StoreError)
    assert "there are no runs in" in done.exception.message
    assert f"{tmp_path}/upgrade/runs has some" in (done.exception.hint or "")
    assert done.stdout == ""
    assert CliRunner().invoke(app, [*asked, str(tmp_path / "upgrade" / "runs")]).stdout == "count_star()\n1\n"


def test_an_empty_folder_is_no_answer(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there are no runs in"):
        app(["query", "select * from runs", "--results", str(tmp_path)], standalone_mode=False)
