"""Results go to standard output and nothing else does; `--quiet` and `--format` mean the same everywhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from pgstrata.cli import main, quiet, reference
from support.runs import make_campaign
from support.schemas import check_printed

ROOT = Path(__file__).parent.parent.parent


def commands(command: Any = None, name: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command of the program with its name."""
    command = command or typer.main.get_command(main.app)
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(name), command
        return
    for part, command_below in below.items():
        yield from commands(command_below, (*name, part))


COMMANDS = dict(commands())

OTHER_NAMES = {
    "--margin": ["--smallest", "--fail-slower"],
    "--slice": ["--slice-seconds", "--slice_seconds"],
    "--max-seconds": ["--minutes", "--most-seconds"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_the_shared_options_by_their_usual_names(name: str) -> None:
    options = {text for param in COMMANDS[name].params for text in param.opts}
    assert "--quiet" in options
    for usual, others in OTHER_NAMES.items():
        assert usual in options or not options & set(others), f"{name}: {usual} is missing"


def test_no_command_but_the_terminal_report_opens_a_console_of_its_own() -> None:
    """Progress is printed by `progress_console`, which is standard error."""
    for file in (ROOT / "src/pgstrata").rglob("cli/*.py"):
        if file.name != "quiet.py":
            assert not re.search(r"\bConsole\(", file.read_text()), file.name


@pytest.mark.program
@pytest.mark.parametrize(
    "arguments",
    [
        ["runs"],
        ["show", "RUN"],
        ["query", "select 1 as n"],
        ["compare", "pg12.22", "pg17.6"],
        ["check", "--base", "pg12.22", "--fail-slower", "99%"],
        ["workloads"],
        ["steps", "sysbench"],
        ["doctor"],
        ["servers", "list"],
        ["data", "list"],
        ["config", "list"],
        ["config", "explain", "default", "--server", "pg:17"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_json_stands_alone_on_standard_output(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    first, _ = make_campaign(tmp_path / "results", variants=["pg12.22", "pg17.6"])
    run_id = first.name.partition("-")[2]
    line = [*(run_id if a == "RUN" else a for a in arguments), "--format", "json"]
    code = main.invoke(line)
    output = capsys.readouterr()
    assert code in (0, 3), output.err
    assert output.out
    check_printed(line, output.out)


def test_quiet_leaves_out_progress_and_keeps_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    def command(say: bool = True) -> None:
        quiet.progress_console().print("building")
        quiet.progress_console().print("warning: the machine is busy")
        print("result")

    app = typer.Typer()
    app.command()(command)
    quiet.with_quiet(app)
    app([], standalone_mode=False)
    loud = capsys.readouterr()
    assert loud.out == "result\n" and loud.err.split("\n") == ["building", "warning: the machine is busy", ""]
    app(["--quiet"], standalone_mode=False)
    still = capsys.readouterr()
    assert still.out == "result\n" and still.err == "warning: the machine is busy\n"
    assert not quiet.is_quiet(), "the next command line is asked anew"


def test_the_page_of_the_command_line_is_current() -> None:
    written = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
    assert written == reference.page(), "run: python -m pgstrata.cli.reference > docs/reference/cli.md"


def test_steps_are_listed_with_a_sentence_each(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["sysbench", "--set", "steps=full extras"], ["insert"], ["pgbench"]):
        assert main.invoke(["steps", *arguments, "--format", "json"]) == 0
        rows = json.loads(capsys.readouterr().out)
        assert rows and all(re.fullmatch(r"[A-Z].+\.", row["what it does"]) for row in rows)
        assert {row["kind"] for row in rows} <= {"reads", "writes", "loads"}
