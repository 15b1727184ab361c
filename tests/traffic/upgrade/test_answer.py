"""The rules of the answer, and how many rounds would settle what is open."""

from __future__ import annotations

import math
import shlex
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pgstrata.judge.statements import Executions, StatementVerdict
from pgstrata.stats.verdict import Verdict
from pgstrata.store.record import Slice
from pgstrata.store.statement import Statement
from pgstrata.traffic.commands.upgrade import _again
from pgstrata.traffic.replay.judged import Judged
from pgstrata.traffic.upgrade.answer import Answer, Evidence, answer
from pgstrata.traffic.upgrade.checklist.model import REFUSED_STATEMENTS, line
from pgstrata.traffic.upgrade.decision import Decision, fails
from pgstrata.traffic.upgrade.page import by_line, fails_said
from pgstrata.traffic.upgrade.settle import MOST_ROUNDS, at_most, seconds_of_round, settling, undecided


@pytest.mark.parametrize(
    ("evidence", "word", "reason"),
    [
        ({}, "go", "nothing fails, and nothing that matters is slower"),
        ({"changes": 3}, "go with these changes", "3 things to do besides ANALYZE"),
        (
            {"slower_light": 1},
            "go with these changes",
            "1 statement with less than 1 % of the time is slower",
        ),
        ({"changed": 1}, "go with these changes", "1 statement answers otherwise on the same data"),
        ({"answers": 2}, "go with these changes", "2 statements with another number of rows"),
        ({"unknown": 2, "unknown_share": 0.34}, "cannot tell", "of 2 statements with 34 % of the time"),
        ({"disturbed": "other programs used 80 %"}, "cannot tell", "the rounds were disturbed"),
        ({"not_replayed": 0.3}, "cannot tell", "30 % of the log's time was not replayed"),
        ({"not_replayed": 1.0}, "cannot tell", "nothing was replayed"),
        ({"not_replayed": 0.1}, "go", "nothing fails"),
        ({"unanswered": 1}, "cannot tell", "1 line of the checklist has no answer"),
        ({"unchecked": "it does not start"}, "cannot tell", "there is no checklist (it does not start)"),
        ({"failing": 1}, "do not go yet", "1 statement fails in every round"),
        ({"refused": 3}, "do not go yet", "3 things that the old version takes are refused"),
        ({"slower": 1, "slower_share": 0.4}, "do not go yet", "1 statement with 40 % of the time is slower"),
        ({"whole_slower": True}, "do not go yet", "all statements together are slower"),
        ({"unmeasured": "no space"}, "do not go yet", "it could not be measured (no space)"),
    ],
)
def test_each_rule_of_the_answer(evidence: dict[str, Any], word: str, reason: str) -> None:
    verdict = answer(Evidence(**evidence))
    assert verdict.word == word
    assert any(sentence.startswith(reason) for sentence in verdict.reasons), verdict.reasons
    assert verdict.sentence.startswith(f"{word[0].upper()}{word[1:]}: ") and verdict.sentence.endswith(".")


def test_what_is_worse_decides() -> None:
    everything: dict[str, Any] = {"failing": 1, "unknown": 1, "changes": 1, "slower_light": 1}
    words = []
    for name in ("", "failing", "unknown", "changes", "slower_light"):
        everything.pop(name, None)
        words.append(answer(Evidence(**everything)).word)
    assert words == ["do not go yet", "cannot tell", "go with these changes", "go with these changes", "go"]
    # An answer that changed is said before anything else.
    for unknown, failing in ((0, 0), (1, 0), (0, 1)):
        verdict = answer(Evidence(changed=2, changes=1, unknown=unknown, failing=failing))
        assert verdict.reasons[0].startswith("2 statements answer ")
    # What has to be done is said where the answer is open, too.
    assert "2 things to do" in answer(Evidence(unknown=1, unknown_share=0.5, changes=2)).sentence


# --- what would settle it ---------------------------------------------------------------------


def statement(
    log: float, half: float, *, rounds: int = 10, share: float = 0.5, aside: bool = False
) -> StatementVerdict:
    """An undecided statement with this log ratio and half width of its interval."""
    verdict = Verdict(
        "unclear",
        math.exp(log),
        math.exp(log - half),
        math.exp(log + half) if half < 100 else math.inf,
        0.05,
        0.95,
        rounds,
        0.5,
        None,
        "the interval holds both no difference and one beyond the margin",
        aside=aside,
    )
    asked = Executions(100, 0, 1.0)
    return StatementVerdict(Statement(0, "#0 SELECT"), asked, asked, share, share, rounds, verdict)


def judged(*statements: StatementVerdict, disturbance: str = "") -> Judged:
    return Judged("17", statements, {}, 0, [], [], 10, 0.05, disturbance=disturbance)


def test_rounds_that_settle_it() -> None:
    # An interval of ± 10 % around no difference has to become one of less than ± 5 %: four times the rounds.
    estimate = settling(judged(statement(0.0, 0.10)), round_seconds=60)
    assert estimate is not None and estimate.rounds is not None
    assert 4 * 10 - 10 <= estimate.rounds <= 1.3 * 4 * 10
    assert estimate.minutes == estimate.rounds
    assert estimate.sentence == f"about {estimate.rounds} more rounds, {estimate.minutes} minutes"
    # A difference of 20 % is settled when the interval leaves out none: sooner.
    sooner = settling(judged(statement(-0.2, 0.25)), round_seconds=60)
    assert sooner is not None and sooner.rounds is not None and sooner.rounds < estimate.rounds
    # Several: as many as the one that needs most.
    both = settling(judged(statement(0.0, 0.10), statement(-0.2, 0.25)), round_seconds=60)
    assert both is not None and both.rounds == estimate.rounds
    # Without an interval it takes the rounds of a first look at least.
    first = settling(judged(statement(0.0, math.inf, rounds=1)), round_seconds=1)
    assert first is not None and first.rounds == 10 and first.minutes == 5


def test_what_no_rounds_settle() -> None:
    estimate = settling(judged(statement(0.0, 3.0)), round_seconds=1)
    assert estimate is not None and estimate.rounds is None and "longer log" in estimate.sentence
    assert MOST_ROUNDS < 10 * (3.0 / 0.05) ** 2
    # What was told for another reason, matters too little or is decided needs none.
    assert settling(judged(statement(0.0, 0.1, aside=True)), 1) is None
    assert settling(judged(statement(0.0, 0.1, share=0.005)), 1) is None
    assert settling(judged(), 1) is None
    # Faster or the same, but not slower, is known well enough.
    assert undecided(judged(statement(0.10, 0.12))) == []
    disturbed = settling(judged(statement(0.0, 0.1), disturbance="other programs"), round_seconds=60)
    assert disturbed is not None and disturbed.rounds == 10


def test_what_is_known_all_the_same() -> None:
    assert at_most([statement(0.0, 0.2)]) == "; probably none takes 22 % longer or more"
    assert at_most([statement(0.0, 3.0)]) == ""
    assert at_most([]) == ""


def test_how_long_a_round_takes_by_the_clock() -> None:
    def slices(*starts: str | None) -> list[Slice]:
        return [Slice(pair=n, seconds=3.0, rate=1.0, started=start) for n, start in enumerate(starts, 1)]

    # Two versions of 3 s each; a round begins each 20 s.
    times = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:20Z", "2026-01-01T00:00:40.5Z")
    assert seconds_of_round(slices(*times), 2) == (20.25, 6.0)
    # Where no round says when it began, what stands between them is estimated.
    assert seconds_of_round(slices(None, None), 2) == (6.0 + 2 * 1.5, 6.0)
    assert seconds_of_round([], 2) == (3.0, 0.0)


def test_the_command_that_goes_on() -> None:
    words = ["upgrade", "--from", "13", "--dump", "my dump.sql", "--more", "5", "--rounds", "4"]
    assert _again(words, 25) == "pgstrata upgrade --from 13 --dump 'my dump.sql' --rounds 4 --more 25"
    assert _again(["upgrade", "--more=5", "--log", "x"], 18.5) == "pgstrata upgrade --log x --more 18.5"
    # On the page each option has its line, as a shell reads it; within quotes nothing may be broken.
    lines = by_line("pgstrata upgrade --log x --more 18")
    assert lines.split("\n") == ["pgstrata upgrade \\", "    --log x \\", "    --more 18"]
    assert shlex.split(lines.replace("\\\n", "")) == ["pgstrata", "upgrade", "--log", "x", "--more", "18"]
    assert by_line("pgstrata upgrade --dump 'my --dump'") == "pgstrata upgrade --dump 'my --dump'"


def test_the_exit_code_follows_the_answer() -> None:
    def code(word: str, *, failed: bool = False, slower: bool = False) -> int:
        tried: Any = SimpleNamespace(failed={"18": "no space"} if failed else {}, labels=["13", "17"])
        slow = replace(statement(0, 0.1), verdict=replace(statement(-0.5, 0.1).verdict, word="slower"))
        measured: Any = SimpleNamespace(judged={"17": judged(*([slow] if slower else []))})
        answers: Any = {"17": Answer(word, ())}  # type: ignore[arg-type]
        return Decision(tried, measured, {}, answers, {}).exit_code

    assert [code(word) for word in ("go", "go with these changes", "cannot tell", "do not go yet")] == [
        0,
        0,
        3,
        1,
    ]
    # A statement with little time that is slower is a change to look at, and still fails a job of CI.
    assert code("go with these changes", slower=True) == 1
    assert code("go", failed=True) == 1


def test_what_fails_is_counted_once() -> None:
    """Replay and checklist may meet the same statement; terminal, page and answer count from here."""
    both, only = "SELECT gone FROM a", "SELECT gone FROM a WHERE v"
    errors = [SimpleNamespace(statement=SimpleNamespace(text=both)) for _ in range(2)]
    checklist = [
        line("refused-definitions", "fails", "", "", ["CREATE TABLE a: no"] * 3),
        line(REFUSED_STATEMENTS, "fails", "", "", [f"{both}: column", f"{only}: column"]),
        line("chr", "look", "", "", ["x"]),
    ]
    replayed: Any = SimpleNamespace(new_errors=errors)
    failing, refused = fails(replayed, checklist)
    assert failing == [both] and [entry.count for entry in refused] == [3, 1]
    assert refused[1].objects == [f"{only}: column"] and fails_said(failing, refused) == "fails: 5"
    assert fails_said(*fails(None, checklist)) == "fails: 5"
    assert fails(replayed, [line(REFUSED_STATEMENTS, "fails", "", "", [f"{both}: column"])]) == ([both], [])
