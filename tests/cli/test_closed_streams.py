"""Standard streams that are closed, or in an encoding that lacks a letter: no command stumbles over them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.program import environment
from support.runs import make_campaign

COMMANDS = ("workloads", "config list", "steps sysbench", "runs", "query 'select 1'", "--help", "--version")

pytestmark = pytest.mark.program


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    make_campaign(folder / "results", seconds=2)
    return folder


def shell(command: str, place: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A command of a shell in which `pgstrata` is the program."""
    script = f'pgstrata() {{ "{sys.executable}" -m pgstrata "$@"; }}; {command}'
    return subprocess.run(
        ["bash", "-c", script], cwd=place, env=environment(**more), text=True, capture_output=True
    )


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_closed_stream_is_nothing_to_write_to(command: str, closed: str, place: Path) -> None:
    done = shell(f"pgstrata {command} {closed}", place)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", COMMANDS)
def test_letters_that_the_locale_lacks_are_escaped(command: str, place: Path) -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii:strict"}
    done = shell(f"pgstrata {command}", place, **plain)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii() or command == "--help", "which click prints"


def test_json_stays_json_then(place: Path) -> None:
    done = shell("pgstrata query \"select '…▲é😀' as t\" --format json", place, PYTHONIOENCODING="ascii")
    assert json.loads(done.stdout) == [{"t": "…▲é😀"}]


@pytest.mark.parametrize(
    "command", ["query 'select * from range(100000)'", "workloads --format json", "run --help", "--help"]
)
def test_a_reader_that_has_enough_ends_a_command_as_it_ends_others(command: str, place: Path) -> None:
    """Also where more is printed than the stream keeps back, which is written on the way."""
    done = shell(f"pgstrata {command} | true; echo ${{PIPESTATUS[0]}}", place)
    assert (done.stdout, done.stderr) == ("141\n", "")
