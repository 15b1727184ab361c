"""Hostile names, subjects, authors, statements and settings: no page runs them, no terminal obeys them.

A script that ran would set the title of its page, or ask for an address of `hostile.invalid`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pgstrata.server.find.acquire import acquire
from pgstrata.server.find.model import Server
from pgstrata.store.record import RunRecord
from support.browser import browse, console, needs_browser, requested
from support.commands import DELAYED_SETS, Workshop, spec, workshop
from support.kills import Room
from support.logs import MS, START, log, plain
from support.program import Program
from support.runs import make_campaign
from support.tree import git

TAKEN = "document.title='taken'"
MARKUP = (
    f"</script><script>{TAKEN}</script>",
    f'<img src=x onerror="{TAKEN}">',
    f'" autofocus onfocus="{TAKEN}" onload="{TAKEN}" x="',
    f"' onmouseover='{TAKEN}' x='",
    f"javascript:{TAKEN}",
    f"<svg/onload={TAKEN}>",
    "<!-- --!> <!--<script>",
    "]]><link rel=stylesheet href=http://hostile.invalid/a.css>",
    "<iframe src=http://hostile.invalid/></iframe>",
    "{{7*7}} {% raw %} ${7*7} %(x)s {0}",
)
TERMINAL = ("\x1b[31mred\x1b]0;taken\x07", "\x9b31mred", "\u202egnp.exe\u2066", "a\rb\x08c", "\u2028\x85")
LONG = "A<b>" * 2500
PAYLOADS = (*MARKUP, *TERMINAL, LONG)

NEVER = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069]")
"""What steers a terminal: control characters but tab and new line, and marks that change the direction."""

FIXED = re.compile(
    r"(^|\.)(status|unit|rate_unit|kind|phase|name|id|run_id|campaign|variant|workload|comparison|started|"
    r"finished|at|begin|end|role|step|mode|word|order|turns|until|engine|version|protocol|state)$"
)
"""Keys whose values name something in the program or in the store, or are read as numbers or times."""


class Seen(HTMLParser):
    """What a page has that could run: attributes with scripts, addresses, elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name.startswith("on") and "taken" in (value or ""):
                self.faults.append(f"<{tag} {name}={value}>")
            if name in ("href", "src", "action", "formaction", "data", "srcdoc", "xlink:href"):
                plain_value = re.sub(r"[\x00-\x20]", "", value or "").lower()
                if plain_value.startswith(("javascript:", "data:text", "vbscript:")):
                    self.faults.append(f"<{tag} {name}={value}>")
                if "hostile.invalid" in plain_value:
                    self.faults.append(f"<{tag} {name}={value}>")


def check_page(page: Path, log_file: Path) -> list[str]:
    """What is wrong with a page, looked at in a browser."""
    done = browse(page, "--dump-dom", f"--log-net-log={log_file}")
    faults = [f"console: {line}" for line in console(done)]
    faults += [f"asked for {url}" for url in requested(log_file)]
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)
    if title is None or title[1] == "taken":
        faults.append(f"title {title and title[1]!r}")
    faults += Seen(done.stdout).faults
    return [f"{page.name}: {fault[:300]}" for fault in faults]


def poisoned(value: Any, path: str, texts: Iterator[str]) -> Any:
    """The value of JSON with hostile texts in the place of all its own."""
    match value:
        case dict():
            return {key: poisoned(inner, f"{path}.{key}", texts) for key, inner in value.items()}
        case list():
            return [poisoned(inner, path, texts) for inner in value]
        case str() if value and not FIXED.search(path):
            return next(texts)
    return value


def all_payloads() -> Iterator[str]:
    while True:
        yield from PAYLOADS


def poison(run: Path) -> None:
    """Puts hostile texts into the record of a run, wherever it is still a record then."""
    file = run / "run.json"
    texts = all_payloads()
    data = json.loads(file.read_text())
    for key, value in list(data.items()):
        changed = {**data, key: poisoned(value, key, texts)}
        try:
            msgspec.json.decode(json.dumps(changed).encode(), type=RunRecord)
        except (msgspec.ValidationError, ValueError):
            continue
        data = changed
    file.write_text(json.dumps(data))


READING = (
    *("report", "runs", "show", "compare", "check", "study show", "study next", "query", "query csv"),
    *("compare markdown", "compare json"),
)


def reading(name: str, run: Path) -> list[str]:
    pair = ["pg12.22.x10a", "pg17.11.x10a"]
    sql = "select * from runs"
    return {
        "report": ["report", "seen"],
        "runs": ["runs", "--results", "seen"],
        "show": ["show", str(run)],
        "compare": ["compare", *pair, "--results", "seen"],
        "compare markdown": ["compare", *pair, "--results", "seen", "--format", "markdown"],
        "compare json": ["compare", *pair, "--results", "seen", "--format", "json"],
        "check": ["check", "--base", pair[0], "--fail-slower", "3%", "--results", "seen"],
        "study show": ["study", "show", "--results", "seen"],
        "study next": ["study", "next", "--results", "seen"],
        "query": ["query", sql, "--results", "seen"],
        "query csv": ["query", sql, "--results", "seen", "--format", "csv"],
    }[name]


def steers(text: str) -> list[str]:
    return sorted({repr(match) for match in NEVER.findall(text)})


@needs_browser
@pytest.mark.timeout(900)
def test_records_of_runs_from_elsewhere_run_nothing(place: Path, pgstrata: Program) -> None:
    folders = make_campaign(place / "seen", seconds=3)
    for folder in folders:
        poison(folder)
    faults = []
    for name in READING:
        done = pgstrata(*reading(name, folders[0]))
        assert "Traceback" not in done.stderr and "defect" not in done.stderr, done.stderr
        if name not in ("query csv", "compare json"):
            faults += [f"{name} prints {what}" for what in steers(done.stdout + done.stderr)]
    (page,) = (place / "seen").rglob("index.html")
    assert "hostile.invalid" in page.read_text()
    faults += check_page(page, place / "net.json")
    assert faults == []


@pytest.mark.parametrize("payload", [text for text in PAYLOADS if "/" not in text or text is not LONG])
def test_names_on_the_command_line_do_not_steer_the_terminal(
    place: Path, payload: str, capfd: pytest.CaptureFixture[str]
) -> None:
    from pgstrata.cli.main import invoke

    here = Path.cwd()
    os.chdir(place)
    try:
        for arguments in (
            ["run", payload],
            ["run", "--server", f"path:/nowhere={payload}", "--dry-run"],
            ["run", "--server", "path:/nowhere", "--workload", payload],
            ["run", "--server", "path:/nowhere", "--config", payload],
            ["run", "--server", "path:/nowhere", "--set", f"{payload}={payload}"],
            ["compare", payload, payload],
            ["show", payload],
            ["report", payload],
            ["query", payload],
            ["capture", payload],
            ["steps", payload],
            ["bisect", "--repo", payload, "--good", payload, "--bad", payload, "--step", payload],
            ["patch", payload, "--repo", payload, "--base", payload],
            ["upgrade", "--from", payload, "--to", payload, "--dump", payload, "--log", payload],
            ["servers", "fetch", payload],
            ["servers", "build", payload],
            ["servers", "remove", payload],
            ["data", "remove", payload],
            ["config", "explain", payload, "--server", "path:/nowhere"],
            ["fleet", "up", payload],
            ["fleet", "status", payload],
            ["bench", "-f", payload, payload],
        ):
            assert invoke(arguments) != 0, arguments
            out, err = capfd.readouterr()
            assert steers(out + err) == [], (arguments[:1], out + err)
            assert "Traceback" not in err and "defect" not in err, (arguments[:1], err)
    finally:
        os.chdir(here)


# --- real commands -----------------------------------------------------------------------------------


def hostile_shop(shop: Workshop, server: Server) -> list[tuple[str, list[str]]]:
    """Command lines of which each makes pages, with hostile texts in all that they read."""
    place = shop.place
    mark = f'<img src=x onerror="{TAKEN}">'
    texts = [text for text in PAYLOADS if "\0" not in text]
    note = " ".join(texts[:-1]).replace("'", "''").replace("*/", "* /").replace("\r", " ")
    marks = " ".join(MARKUP).replace("'", "''")
    script = f"SELECT pg_sleep(current_setting('test.delay')::float8), '{note[:2000]}';\n"
    (place / "delay.sql").write_text(script)
    for name in ("quick", "slow"):
        (place / f"{name}{mark}.conf").write_text(
            (place / f"{name}.conf").read_text() + f"test.note = '{marks[:500]}'\n"
        )
    folder = place / "repo"
    who = {"GIT_AUTHOR_NAME": MARKUP[0], "GIT_AUTHOR_EMAIL": "x@\x1b[31m", "GIT_COMMITTER_NAME": MARKUP[1]}
    subprocess.run(
        ["git", "-C", folder, "-c", "user.email=x@y", "commit", "-q", "--amend", "-m", "\n\n".join(texts)],
        env={**os.environ, **who, "GIT_COMMITTER_EMAIL": "x@y"},
        check=True,
    )
    git(folder, "tag", "-f", "v2")
    (place / f"slow{mark}.patch").write_bytes((place / "slow.patch").read_bytes())
    entries = [
        plain(START + n * 20 * MS, 0.5, f"SELECT balance, '{note[:1500]}' FROM accounts WHERE id = {1 + n}")
        for n in range(100)
    ]
    (place / "short.csv").write_text(log(entries))
    (place / "app.sql").write_text(
        (place / "app.sql").read_text() + f'CREATE TABLE "{MARKUP[1].replace(chr(34), "")[:60]}" (i int);\n'
    )
    name = spec(server)
    sets = [word for value in DELAYED_SETS for word in ("--set", value)]
    common = ["--workload", "pgbench", *sets, "--data-dir", "data"]
    search = ["--step", "delay-simple-c1", "--seconds", "1", "--other-load", "100%", "--no-profile"]
    campaign = (place / "windows.toml").read_text().replace('name = "windows"', f"name = '''{mark}'''")
    campaign = campaign.replace('label = "a"', f"label = '''{MARKUP[0]}'''")
    campaign = campaign.replace('label = "b"', f"label = '''{MARKUP[2]}'''")
    (place / "hostile.toml").write_text(campaign)
    labels = ["--server", f"{name}=one", "--server", f"{name}=other"]
    return [
        ("run file", ["run", "hostile.toml", "--results", "r1"]),
        ("run", ["run", *labels, *common, "--name", mark, "--config", f"./quick{mark}.conf"]),
        ("run alone", ["run", *labels[:2], *common, "--config", f"./quick{mark}.conf", "--until", "time"]),
        (
            "bisect configs",
            [
                *("bisect", "--server", name, *search, *common, "--results", "r2"),
                *("--configs", f"./quick{mark}.conf,./slow{mark}.conf"),
            ],
        ),
        (
            "bisect commits",
            [
                *("bisect", "--repo", "repo", "--good", "v1", "--bad", "v2", *search, *common),
                *("--results", "r3"),
            ],
        ),
        (
            "patch",
            [
                *("patch", f"slow{mark}.patch", "--repo", "repo", "--base", "v1", *common, "--max-seconds"),
                *("6", "--other-load", "100%", "--step", "delay-simple-c1", "--results", "r4"),
            ],
        ),
        (
            "upgrade",
            [
                *(
                    "upgrade",
                    "--from",
                    spec(acquire("pg:13")),
                    "--to",
                    name,
                    "--dump",
                    "app.sql",
                    "--results",
                ),
                *("r5", "--log", "short.csv", "--rounds", "2", "--speed", "0", "--data-dir", "data"),
            ],
        ),
        (
            "count",
            [
                "count",
                *labels,
                *common,
                "--engine",
                "valgrind",
                "--starts",
                "2",
                "--results",
                "r6",
                "--config",
                f"./quick{mark}.conf",
            ],
        ),
        (
            "noise",
            [
                "noise",
                "--server",
                name,
                "--max-seconds",
                "5",
                "--slice",
                "0.25",
                "--rows",
                "500",
                "--other-load",
                "100%",
            ],
        ),
        ("report", ["report", "results"]),
        ("report of counts", ["report", "r6"]),
    ]


@needs_browser
@pytest.mark.slow
@pytest.mark.timeout(0)
def test_pages_of_all_commands_run_nothing(
    place: Path, pg17: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    faults: list[str] = []
    pages: set[Path] = set()
    with workshop(place, pg17) as shop, Room(place) as room:
        for name, arguments in hostile_shop(shop, pg17):
            code = room.start(*arguments).wait(1200)
            output = (place / "said").read_text()
            faults += [f"{name} prints {what}" for what in steers(output)]
            if "Traceback" in output or "defect" in output or code == 2:
                faults.append(f"{name}: exit code {code}: {output[-500:]}")
            new_pages = set(place.rglob("*.html")) - pages
            for page in sorted(new_pages):
                faults += [f"{name}: {fault}" for fault in check_page(page, place / "net.json")]
            pages |= new_pages
            with capsys.disabled():
                print(
                    f"{name}: exit code {code}, {len(new_pages)} pages, {len(faults)} faults until now",
                    flush=True,
                )
    assert faults == []
    assert len(pages) > 8
