"""Every command that docs, campaigns, help texts and messages show is one that the program understands."""

from __future__ import annotations

import pkgutil
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from pgstrata.cli.main import app
from pgstrata.errors import PgstrataError
from pgstrata.store import RunKey
from support.runs import make_run

NOT_COMMANDS = {"pgstrata traffic"}
"""The first words of a captured file."""

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "pgstrata"

PAGES = [
    *(path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("benchmarks/results/*.md"),
]

COMMAND = typer.main.get_command(app)

_INDENTED = re.compile(r"^(?:#?\s{3,}|\s*\$ |\s{4,})(pgstrata .+)$")
_QUOTED = re.compile(r"`(pgstrata [^`]+)`")
_BEHIND = re.compile(r"\s{3,}\S.*$|\s+#\s.*$")
"""A remark beside a command: behind three blanks or a number sign."""


def _whole_lines(text: str) -> Iterator[str]:
    """Lines, those of commands together with what goes on behind a backslash or within quotes."""
    lines = iter(re.sub(r"\\\n\s*(?:#\s+)?", " ", text).splitlines())
    for line in lines:
        while re.match(r"\s+pgstrata .*\"", line) and line.count('"') % 2:
            line += f" {next(lines).strip()}"
        yield line


_DOTTED = re.compile(r"\bpgstrata(?:\.[a-z_]\w*)*\.[A-Za-z_]\w*")


def lines_of(text: str) -> Iterator[str]:
    """Commands in indented and fenced blocks, with lines that go on put together."""
    fenced = False
    for line in _whole_lines(text):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced and line.startswith(("pgstrata ", "$ pgstrata ")):
            yield line.removeprefix("$ ")
        elif match := _INDENTED.match(line):
            yield match[1]
    yield from (quoted for quoted in _QUOTED.findall(text) if quoted not in NOT_COMMANDS)


def shown() -> Iterator[tuple[str, str]]:
    """Where and what."""
    for path in [*PAGES, *ROOT.glob("campaigns/**/*.toml")]:
        for line in lines_of(path.read_text(encoding="utf-8")):
            yield path.relative_to(ROOT).as_posix(), line
    for path in SOURCE.rglob("*.py"):
        for line in lines_of(path.read_text(encoding="utf-8")):
            if "{" not in line:  # what is filled in stands in the tests of those messages
                yield path.relative_to(ROOT).as_posix(), line


def words_of(line: str) -> list[str]:
    """The words of a command; of what is in brackets each, of alternatives the first, of the rest nothing."""
    text = _BEHIND.sub("", " ".join(line.split("  ")[0:1]) if "   " in line else line)
    text = re.sub(r"\s(?:[>|&;]|2>).*$", "", text.rstrip(".:,"))
    text = re.sub(r"…|\.\.\.(?=[\s\]]|$)", "", text)
    text = re.sub(r"[\[\]](?=-|\s|$|[A-Z])|(?<=\s)\[(?=-)|(?<=\w)\](?=\s|$)", " ", text)
    words = shlex.split(text, comments=True)
    return [word.split("|")[0] if re.fullmatch(r"[\w-]+(?:\|[\w-]+)+", word) else word for word in words]


COMMANDS = sorted({(where, line) for where, line in shown()})


class NotUnderstoodError(Exception):
    """The program's parser refuses a command."""


def understood(words: list[str]) -> None:
    """Parses as the program does, without doing anything. Raises NotUnderstoodError."""
    command: Any = COMMAND
    arguments = words[1:]
    context = command.context_class(command, info_name="pgstrata")
    while hasattr(command, "get_command") and arguments and not arguments[0].startswith("-"):
        name = arguments[0]
        below = command.get_command(context, name)
        if below is None:
            raise NotUnderstoodError(f"no such command {name!r}")
        command, arguments = below, arguments[1:]
        context = command.context_class(command, info_name=name, parent=context)
    if not hasattr(command, "get_command"):
        try:
            command.make_parser(context).parse_args(args=list(arguments))
        except Exception as error:
            if "requires an argument" in str(error) and words[-1].startswith("--"):
                return  # the option is there; its value is left to the reader
            raise NotUnderstoodError(str(error)) from error


def test_many_commands_are_shown() -> None:
    assert len(COMMANDS) > 150
    pages = {where for where, _ in COMMANDS}
    assert {"docs/guides/upgrade.md", "README.md", "campaigns/got-slower.toml"} <= pages


@pytest.mark.parametrize(("where", "line"), COMMANDS)
def test_a_shown_command_is_understood(where: str, line: str) -> None:
    try:
        understood(words_of(line))
    except (NotUnderstoodError, ValueError) as error:
        pytest.fail(f"{where}: {line}\n{words_of(line)}\n{error}")


@pytest.mark.parametrize(
    "line",
    [
        "pgstrata compare a b --result x",
        "pgstrata comparer a b",
        "pgstrata study shows",
        "pgstrata run --colour",
    ],
)
def test_a_wrong_command_would_be_found(line: str) -> None:
    with pytest.raises(NotUnderstoodError):
        understood(words_of(line))


# --- what is cheap is done ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def got_slower(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the campaign got-slower has been run."""
    place = tmp_path_factory.mktemp("got-slower")
    for variant in ("pg16", "pg17"):
        make_run(place / "results", RunKey("got-slower", variant, "insert", 1), seconds=2)
    make_run(place / "results", RunKey("later", "pg18", "insert", 1), seconds=2)
    return place


def test_the_comments_of_got_slower_work_after_it_has_run(
    got_slower: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(got_slower)
    text = (ROOT / "campaigns" / "got-slower.toml").read_text(encoding="utf-8")
    commands = [words_of(line) for line in lines_of(text)]
    assert [words[1] for words in commands] == ["run", "compare", "check"]
    for words in commands[1:]:
        done = CliRunner().invoke(app, words[1:])
        assert not isinstance(done.exception, PgstrataError), done.exception
        assert "pg17 against pg16" in done.stdout


QUERIES = sorted({line for _, line in COMMANDS if line.startswith('pgstrata query "')})


@pytest.mark.parametrize("line", QUERIES)
def test_shown_queries_have_an_answer(line: str, got_slower: Path) -> None:
    words = words_of(line)
    if "…" in line or not words[2].strip():
        pytest.skip("shown in part")
    done = CliRunner().invoke(app, [*words[1:], "--results", str(got_slower / "results")])
    assert done.exit_code == 0, done.exception


@pytest.mark.parametrize("words", [["config", "list"], ["workloads"], ["workloads", "sysbench"]])
def test_what_only_lists_lists(words: list[str]) -> None:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0 and done.stdout


def _names() -> set[tuple[str, str]]:
    return {
        (path.name, name)
        for path in PAGES
        for name in _DOTTED.findall(path.read_text(encoding="utf-8"))
        if name.rpartition(".")[2]
        not in ("org", "md", "toml", "com", "sock", "conf", "sql", "dump", "yaml", "json")
        and name != "pgstrata.workloads"  # a group of entry points
    }


@pytest.mark.parametrize(("where", "name"), sorted(_names()))
def test_names_of_python_that_docs_show_are_there(where: str, name: str) -> None:
    assert pkgutil.resolve_name(name) is not None
