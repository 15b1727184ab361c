"""One damaged run among sound ones: every command that reads goes on without it and names it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pgstrata.cli import main
from support.runs import make_campaign

Damage = Callable[[Path], object]


def _text_for_a_rate(run: Path) -> None:
    data = json.loads((run / "run.json").read_text())
    data["steps"][3]["rate"] = "quick"
    (run / "run.json").write_text(json.dumps(data))


def _flipped_byte(run: Path) -> None:
    data = bytearray((run / "series.parquet").read_bytes())
    data[len(data) // 3] ^= 0x40
    (run / "series.parquet").write_bytes(bytes(data))


def _deep(run: Path) -> None:
    (run / "run.json").write_text('{"a":' * 100_000)


def _pipe(run: Path) -> None:
    (run / "run.json").unlink()
    os.mkfifo(run / "run.json")


def _circle(run: Path) -> None:
    (run / "run.json").unlink()
    (run / "run.json").symlink_to("run.json")


DAMAGES: list[Damage] = [_text_for_a_rate, _flipped_byte, _deep, _pipe, _circle]
COMMANDS = [
    ["runs"],
    ["query", "select max(max_seconds) from series"],
    ["compare", "pg12.22.x10a", "pg17.11.x10a", "--step", "l.i1"],
    ["check", "--base", "pg12.22.x10a", "--other", "pg17.11.x10a", "--fail-slower", "90%", "--step", "l.i1"],
    ["report", "--results", "results"],
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damaged") / "results"
    make_campaign(folder, variants=("pg12.22.x10a", "pg17.11.x10a", "pg18.0.x10a"), seconds=3)
    return folder


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: d.__name__.strip("_"))
def test_a_damaged_run_is_left_out_and_named(
    damage: Damage,
    sound: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import shutil

    shutil.copytree(sound, tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    (run,) = Path("results").glob("*/pg18.0.x10a/insert/1-*")
    damage(run)
    for command in COMMANDS if damage is _flipped_byte else COMMANDS[:3]:
        code = main.invoke(command)
        output = capsys.readouterr()
        assert code in (0, 3), output.err
        assert output.err.count(f"left out: {run}: ") == 1, command
        assert "pg18.0" not in output.out or command[0] == "report"
    run_id = run.name.split("-", 1)[1]
    assert main.invoke(["show", run_id]) == 2
    assert str(run) in capsys.readouterr().err
    assert main.invoke(["show", str(run)]) == 2
    assert "damaged" in capsys.readouterr().err
    assert main.invoke(["compare", "pg12.22.x10a", str(run)]) == 1
    assert str(run) in capsys.readouterr().err


def test_damaged_runs_alone_explain_why_there_is_nothing(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import shutil

    shutil.copytree(sound, tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    for run in Path("results").glob("*/*/insert/1-*"):
        _deep(run)
    for command in (["report"], ["compare", "a", "b"], ["study", "show"]):
        assert main.invoke(command) in (1, 2)
        assert "it is left out, with 2 more" in capsys.readouterr().err, command
