"""The demonstration: it needs nothing but a network, proves nothing wrong, and says what to do next."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from pgstrata.cli.demo import NEXT, STEPS
from pgstrata.cli.main import invoke
from pgstrata.server.find.model import Server
from support.program import Program

KNOWN = {"hot-points": "faster", "points-covered-si": "slower"}
"""What longer measurements prove of these versions; beside other load a step may stay unclear."""


@pytest.mark.timeout(900)
def test_the_demonstration_proves_nothing_wrong(
    place: Path, pgstrata: Program, pg12: Server, pg17: Server
) -> None:
    (place / "data").mkdir()
    done = pgstrata("demo", "--data-dir", place / "data")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(NEXT + "\n")
    assert "pg17" in (place / "results/demo.report/index.html").read_text()
    judged = pgstrata("compare", pg12.label, pg17.label, "--format", "json")
    (comparison,) = json.loads(judged.stdout)
    words = {step["step"]: step["word"] for step in comparison["steps"]}
    assert sorted(words) == sorted(STEPS)
    assert all(words[step] in (word, "unclear") for step, word in KNOWN.items()), words
    again = pgstrata("demo", "--data-dir", place / "data")
    assert again.returncode == 0
    assert "2 of 2 runs are there already" in again.stderr


def test_what_comes_next_are_commands(capsys: pytest.CaptureFixture[str]) -> None:
    commands = [line.split("  ") for line in NEXT.splitlines() if line.startswith("  pgstrata")]
    assert len(commands) == 4
    for _, command, *_ in commands:
        name = shlex.split(command)[1]
        assert invoke([name, "--help"]) == 0
        options = [word for word in shlex.split(command) if word.startswith("--")]
        assert all(option in capsys.readouterr().out for option in options[:1])


def test_as_many_steps_come_next_as_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["steps", "sysbench", "--format", "json"]) == 0
    number = len(json.loads(capsys.readouterr().out))
    assert f"two versions, at {number} steps" in NEXT
