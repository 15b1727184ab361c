"""Campaigns of TPC-DS and full text search through the program: what is kept, said, drawn, and survived."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgstrata.server.find.cache import cache_dir
from pgstrata.server.find.model import Server
from pgstrata.store import Results
from pgstrata.store.ask import query
from support.program import Program, Start, living_in


@pytest.fixture
def campaign(place: Path) -> Path:
    return place / "q.toml"


def write(campaign: Path, workload: str, options: str, *servers: Server) -> Path:
    place = campaign.parent
    (place / "data").mkdir(mode=0o755, exist_ok=True)
    names = ", ".join(f'"{server.spec}"' for server in servers)
    campaign.write_text(
        f'servers = [{names}]\ndata_dir = "{place}/data"\n[[workloads]]\nname = "{workload}"\n'
        f"options = {{ {options} }}\n"
    )
    return campaign


@pytest.fixture
def own_cache(place: Path) -> Iterator[Path]:
    """A cache of its own with the servers of the real one."""
    cache = place / "cache"
    cache.mkdir(mode=0o755)
    (cache / "servers").symlink_to(cache_dir() / "servers")
    yield cache


def test_fulltext_on_two_versions_ends_in_a_report(
    place: Path, pgstrata: Program, campaign: Path, own_cache: Path, pg12: Server, pg17: Server
) -> None:
    searches = place / "searches"
    searches.write_text("zek\nzek & ! (\ntisomok | zek\n")
    options = f'messages = 120, queries = "{searches}"'
    done = pgstrata("run", write(campaign, "fulltext", options, pg12, pg17), PGSTRATA_CACHE=str(own_cache))
    assert done.returncode == 0, done.stdout + done.stderr
    answer = query(
        place / "results",
        "select variant, step, query, rows, sqlstate from queries where query like '00002%' order by all",
    )
    assert [row[1:] for row in answer.rows] == [
        ("query.gin", "00002 zek & ! (", None, "42601"),
        ("query.gist", "00002 zek & ! (", None, "42601"),
    ] * 2
    (run, _) = Results(place / "results").runs()
    assert run.record.facts["fulltext"]["messages"] == 120
    assert "index_bytes" in run.record.facts["fulltext_pending"]
    step = next(s for s in run.steps if s.name == "query.gin")
    assert step.headline.statements_by_name == ()
    (page,) = (place / "results").glob("*.report/index.html")
    text = page.read_text()
    for heading in ("GIN: each query against", "Share of queries slower and faster", "Index sizes"):
        assert heading in text
    assert not list((place / "data").iterdir())


def test_a_server_killed_during_a_query_keeps_the_queries_before(
    place: Path, start: Start, campaign: Path, pg17: Server
) -> None:
    # q04 takes seconds even here, and many passes of it take longer than the test
    options = (
        'scale = 0.01, queries = "3 4", passes = 100, streams = 0, plans = "none", indexes = "primary", '
        'vacuum = "none", answers = false'
    )
    running = start("run", write(campaign, "tpcds", options, pg17), "--no-report")
    running.wait_for_text("  analyze ")
    running.wait_for(lambda: running.backend(cpu_seconds=1.5))
    running.wait_for(lambda: running.child("postgres")).send_signal(signal.SIGKILL)
    assert running.end() == 1
    assert "server died" in running.printed
    assert "Traceback" not in running.printed
    (run,) = Results(place / "results").runs()
    assert run.record.status == "failed"
    assert [s.name for s in run.steps] == ["copy", "indexes", "analyze", "power"]
    rows = list(run.table("queries"))
    assert rows[0]["query"] == "q03" and rows[0]["error"] is None
    assert run.steps[-1].seconds > rows[0]["seconds"]  # cut short, but at work until then
    assert not living_in(place / "data")


def test_plans_and_answers_are_in_the_run_and_in_the_report(
    place: Path, pgstrata: Program, campaign: Path, pg12: Server, pg17: Server
) -> None:
    options = 'scale = 0.01, queries = "3 9 98", streams = 0, indexes = "primary"'
    done = pgstrata("run", write(campaign, "tpcds", options, pg12, pg17))
    assert done.returncode == 0, done.stdout + done.stderr
    answer = query(
        place / "results",
        "select step, count(*), count(distinct variant), bool_or(timed_out), "
        "string_agg(distinct answer, ' '), count(shared_hit_bytes) from queries group by step order by step",
    )
    assert answer.rows == [("plans", 6, 2, False, None, 6), ("power", 6, 2, False, "same", 0)]
    for run in Results(place / "results").runs():
        assert [p["name"] for p in run.plans()["plans"]] == ["q03", "q09", "q98"]
        assert json.loads((run.folder / "plans.json").read_text()) == run.plans()
        assert run.record.facts["tpcds"]["tables"]["date_dim"]["rows"] == 73049
    (page,) = (place / "results").glob("*.report/index.html")
    text = page.read_text()
    for heading in (
        "3 of 3 were run by every variant",
        "Load by phase",
        "per GB of raw data",
        "Each query relative",
    ):
        assert heading in text
    tables = {file.name for file in page.parent.glob("tables/*.csv")}
    assert {"tpcds-totals.csv", "tpcds-queries.csv", "tpcds-size.csv", "load-phases.csv"} <= tables
    assert not list((place / "data").iterdir())


def test_a_data_disk_that_is_too_small_is_said_before_the_load(
    place: Path, pgstrata: Program, campaign: Path, pg17: Server
) -> None:
    done = pgstrata("run", write(campaign, "tpcds", "scale = 90000", pg17))
    assert done.returncode != 0
    assert "iB free" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert not list((place / "data").iterdir())


@pytest.mark.parametrize(
    ("name", "text"), [("empty.mbox", ""), ("notes.mbox", "From nobody at all\n"), ("none", None)]
)
def test_an_archive_without_messages_is_said_and_the_next_step_with_it(
    place: Path, pgstrata: Program, campaign: Path, own_cache: Path, pg17: Server, name: str, text: str | None
) -> None:
    archive = place / name
    if text is None:
        archive.mkdir()
    else:
        archive.write_text(text)
    searches = place / "searches"
    searches.write_text("zek\n")
    options = f'corpus = "{archive}", queries = "{searches}"'
    done = pgstrata("run", write(campaign, "fulltext", options, pg17), PGSTRATA_CACHE=str(own_cache))
    assert done.returncode == 1
    output = done.stdout + done.stderr
    assert "there is no message in the corpus" in output
    assert "name an mbox file" in output
    assert "Traceback" not in output
    assert not list((place / "data").iterdir())
