"""`pgstrata noise`: two clusters of one server, and what would be visible."""

from __future__ import annotations

import json
from pathlib import Path

from pgstrata.server.model import Server
from support_program import Program


def test_the_base_against_itself(place: Path, pgstrata: Program, pg17: Server) -> None:
    arguments = ["noise", "--server", pg17.spec, "--rows", "500", "--data-dir", "data"]
    done = pgstrata(*arguments, "--minutes", "0.08", "--slice-seconds", "0.25", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["pairs"] == 10
    assert [v["minutes"] for v in found["visible"]] == [1, 5, 20]
    assert [v["pairs"] for v in found["visible"]] == [120, 600, 2400]
    for visible in found["visible"]:
        assert 0 < visible["fixed"] < visible["watched"] < 1
    assert list((place / "data").iterdir()) == []

    assert "at least 8" in pgstrata(*arguments, "--minutes", "0.01").stderr
    refused = pgstrata(*arguments, "--minutes", "0.08", "--slice-seconds", "0.25", "--step", "point-qery")
    assert refused.returncode == 2
