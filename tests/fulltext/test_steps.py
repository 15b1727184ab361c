"""Full text search without a server: options, phases, queries."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pgstrata.driver.message import document
from pgstrata.errors import UsageError
from pgstrata.fulltext import queries
from pgstrata.fulltext.options import FulltextOptions
from pgstrata.fulltext.steps import query
from pgstrata.server.features import NEWEST
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Step

FULLTEXT = catalog.find("fulltext")


def steps(**options: Any) -> list[str]:
    chosen = FulltextOptions.model_validate({"messages": 10, "query_count": 5, **options})
    return [p.name for p in FULLTEXT.phases(chosen, NEWEST) if isinstance(p, Step)]


def test_steps_follow_the_options() -> None:
    assert steps() == [
        "load.gin", "query.gin", "load.gist", "query.gist", "load.plain", "index.gin", "index.gist",
    ]  # fmt: skip
    assert steps(build="before", indexes="gist gist") == ["load.gist", "query.gist"]
    assert steps(build="after", indexes=["gist", "gin"], warmup=1) == [
        "load.plain", "index.gist", "warm-up.gist", "query.gist", "index.gin", "warm-up.gin", "query.gin",
    ]  # fmt: skip


def test_loads_are_compared_unless_told_otherwise() -> None:
    chosen = FulltextOptions(messages=10, query_count=5, judge_loads=False)
    phases = [p for p in FULLTEXT.phases(chosen, NEWEST) if isinstance(p, Step)]
    assert [step.name for step in phases if step.measured] == ["query.gin", "query.gist"]


@pytest.mark.parametrize(
    "damage",
    [{"indexes": "btree"}, {"indexes": []}, {"language": "x'; drop"}, {"clients": 0}, {"build": "x"}],
)
def test_nonsense_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        FulltextOptions.model_validate(damage)


def test_clients_share_the_queries() -> None:
    chosen = FulltextOptions(messages=10, query_count=7, clients=3)
    (step,) = [p for p in FULLTEXT.phases(chosen, NEWEST) if p.name == "query.gin"]  # type: ignore[union-attr]
    assert isinstance(step, Step)
    ops = document(step.spec())["roles"][0]["scripts"][0]["ops"]
    branches = [branch for op in ops for branch in op["if"]]
    shares = [[op["name"][:5] for op in ops] for _, ops in branches]
    assert sorted(name for share in shares for name in share) == [f"{n:05d}" for n in range(1, 8)]
    assert {len(share) for share in shares} == {2, 3}


def test_the_search_is_that_of_the_reference() -> None:
    assert query("a & b") == (
        "SELECT id FROM messages WHERE body @@ ('a & b')::tsquery "
        "ORDER BY ts_rank(body, ('a & b')::tsquery) DESC LIMIT 100"
    )
    assert query("'it''s'").count("'''it''''s'''") == 2


def test_made_up_queries_mix_frequent_and_rare_words() -> None:
    words = queries.synthetic_words(1)
    texts = queries.made_up(words, 3_000, 1)
    assert texts == queries.made_up(words, 3_000, 1) != queries.made_up(words, 3_000, 2)
    rank = {word: n for n, word in enumerate(words)}
    terms = [re.split(r" [&|] ", text) for text in texts]
    assert {len(t) for t in terms} == {1, 2, 3, 4, 5}
    frequent = [all(rank[w] < queries.FREQUENT for w in t) for t in terms]
    rare = [all(rank[w] >= queries.FREQUENT for w in t) for t in terms]
    assert sum(frequent) == 1_000 and sum(rare) == 1_000
    either = sum(" | " in text for text in texts)
    assert 300 < either < 600


@given(
    st.lists(st.text("abk", min_size=1, max_size=3), min_size=1, max_size=5, unique=True), st.integers(0, 99)
)
def test_few_words_make_queries_too(words: list[str], seed: int) -> None:
    for text in queries.made_up(words, 9, seed):
        terms = re.split(r" [&|] ", text)
        assert set(terms) <= set(words)
        assert len(set(terms)) == len(terms)


def test_a_query_file_is_read_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "queries"
    file.write_bytes(b"a & b\n\n  c\0 \n\xff &\n!d\n")
    assert queries.from_file(file, 10) == ["a & b", "c", "\N{REPLACEMENT CHARACTER} &", "!d"]
    assert queries.from_file(file, 1) == ["a & b"]
    file.write_text("\n \n")
    with pytest.raises(UsageError, match="no queries"):
        queries.from_file(file, 10)
    with pytest.raises(UsageError, match="is a folder"):
        queries.from_file(tmp_path, 10)


def test_words_of_an_archive_are_counted_by_message(tmp_path: Path) -> None:
    archive = tmp_path / "list.mbox"
    for n in range(20):
        body = f"disk backup {'block ' * 50 if n == 0 else ''}running tables\n"
        with archive.open("a") as out:
            out.write(f"From a@b Thu Feb 11 18:27:14 2010\nMessage-ID: <{n}@x>\nSubject: web\n\n{body}\n")
    stamp = queries.stamp(archive)
    assert queries.archive_words(archive, stamp, "english") == ["backup", "disk", "web", "block"]
    assert "running" in queries.archive_words(archive, stamp, "simple")
    (tmp_path / "none.mbox").write_text("From a@b Thu Feb 11 18:27:14 2010\nSubject: 1\n\n2\n")
    with pytest.raises(UsageError, match="no words"):
        queries.archive_words(tmp_path / "none.mbox", (1, 1), "english")


def test_an_archive_that_is_not_there_is_said_when_planning() -> None:
    with pytest.raises(UsageError, match="no mail archive /nowhere"):
        FULLTEXT.phases(FulltextOptions(corpus="/nowhere"), NEWEST)
