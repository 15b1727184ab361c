"""The page and the words of a search, from a state as a search leaves it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pgstrata.campaign.study import Variant
from pgstrata.measure.two_servers import MeasuredWork
from pgstrata.numbers import counted
from pgstrata.search.bisect import state as states
from pgstrata.search.bisect.hunt import SearchResult, SearchSettings, result_of
from pgstrata.search.bisect.line import commits
from pgstrata.search.bisect.page import write_search
from pgstrata.search.bisect.procedure import By, TaskOutcome
from pgstrata.search.bisect.state import Measurement, SetAside
from pgstrata.search.bisect.text import headline, search_json, sentences
from support.tree import commit, git, repository

pytestmark = pytest.mark.program

CULPRIT = 12
COMMITS = 20
EVIL = "</script><script>alert(1)</script>"


@pytest.fixture
def search_result(tmp_path: Path) -> SearchResult:
    """A search over 20 commits to its end; one does not build. The culprit's subject is no
    friend of pages."""
    return searched(tmp_path, -0.04)


def searched(folder: Path, effect: float) -> SearchResult:
    repo = repository(folder / "repo")
    git(repo, "tag", "good")
    for number in range(1, COMMITS + 1):
        (repo / "file").write_text(f"{number}\n")
        commit(repo, f"change {number} {EVIL if number == CULPRIT else ''}".strip())
    line = commits(repo, "good", "main", lambda server: Variant(server=server))
    search = SearchSettings(line, MeasuredWork(("point-query",)), folder / "search")
    search.folder.mkdir()
    state = states.begin(search.folder, line, search.question())
    while task := (procedure := state.procedure(0.01, "rate")).next():
        if task.other == 15:
            state.set_aside.append(
                SetAside(15, "it did not build: main.c:1: error", "2026-01-01T00:00:00+00:00")
            )
            continue
        value = effect * ((task.other >= CULPRIT) - (task.base >= CULPRIT))
        seen = TaskOutcome(task.base, task.other, value, 0.003, why=task.why)
        when = "2026-01-01T00:00:00+00:00"
        state.measured.append(
            Measurement(
                task.base, task.other, task.why, seen.log_ratio, seen.error, 900,
                10_000.0, 9_600.0, "queries/s", "m", 40.0, 60.0, 110.0, when,
            )
        )  # fmt: skip
    return SearchResult(search, state, procedure.conclusion())


def test_the_page_names_the_commit_with_its_message_and_diffstat(search_result: SearchResult) -> None:
    page = write_search(search_result)
    text = page.read_text()
    assert EVIL not in text
    assert "change 12 &lt;/script&gt;" in text
    assert "3.9 % slower" in text
    assert "file | 2 +-" in text
    assert 'id="effects"' in text and 'id="posterior"' in text
    assert search_result.search.line.stops[CULPRIT].id in text
    assert "it did not build: main.c:1: error" in text
    assert "1 commit could not be measured and is no evidence." in text
    assert (page.parent / "plotly.min.js").exists()
    table = (page.parent / "tables/measurements.csv").read_text()
    assert table.count("\n") == len(search_result.state.measured) + 1


def test_a_search_that_goes_on_has_a_page_of_what_is_known(search_result: SearchResult) -> None:
    for number in range(len(search_result.state.measured)):
        state = structs.replace(search_result.state, measured=search_result.state.measured[:number])
        known = state.procedure(0.01, "rate").conclusion()
        page = write_search(SearchResult(search_result.search, state, known, goes_on=True))
        text = page.read_text()
        assert "The search is not at its end: this page is written again" in text
        assert f"{counted(number, 'measurement')}." in text
    assert "not at its end" not in write_search(search_result).read_text()


def test_the_answer_is_one_sentence_with_its_interval(search_result: SearchResult) -> None:
    stop = search_result.search.line.stops[CULPRIT]
    assert headline(search_result).endswith(f"since {stop.name} (change 12 {EVIL}).")
    assert "slower (" in headline(search_result)
    assert any("tester" in text and "against what is before it" in text for text in sentences(search_result))


def test_a_search_that_is_not_at_its_end_tells_how_many_changes_there_are_and_where(
    search_result: SearchResult,
) -> None:
    def after(*levels: tuple[int, int, float]) -> str:
        measured = [
            structs.replace(search_result.state.measured[0], base=base, other=place, log_ratio=level)
            for base, place, level in levels
        ]
        state = structs.replace(search_result.state, measured=measured, set_aside=[])
        return headline(SearchResult(search_result.search, state, state.procedure(0.01, "rate").conclusion()))

    names = [stop.name for stop in search_result.search.line.stops]
    sentence = after((0, COMMITS, -0.04), (0, COMMITS, -0.04), (0, 4, 0.0))
    assert f"not down to one commit yet: one of 16 commits, {names[5]} … {names[20]}, made" in sentence
    levels = [(0, 4, 0.0), (0, 8, -0.04), (0, 12, -0.04), (0, 13, -0.08)]
    two = after((0, COMMITS, -0.08), (0, COMMITS, -0.08), *levels)
    assert "2 changes are suspected" in two
    assert f"1. one of 4 commits, {names[5]} … {names[8]}; 2. {names[13]} (change 13)" in two
    ends = [(0, COMMITS, -0.04), (0, COMMITS, -0.04)]
    doubted = after(*ends, (0, 4, 0.0), (0, 5, -0.04), (4, 5, 0.0))
    assert f"one change is suspected, in {names[5]} (change 5)." in doubted


def test_json_holds_everything_that_was_measured(search_result: SearchResult) -> None:
    document: Any = search_json(search_result)
    assert document["state"] == "found"
    assert document["groups"][0]["first"]["position"] == CULPRIT
    assert document["groups"][0]["against_parent"]["ratio"] == pytest.approx(0.9608, abs=1e-3)
    assert len(document["measured"]) == len(search_result.state.measured)
    assert document["measured"][0]["low"] < document["measured"][0]["ratio"] < document["measured"][0]["high"]


def test_no_difference_is_said_with_what_could_have_been_seen(tmp_path: Path) -> None:
    search_result = searched(tmp_path, 0.0)
    assert headline(search_result).startswith("No difference is proven: ")
    assert "would have been found in 9 of 10 cases" in headline(search_result)
    assert search_json(search_result)["groups"] == []
    assert "posterior" not in write_search(search_result).read_text()


def other_way(
    search_result: SearchResult, rate: float, instructions: float, rate_error: float = 0.003
) -> SearchResult:
    """The same search with these ends, by both measures."""
    ends = search_result.state.measured[0]
    timed = structs.replace(ends, log_ratio=rate, error=rate_error, by="rate", cpu=rate)
    counted = structs.replace(
        ends, log_ratio=instructions, error=1e-4, by="instructions", unit="instructions/o"
    )
    rest = [m for m in search_result.state.measured if m.why != "ends"] if rate < -0.03 else []
    measured = [timed, timed, counted, *rest]
    return result_of(search_result.search, structs.replace(search_result.state, measured=measured))


def test_a_disagreement_of_both_measures_is_in_the_first_sentence(search_result: SearchResult) -> None:
    both_ways = other_way(search_result, -0.04, 0.0055)
    assert "3.9 % slower" in headline(both_ways)
    assert "though it has 0.55 % fewer instructions (" in headline(both_ways)
    document: Any = search_json(both_ways)
    assert document["disagrees"] and document["other_way"]["ratio"] == pytest.approx(0.9945, abs=1e-4)
    page = write_search(both_ways)
    assert "fewer instructions" in page.read_text() and "The ends, counted" in page.read_text()
    assert (page.parent / "tables/other-way.csv").read_text().count("\n") == 2
    assert "CPU per operation, which load hardly touches: +4.1 %" in " ".join(sentences(both_ways))


def test_both_measures_that_agree_are_said_one_after_the_other(search_result: SearchResult) -> None:
    both_ways = other_way(search_result, -0.04, -0.0055)
    assert "though" not in headline(both_ways)
    assert any(
        text.startswith("Counted, the bad end has 0.55 % more instructions") for text in sentences(both_ways)
    )


def test_a_machine_that_cannot_tell_says_so_and_names_the_count(search_result: SearchResult) -> None:
    both_ways = other_way(search_result, -0.01, -0.0055, rate_error=0.03)
    state = both_ways.state
    six = structs.replace(state, measured=[*state.measured[:2] * 3, *state.measured[2:]])
    text = " ".join(sentences(result_of(search_result.search, six)))
    assert "This machine cannot tell by the rate" in text and "--by instructions counts" in text
    quiet = other_way(search_result, 0.0, 0.0, rate_error=0.001)
    assert "cannot tell" not in " ".join(sentences(quiet))


@pytest.mark.parametrize("only", ["rate", "instructions"])
def test_both_goes_on_by_the_one_that_works(search_result: SearchResult, only: By) -> None:
    search = replace(search_result.search, by="both")
    state = structs.replace(
        search_result.state, question={"by": "both"}, measured=[], one_way="no valgrind", only=only
    )
    next_ = search.ways(state).next()
    assert next_ is not None and next_[0] == only
    assert "measured one way only: no valgrind." in " ".join(sentences(result_of(search, state)))
