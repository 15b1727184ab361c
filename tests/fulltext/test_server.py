"""Full text search on a real server: a real mbox through the trigger and back, both indexes, bad queries."""

from __future__ import annotations

import gzip
import mailbox
from email.message import EmailMessage
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pgstrata.fulltext.options import FulltextOptions
from pgstrata.measure.run.borrowed import borrowed_database
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.features import NEWEST
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Phase
from support.queries import digested, step_of, until, work
from support.steps import database, run_phase

FULLTEXT = catalog.find("fulltext")


def phases(**options: Any) -> list[Phase]:
    return FULLTEXT.phases(FulltextOptions.model_validate(options), NEWEST)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Corpora of tests do not stay; the running server does not need its cache."""
    monkeypatch.setenv("PGSTRATA_CACHE", str(tmp_path_factory.mktemp("cache")))


def test_gin_and_gist_find_the_same(cluster: Cluster) -> None:
    all_phases = phases(messages=400, query_count=90)
    with database(cluster, "kinds") as connection:
        connection.execute("ALTER DATABASE kinds SET enable_seqscan = off")
        facts = until(cluster, "kinds", all_phases, "pending list")
        assert facts["fulltext"]["messages"] == 400
        counted = connection.execute("SELECT count(*), count(body), count(subject) FROM messages")
        assert counted.fetchone() == (
            400, 400, 400,
        )  # fmt: skip
        (pending,) = [p for p in all_phases if getattr(p, "name", "") == "pending list"]
        seen = work(cluster, "kinds", pending)["fulltext_pending"]  # type: ignore[arg-type]
        assert seen["bytes"] > 0 and seen["index_bytes"] >= seen["bytes"]
        assert work(cluster, "kinds", pending)["fulltext_pending"]["bytes"] == 0  # type: ignore[arg-type]
        run_phase(cluster, "kinds", all_phases[all_phases.index(pending) + 1])
        gin = digested(cluster, "kinds", step_of(all_phases, "query.gin"))
        until(cluster, "kinds", all_phases, "query.gist")
        gist = digested(cluster, "kinds", step_of(all_phases, "query.gist"))
    rows = [[(r["query"], r["rows"], r["error"]) for r in searched.queries] for searched in (gin, gist)]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 90
    # What is done between two queries is in the time of neither.
    assert all(b["start"] > a["start"] + a["seconds"] for a, b in pairwise(gin.queries))
    counts = [n for _, n, _ in rows[0]]
    assert max(counts) == 100 and min(counts) < 20
    assert gin.rate and gist.rate


def test_a_borrowed_database_is_left_as_it_was(cluster: Cluster) -> None:
    all_phases = phases(messages=20, query_count=1, build="after", indexes="gin")
    names = """SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
        UNION ALL SELECT proname FROM pg_proc
        WHERE prolang = (SELECT oid FROM pg_language WHERE lanname = 'plpgsql')
        UNION ALL SELECT nspname FROM pg_namespace WHERE nspname LIKE 'pgstrata%' ORDER BY 1"""
    with database(cluster, "lent") as connection:
        connection.execute(
            "CREATE FUNCTION own() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"
        )
        connection.execute("CREATE TABLE other (a int)")
        connection.execute("CREATE TRIGGER own BEFORE INSERT ON other FOR EACH ROW EXECUTE PROCEDURE own()")
        with borrowed_database(cluster, "dbname=lent", all_phases, keep=False, say=pytest.fail):
            until(cluster, "lent", all_phases, "query.gin")
            connection.execute(
                "CREATE TRIGGER more BEFORE INSERT ON messages FOR EACH ROW EXECUTE PROCEDURE own()"
            )
            there = connection.execute(names).fetchall()
            assert {("messages",), ("other",), ("own",), ("pgstrata_vectors",)} < set(there)
        left = connection.execute(names).fetchall()
    assert left == [("other",), ("own",)]


def test_indexes_can_be_built_afterwards(cluster: Cluster) -> None:
    all_phases = phases(messages=100, query_count=3, build="after")
    with database(cluster, "after") as connection:
        until(cluster, "after", all_phases, "query.gin")
        names = connection.execute("SELECT indexdef FROM pg_indexes WHERE tablename = 'messages'").fetchall()
        assert names == [("CREATE INDEX messages_body_gin ON public.messages USING gin (body)",)]
        assert len(digested(cluster, "after", step_of(all_phases, "query.gin")).queries) == 3
        until(cluster, "after", all_phases, "query.gist")
        assert "gist" in str(
            connection.execute("SELECT indexdef FROM pg_indexes WHERE tablename = 'messages'").fetchall()
        )


def test_a_query_that_is_no_tsquery_is_marked_and_the_rest_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "searches"
    file.write_text("zek\na & & b\n'unended\nzek | {braces} & \"quotes\"\n! zek\n' it''s '\n\\\n")
    all_phases = phases(messages=50, queries=str(file), indexes="gin", build="before")
    with database(cluster, "bad"):
        until(cluster, "bad", all_phases, "query.gin")
        searched = digested(cluster, "bad", step_of(all_phases, "query.gin"))
    states = [row["sqlstate"] for row in searched.queries]
    assert len(states) == 7
    assert states[0] is None and states[4] is None and states[5] is None
    assert states[1] == states[2] == "42601"
    assert "syntax error in tsquery" in searched.queries[1]["error"]
    assert searched.queries[1]["query"] == "00002 a & & b"


DAMAGED = [
    b"Message-ID: <latin@x>\nSubject: charset\nContent-Type: text/plain; charset=utf-8\n\ncaf\xe9 backup\n",
    b"Message-ID: <nul@x>\nSubject: nul\n\nback\0up\tand \\N and \\.\n\\.\n",
    b"\xff\xfe\x00garbage without a header\n\nbody of garbage\n",
    b"Message-ID: <date@x>\nDate: soon\nSubject: =?utf-8?B?broken?=\n\ntext\n",
    b"Message-ID: <parts@x>\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nthe backup part\n",
    b"Message-ID: <huge@x>\nSubject: huge\n\n"
    + b"".join(b"%x " % (n * 7919) for n in range(400_000))
    + b"\n",
    b"Message-ID: <unknown@x>\nSubject: s\nContent-Type: text/plain; charset=klingon\n\nQapla\n",
]


def test_a_real_archive_with_every_damage_goes_in_and_comes_out(cluster: Cluster, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    box = mailbox.mbox(archive / "list.mbox")
    for n in range(30):
        mail = EmailMessage()
        mail["Message-ID"] = f"<{n}@example.org>"
        if n:
            mail["In-Reply-To"] = f"<{n - 1}@example.org>"
        mail["Date"] = "Thu, 11 Feb 2010 18:27:14 +0100"
        mail["From"] = "Jörg <joerg@example.org>"
        mail["Subject"] = f"größe {n}"
        mail.set_content(f"the backup of disk {n}\nFrom here on\n\ttab \\ backslash\n")
        box.add(mail)
    box.close()
    with (archive / "list.mbox").open("ab") as out:
        for raw in DAMAGED:
            out.write(b"From x@y Thu Feb 11 18:27:14 2010\n" + raw + b"\n")
    packed = gzip.compress((archive / "list.mbox").read_bytes())
    (archive / "cut.mbox.gz").write_bytes(packed[: len(packed) // 2])
    (archive / "notes.txt").write_text("nothing\n")
    maildir = mailbox.Maildir(archive / "dir")
    maildir.add(b"Message-ID: <maildir@x>\nSubject: m\n\nweb backup\n")

    steps = phases(corpus=str(archive), damaged="use", indexes="gin", build="before", query_count=20)
    with database(cluster, "mail") as connection:
        facts = until(cluster, "mail", steps, "query.gin")["fulltext"]
        searched = digested(cluster, "mail", step_of(steps, "query.gin"))
        rows = connection.execute(
            "SELECT id, parent_id, sent AT TIME ZONE 'UTC', author, subject_plain, body_plain, "
            "body IS NOT NULL FROM messages WHERE id = '7@example.org' LIMIT 1"
        ).fetchone()
        (count,) = connection.execute("SELECT count(*) FROM messages").fetchone() or (0,)
        bodies = dict(
            connection.execute("SELECT id, body_plain FROM messages WHERE id LIKE '%@x'").fetchall()
        )
        hits = connection.execute("SELECT count(*) FROM messages WHERE body @@ 'backup'::tsquery").fetchone()
    assert rows is not None
    assert rows[:2] == ("7@example.org", "6@example.org")
    assert str(rows[2]) == "2010-02-11 17:27:14"
    assert rows[3:5] == ("Jörg <joerg@example.org>", "größe 7")
    assert rows[5].strip() == "the backup of disk 7\nFrom here on\n\ttab \\ backslash"
    assert rows[6] is True
    assert count == facts["messages"] >= 38
    assert bodies["latin@x"] == "café backup\n\n"
    assert bodies["nul@x"].startswith("backup\tand \\N and \\.\n\\.\n")
    assert bodies["parts@x"].strip() == "the backup part"
    assert len(bodies["huge@x"]) == 500_000
    assert hits and hits[0] >= 33
    counts = facts["counts"]
    assert counts["cut_files"] == 1 and counts["skipped_files"] == 1
    for name in ("charset", "nul", "date", "structure", "id"):
        assert counts[f"repaired_{name}"] >= 1, name
    assert len(searched.queries) == 20 and not any(row["error"] for row in searched.queries)
