"""`pgstrata upgrade` on real servers: from a dump and a log to a page, with one statement made slower."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pgstrata.cli.main import invoke
from pgstrata.server.cluster.initdb import USER
from pgstrata.server.find.model import Server
from pgstrata.traffic.captured import Captured
from support.page import PageReader
from support.program import Program
from support.steps import database, running
from support.traffic import SCHEMA, Shop

Json = dict[str, Any]

SLOW = "SELECT id, amount, note FROM orders WHERE account = $1 AND amount >= $2 ORDER BY id"
"""What needs the index that the new version will lack."""


@pytest.mark.timeout(1800)  # of machines that are busy otherwise
def test_the_statement_that_lacks_its_index_stands_at_the_top(files: Path, pgstrata: Program) -> None:
    (files / "drop.sql").write_text("DROP INDEX orders_account; -- what needs it is slower\n")
    command = [
        *("upgrade", "--from", "13", "--to", "17", "--dump", "shop.dump", "--log", "postgresql.csv"),
        *("--after-load", "17=drop.sql", "--rounds", "6", "--speed", "0"),
        *("--other-load", "100%"),
    ]
    done = pgstrata(*command, "--format", "json")
    assert done.returncode == 1, done.stderr
    answer = json.loads(done.stdout)
    assert answer["from"]["version"].startswith("13.") and answer["failed"] == {} and answer["left_out"] == {}
    (to,) = answer["to"]
    assert to["version"].startswith("17.") and to["rounds"] == 6
    slow = to["statements"][0]
    assert slow["statement"] == SLOW and slow["word"] == "slower" and slow["longer"] > 3
    assert slow["plan_changed"] and slow["share"] > 0.4 and slow["calls"] == 6 * 40
    assert answer["answer"] == {"17": "do not go yet"}
    assert re.match(
        r"Do not go yet: 1 statement answers otherwise on the same data; 1 statement fails in every round; "
        r"[1-3] statements? with [0-9.]+ % ",
        to["said"],
    )
    shares = [sum(statement[key] for statement in to["statements"]) for key in ("base_share", "share")]
    assert shares == pytest.approx([1, 1])
    # What the new version rejects is no statement that has become faster.
    (error,) = to["new_errors"]
    assert error["sqlstate"] == "42601" and error["then"] is None and error["count"] == to["rounds"]
    assert "trailing junk after numeric literal" in error["message"]
    (rejected,) = [
        statement
        for statement in to["statements"]
        if statement["statement"] == error["statement"].split(" ", 1)[1]
    ]
    assert rejected["word"] == "unclear" and "failed 6 of 6 times" in rejected["doubt"]
    # What comes to another number of rows in every round is told, as far as order of sessions plays no part.
    (other,) = to["differing_rows"]
    assert other["statement"].endswith("SELECT name FROM pg_settings WHERE name LIKE $1")
    assert (other["base"], other["other"]) == (0, 1)
    assert to["answers"]["changed"] == [other["statement"]] and to["answers"]["same"] >= 2
    # What the servers themselves say of their defaults.
    defaults = {setting["name"]: setting["defaults"] for setting in answer["settings"]}
    assert defaults["password_encryption"] == {"13": "md5", "17": "scram-sha-256"}
    assert defaults["hash_mem_multiplier"] == {"13": "1", "17": "2"}
    assert defaults["shared_buffers"] == {"13": "8MB", "17": "128MB"}
    assert "vacuum_defer_cleanup_age" in answer["settings_of_one"]["13"]
    assert "io_combine_limit" in answer["settings_of_one"]["17"]
    for sizes in answer["sizes"].values():
        assert sizes["loaded"]["database"] > 12e6 and sizes["end"]["tables"] >= sizes["loaded"]["tables"] / 2
    # The index is missing at the end, and was there when all was loaded.
    ours, theirs = answer["sizes"]["13"], answer["sizes"]["17"]
    assert theirs["end"]["indexes"] < 0.8 * ours["end"]["indexes"]
    again = [gap for gap in answer["not_covered"] if gap["what"].startswith("Failed in the log")]
    assert again[0]["count"] > 10 and again[0]["share"] is None

    page = PageReader(Path(files / answer["page"]))
    table = next(table for table in page.tables if table.caption.startswith("Statements on 17"))
    first = [cell.text for cell in table.rows[0]]
    assert "slower" in first[0] and "times as long" in first[1] and first[2] == SLOW
    assert first[-1].startswith("another plan; alone ") and "times as long, × " in first[-1]
    # Why, and what helps: the index that the new version lacks, measured with it and without.
    cause = slow["cause"]
    assert cause["word"] == "schema" and "for want of an index" in cause["sentence"]
    (index,) = [remedy for remedy in cause["remedies"] if remedy["kind"] == "index"]
    assert index["word"] == "faster" and index["times"]["ratio"] < 0.5
    assert "CREATE INDEX" in index["sql"][0] and "orders" in index["sql"][0]
    assert {other["query"] for other in index["others"]} and "a remedy is proven, below" in to["said"]
    causes = next(table for table in page.tables if table.caption.startswith("Why statements are slower"))
    assert [cell.text for cell in causes.rows[0]][:2] == [SLOW, cause["sentence"]]
    assert "What helps, as SQL" in " ".join(page.text) and index["sql"][0] in " ".join(page.text)
    # Where the time went in the turns of that: the backend reads the whole table.
    parts = slow["parts"]
    assert parts["pairs"] >= 3 and parts["difference_seconds"] > 0
    by_part = {part["name"]: part["difference_seconds"] for part in parts["parts"]}
    assert by_part["execution"] > 0 and sum(by_part.values()) == pytest.approx(parts["sum_seconds"])
    rest = parts["difference_seconds"] - parts["sum_seconds"]
    assert parts["unexplained_seconds"] in (None, pytest.approx(rest))
    assert page.table("Parts of an execution").rows[-1][0].text in ("measured", "unexplained")
    alone = slow["alone"]["verdict"]
    assert alone["word"] == "slower" and alone["n"] >= 16 and slow["alone"]["reason"] == ""
    words = " ".join(page.text)
    assert page.headings[:2] == [f"PostgreSQL {answer['from']['version']} to {to['version']}", "The answer"]
    assert "Seq Scan on orders" in words and "by orders_account" in words
    # Words that need a statistician, or somebody who knows this program.
    for jargon in ("p-value", "variant", "relative rate", "confidence", "interval", "shape", "SQLSTATE"):
        assert not re.search(rf"\b{jargon}", words), jargon
    assert (files / answer["report"]).exists()

    # The same command finds what is there, and says it in short.
    short = pgstrata(*command)
    assert short.returncode == 1 and "2 of 2 runs are there already" in short.stderr
    lines = short.stdout.splitlines()
    assert lines[0].startswith("PostgreSQL 13.") and lines[2] == f"17: {to['said']}"
    # What fails has one heading with the page's number, and a statement that is refused, too, is named once.
    assert lines[4] == "  fails: 1" and lines[5].startswith("    6 times: trailing junk")
    assert "fails: 1" in words and not any("refuses statements" in line for line in lines)
    begins = [
        "  answers otherwise on the same data: ",
        "  fails: ",
        "  slower: ",
        "  after the upgrade: ",
        "  to look at: ",
    ]
    # The one with another number of rows is named once, with its answer.
    assert not any(line.startswith("  answers otherwise, ") for line in lines)
    places = [next(n for n, line in enumerate(lines) if line.startswith(begin)) for begin in begins]
    assert places == sorted(places)
    slower = places[begins.index("  slower: ")] + 1
    assert SLOW in lines[slower] and "another plan; alone " in lines[slower]
    assert lines[slower + 1] == f"      why: {cause['sentence']}"
    assert lines[slower + 2].startswith("      where the time went: + ")
    assert f"{SLOW}: {lines[slower + 2].partition('went: ')[2]}" in page.all_text
    assert lines[slower + 3] == f"      what helps: {cause['advice']}"
    assert "not covered:" in lines
    checklist = {line["id"]: line for line in to["checklist"]}
    assert "took " in checklist["analyze"]["title"] and "MiB on 17" in checklist["sizes"]["title"].replace(
        to["version"], "17"
    )
    assert 0 <= answer["other_load"] <= 1 and answer["lag_seconds"] >= 0

    # What is not known is settled by the command that the answer names, beside what was measured.
    more = pgstrata(*command, "--more", "0.2", "--format", "json")
    assert "2 of 4 runs are there already" in more.stderr
    (then,) = json.loads(more.stdout)["to"]
    assert then["rounds"] > 4 and then["answer"] == "do not go yet"
    assert then["statements"][0]["statement"] == SLOW and then["statements"][0]["rounds"] > 4
    if (further := json.loads(more.stdout)["again"]) is not None:
        assert further.startswith("pgstrata upgrade --from 13") and "--more" in further


# --- what is refused before anything is started -----------------------------------------------


Asked = Callable[..., tuple[int, str]]


@pytest.fixture
def asked(files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Asked:
    """The program within this process: its exit code, and what it said on standard error."""
    monkeypatch.chdir(files)

    def call(*arguments: str | Path) -> tuple[int, str]:
        code = invoke(list(map(str, arguments)))
        return code, " ".join(capsys.readouterr().err.split())

    return call


def refused(answer: tuple[int, str], *words: str, code: int = 2) -> None:
    assert answer[0] == code, answer[1]
    for word in words:
        assert word in answer[1]


def test_files_that_are_something_else(files: Path, asked: Asked) -> None:
    versions = ("upgrade", "--from", "13", "--to", "17")
    log = ("--log", "postgresql.csv")
    refused(asked(*versions, "--dump", "postgresql.csv", *log), "neither a dump of pg_dump nor SQL", "--log")
    refused(asked(*versions, "--dump", "nowhere.dump", *log), "there is no file", "nowhere.dump")
    refused(asked(*versions, "--dump", "shop.dump", "--log", "shop.dump"), "is a dump, no log")
    refused(asked(*versions, "--dump", "shop.dump", "--log", "shop.sql"), "is a dump, no log")
    (files / "cut.dump").write_bytes((files / "shop.dump").read_bytes()[:2000])
    refused(asked(*versions, "--dump", "cut.dump", *log), "cut.dump")
    (files / "empty.sql").write_text("")
    refused(asked(*versions, "--dump", "empty.sql", *log), "neither a dump")


def test_a_log_that_says_too_little(files: Path, asked: Asked) -> None:
    log = (files / "postgresql.csv").read_text()
    question = ("upgrade", "--from", "13", "--to", "17", "--dump", "shop.dump")
    # No statement at all, as with the settings that a server begins with.
    (files / "quiet.csv").write_text("".join(re.findall(r".*connection received.*\n", log)))
    refused(asked(*question, "--log", "quiet.csv"), "no statement", "log_min_duration_statement")
    # Statements without their durations, as log_statement = all gives them: order and times are there.
    bare = re.sub(r"duration: [0-9.]+ ms  (?=statement|execute)", "", log)
    bare = "".join(line for line in bare.splitlines(keepends=True) if "duration: " not in line)
    (files / "bare.csv").write_text(bare)
    code, output = asked(*question, "--log", "bare.csv", "--dry-run")
    assert code == 0, output


def test_versions_that_are_no_upgrade(files: Path, asked: Asked) -> None:
    what = ("--dump", "shop.dump", "--log", "postgresql.csv", "--dry-run")
    refused(asked("upgrade", "--from", "17", "--to", "17", *what), "both PostgreSQL 17.", "noise")
    refused(asked("upgrade", "--from", "13", "--to", "17", "--to", "13", *what), "both PostgreSQL 13.")
    refused(asked("upgrade", "--from", "13", "--to", "seventeen", *what), "does not name a server")
    refused(asked("upgrade", "--from", "13", "--to", "17.999", *what), "17.999")
    refused(asked("upgrade", "--from", "dsn:host=x", "--to", "17", *what), "starts itself")
    refused(asked("upgrade", "--from", "13", "--to", "17", *what, "--after-load", "16=drop.sql"), "drop.sql")
    (files / "drop.sql").write_text("SELECT 1;\n")
    other = ("--after-load", "16=drop.sql")
    refused(asked("upgrade", "--from", "13", "--to", "17", *what, *other), "no server here", "13, 17")
    refused(asked("upgrade", "--from", "13", "--to", "17", *what, "--after-load", "17"), "17=migrate.sql")
    # Going back is a question, too, and said to be one; so is a dump that is newer than a server.
    code, output = asked("upgrade", "--from", "17", "--to", "13", *what)
    assert code == 0 and "13." in output and "what going back would change" in output
    newer = (files / "shop.sql").read_text().replace("database version 13", "database version 16", 1)
    (files / "newer.sql").write_text(newer)
    what = ("--dump", "newer.sql", "--log", "postgresql.csv", "--dry-run")
    code, output = asked("upgrade", "--from", "13", "--to", "17", *what)
    assert code == 0 and "was made of PostgreSQL 16." in output
    assert output.count("is newer than") == 1


def test_extensions_that_one_side_lacks(files: Path, pg17: Server, asked: Asked) -> None:
    assert pg17.bin_dir is not None
    shutil.copytree(pg17.bin_dir.parent, files / "poor", symlinks=True)
    for control in (files / "poor").rglob("extension/pg_stat_statements*"):
        control.unlink()
    what = ("--dump", "shop.dump", "--log", "postgresql.csv", "--dry-run")
    poor = f"path:{files}/poor/bin"
    refused(asked("upgrade", "--from", "13", "--to", poor, *what), "lacks the extension pg_stat_statements")
    refused(asked("upgrade", "--from", poor, "--to", "17", *what), "lacks the extension pg_stat_statements")
    # Of several new versions the others go on, and the page will say so.
    code, output = asked("upgrade", "--from", "13", "--to", poor, "--to", "17", *what)
    assert code == 0 and "it is left out" in output, output


def test_statistics_in_the_place_of_a_log(files: Path, pg13: Server, asked: Asked) -> None:
    what = ("upgrade", "--from", "13", "--to", "17", "--dump", "shop.dump", "--dry-run")
    with running(pg13) as cluster, database(cluster, "shop") as admin:
        admin.execute(SCHEMA.encode())
        admin.execute("ANALYZE")
        Shop(cluster, "shop", sessions=2, rounds=3, think=0).work()
        server = f"host={cluster.socket_dir} port={cluster.port} user={USER} dbname=shop"
        code, output = asked(*what, "--statements", server)
    assert code == 0, output
    (file,) = (files / "upgrade").glob("*/statements-*.traffic")
    with Captured(file) as captured:
        assert captured.header.synthetic and captured.header.statements > 20
    # The server is asked once: the same command goes on with what it said, also where it is gone.
    assert asked(*what, "--statements", server)[0] == 0
    refused(asked(*what, "--statements", server, "--log", "postgresql.csv"), "name one of them")
    refused(asked(*what), "name one of them")
    refused(asked(*what, "--statements", "nowhere"), "no folder")


def test_a_disk_that_is_too_small(files: Path, small_disk: Path, asked: Asked) -> None:
    (small_disk / "filled").write_bytes(b"x" * (120 << 20))
    code, output = asked(
        *("upgrade", "--from", "13", "--to", "17", "--dump", "shop.dump", "--log", "postgresql.csv"),
        *("--data-dir", small_disk),
    )
    refused((code, output), "free", "--data-dir", code=1)
