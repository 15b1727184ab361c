"""The draft of a mail about a change: its command measures again what the watch has measured."""

from __future__ import annotations

import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from pgstrata.cli.main import invoke
from pgstrata.watch.history import Alarm, Moved
from pgstrata.watch.known import Known
from pgstrata.watch.site.command import read_known
from pgstrata.watch.text import mail
from support.watched import STEPS, make_watch, raise_alarm

pytestmark = pytest.mark.program

MORE = """
config = ["default", "work_mem=64MB"]
build = "o3_native"
seed = 7
keep_settings = ["archive_command"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of a watch of twelve commits, the sixth slower."""
    return make_watch(tmp_path, [f"change {n}" for n in range(1, 13)], {6: -0.003}, more=MORE)


def command_of(known: Known, alarm: Alarm) -> list[str]:
    return shlex.split(mail(known, alarm).rstrip().rpartition("\n")[2])


def test_the_command_has_config_build_and_all_that_the_watch_says(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    alarm = raise_alarm(file, 6, -0.003)
    words = command_of(read_known(file), alarm)
    options = dict(pairwise(words))
    assert options["--config"] == "default+work_mem=64MB" and options["--build"] == "o3_native"
    assert options["--seed"] == "7" and options["--keep-setting"] == "archive_command"
    assert options["--smallest"] == "0.15%", "half of what moved, where that is less than usual"
    assert options["--good"] == f"{alarm.commits[0][:10]}~" and options["--bad"] == alarm.commits[0][:10]
    words[words.index("DIR")] = "repo"
    assert invoke([*words[1:], "--dry-run"]) == 0, capsys.readouterr().err


def test_an_alarm_that_is_not_down_to_one_commit_is_searched_between_its_ends(file: Path) -> None:
    known = read_known(file)
    stops, name = known.line.stops, f"pgbench {STEPS[0]}"
    alarm = Alarm(stops[3].id, stops[8].id, name, {name: Moved(-0.1, 0.0003)}, "2026-01-01T01:00:00+00:00")
    words = command_of(known, alarm)
    options = dict(pairwise(words))
    assert (options["--good"], options["--bad"]) == (stops[3].id[:10], stops[8].id[:10])
    assert "--smallest" not in options
    alarm.state, alarm.commits = "found", [stops[5].id, stops[6].id]
    words = command_of(known, alarm)
    options = dict(pairwise(words))
    assert (options["--good"], options["--bad"]) == (f"{stops[5].id[:10]}~", stops[6].id[:10])
