"""The answer to an upgrade in one of four words, by rules that stand in docs/guides/upgrade.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pgstrata import numbers

Word = Literal["do not go yet", "cannot tell", "go with these changes", "go"]

MOST_NOT_REPLAYED = 0.2
"""Share of the log's time that may be missing from the replay before it says too little."""


@dataclass(frozen=True)
class Evidence:
    """What is known of one new version. Counts are of statements unless they say something else.

    unmeasured: why it could not be measured, empty where it was; refused: what the new version refuses of
    definitions, functions and statements; failing: that fail in every round and on the old version in none;
    slower: proven, with 1 % of the time or more on either side, slower_share: of the time; remedied: of
    these, those for which a remedy is proven; slower_light: with less; whole_slower: all together; changed:
    whose answer is another on the same data; answers: with another number of rows; unknown: of 1 % of the
    time or more of which it is not known whether they are slower, unknown_share: of the time; disturbed: what
    disturbed the rounds, empty where nothing did; not_replayed: share of the log's time; unanswered: lines of
    the checklist that nobody could answer; unchecked: why there is no checklist; changes: lines of it that
    must be done.
    """

    unmeasured: str = ""
    refused: int = 0
    failing: int = 0
    slower: int = 0
    slower_share: float = 0.0
    remedied: int = 0
    slower_light: int = 0
    whole_slower: bool = False
    changed: int = 0
    answers: int = 0
    unknown: int = 0
    unknown_share: float = 0.0
    disturbed: str = ""
    not_replayed: float = 0.0
    unanswered: int = 0
    unchecked: str = ""
    changes: int = 0


@dataclass(frozen=True)
class Answer:
    """The word, and why: each reason a clause."""

    word: Word
    reasons: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        word = self.word[:1].upper() + self.word[1:]
        return f"{word}: {'; '.join(self.reasons)}."


def answer(e: Evidence) -> Answer:
    """Returns the answer: the first of the four words that has a reason."""
    first, against, open_, changes = list(_changed(e)), list(_against(e)), list(_open(e)), list(_changes(e))
    if against:
        return Answer("do not go yet", (*first, *against, *open_[:1]))
    if open_:
        return Answer("cannot tell", (*first, *open_, *changes))
    if first or changes:
        return Answer("go with these changes", (*first, *changes, "nothing else fails or is slower"))
    return Answer("go", ("nothing fails, and nothing that matters is slower",))


def _changed(e: Evidence) -> Iterator[str]:
    if e.changed:
        answers = "answers" if e.changed == 1 else "answer"
        yield f"{numbers.counted(e.changed, 'statement')} {answers} otherwise on the same data"


def _against(e: Evidence) -> Iterator[str]:
    if e.unmeasured:
        yield f"it could not be measured ({e.unmeasured})"
    if e.refused:
        is_refused = "is" if e.refused == 1 else "are"
        yield f"{numbers.counted(e.refused, 'thing')} that the old version takes {is_refused} refused"
    if e.failing:
        fails = "fails" if e.failing == 1 else "fail"
        yield f"{numbers.counted(e.failing, 'statement')} {fails} in every round"
    if e.slower:
        yield (
            f"{numbers.counted(e.slower, 'statement')} with {_percent(e.slower_share)} of the time "
            f"{'is' if e.slower == 1 else 'are'} slower{_remedied(e)}"
        )
    if e.whole_slower:
        yield "all statements together are slower"


def _remedied(e: Evidence) -> str:
    if not e.remedied:
        return ""
    whom = "it" if e.slower == 1 else "all of them" if e.remedied == e.slower else f"{e.remedied} of them"
    return f" (for {whom} a remedy is proven, below)"


def _open(e: Evidence) -> Iterator[str]:
    if e.unmeasured:
        return
    if e.disturbed:
        yield f"the rounds were disturbed ({e.disturbed})"
    elif e.unknown:
        yield (
            f"of {numbers.counted(e.unknown, 'statement')} with {_percent(e.unknown_share)} of the time it "
            "is not known whether they are slower"
        )
    if e.not_replayed >= 1:
        yield "nothing was replayed"
    elif e.not_replayed > MOST_NOT_REPLAYED:
        yield f"{_percent(e.not_replayed)} of the log's time was not replayed"
    if e.unchecked:
        yield f"there is no checklist ({e.unchecked})"
    elif e.unanswered:
        has = "has" if e.unanswered == 1 else "have"
        yield f"{numbers.counted(e.unanswered, 'line')} of the checklist {has} no answer"


def _changes(e: Evidence) -> Iterator[str]:
    if e.answers:
        yield f"{numbers.counted(e.answers, 'statement')} with another number of rows to look at"
    if e.changes:
        yield f"{numbers.counted(e.changes, 'thing')} to do besides ANALYZE, listed below"
    if e.slower_light:
        is_slower = "is" if e.slower_light == 1 else "are"
        light = numbers.counted(e.slower_light, "statement")
        yield f"{light} with less than 1 % of the time {is_slower} slower"


def _percent(share: float) -> str:
    return f"{numbers.share_of_time(share, 2)} %"


__all__ = ["MOST_NOT_REPLAYED", "Answer", "Evidence", "Word", "answer"]
