"""Answers to questions of published studies, computed from counted instructions: a sentence each.

A question is data: a step, the bundle that counted it, and the study that published its rates. The answer
names the versions between which instructions change, by how much, and in which functions; and it holds each
published change of the rate against the instructions of the same two versions.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from pgstrata import numbers
from pgstrata.bundle.packing import Bundle
from pgstrata.count.functions import causes, changes_of
from pgstrata.count.results import counts_of
from pgstrata.count.verdicts import CountVerdict, compare_counts
from pgstrata.judge.functions import FunctionChange
from pgstrata.judge.published import ONE, Published, Rounded, major_of, same_version
from pgstrata.store.record import ServerRecord

COLUMNS = ("bundle", "step", "study", "published_step", "question")

LEAST = 0.01
"""Smaller changes of instructions are named only where there is no larger one."""

LEAST_RATE = 0.02
"""Smaller changes of a published rate are not held against instructions: it is one run on each side."""

MOST = 2
"""Changes and functions that a sentence names."""


@dataclass(frozen=True)
class Question:
    """What a study left open. study and published_step are empty where it published no rates of the step."""

    bundle: str
    step: str
    study: str
    published_step: str
    question: str


@dataclass(frozen=True)
class Move:
    """A step from one version, or commit, to the next. rate: the published ratio of rates; None if none was
    published."""

    before: str
    after: str
    verdict: CountVerdict
    functions: Sequence[FunctionChange]
    rate: Rounded | None

    @property
    def is_proven(self) -> bool:
        """True where instructions changed beyond the margin."""
        return self.verdict.word in ("more", "fewer")

    @property
    def size(self) -> float:
        """Size of the change of instructions: log of their ratio, without its sign."""
        return abs(math.log(self.verdict.ratio)) if self.is_proven else 0.0


def read_questions(file: Path) -> list[Question]:
    """Reads the questions, sorted by step, study and question."""
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines, strict=True))
    if any(tuple(row) != COLUMNS for row in rows):
        raise SystemExit(f"{file.name}: its columns are not {','.join(COLUMNS)}")
    return sorted((Question(**row) for row in rows), key=lambda q: (q.step, q.study, q.question))


def answer(question: Question, bundle: Bundle, published: Sequence[Published]) -> str:
    """Returns the answer that a bundle gives, one sentence."""
    return sentence_of(list(moves(question, bundle, published)), question.study)


def sentence_of(steps: Sequence[Move], study: str) -> str:
    """Returns what changes along versions as a sentence."""
    return "; ".join([_instructions(steps), *_rates(steps, study)]) + "."


def moves(question: Question, bundle: Bundle, published: Sequence[Published]) -> Iterator[Move]:
    """Yields what changes from each version to the next. Raises SystemExit where the step was not counted."""
    counts = counts_of(bundle.results)
    rates = published_rates(question, bundle, published)
    names = {run.variant: name(run.variant, run.record.server) for run in bundle.results.counted}
    for before, after in pairwise(bundle.results.variants):
        base, other = counts.side(before), counts.side(after)
        (comparison,) = compare_counts(base, [other], steps=[question.step])
        verdicts = [v for v in comparison.steps if v.headline and v.other is not None]
        if not verdicts:
            raise SystemExit(f"{question.bundle} has no count of {question.step} on {before} and {after}")
        (verdict,) = verdicts
        changes = changes_of(base, other, verdict.workload, verdict.step, verdict.role)
        rate = rates[after].over(rates[before]) if before in rates and after in rates else None
        yield Move(names[before], names[after], verdict, changes, rate)


def name(variant: str, server: ServerRecord) -> str:
    """Returns the version of a server, or the commit that it was built from."""
    source = server.built.source if server.built else {}
    if "commit" in source:
        return f"{source['commit'][:10]} ({source['subject'].rstrip('.')})"
    return variant.removeprefix("pg")


def published_rates(question: Question, bundle: Bundle, published: Sequence[Published]) -> dict[str, Rounded]:
    """Returns the published rates of a step by variant, each over the same base."""
    rows = [p for p in published if (p.study, p.step) == (question.study, question.published_step)]
    ratios = {row.base: ONE for row in rows} | {row.version: row.ratio for row in rows}
    versions = {run.variant: run.record.server.version for run in bundle.results.counted}
    measured = list(versions.values())
    return {
        variant: ratio
        for variant, version in versions.items()
        for theirs, ratio in ratios.items()
        if version in same_version(theirs, ratios, measured)
    }


def _instructions(steps: Sequence[Move]) -> str:
    ordered = sorted((move for move in steps if move.is_proven), key=lambda move: -move.size)
    large = [move for move in ordered if move.size >= LEAST]
    if not large:
        least = f", {_changed(ordered[0])} at most" if ordered else ""
        return f"no version changes its instructions by {LEAST * 100:g} %{least}"
    return "instructions " + ", and ".join(_changed(move) for move in large[:MOST])


def _changed(move: Move) -> str:
    v = move.verdict
    interval = f"{numbers.significant(v.low, 4)} – {numbers.significant(v.high, 4)}"
    return f"× {numbers.significant(v.ratio, 4)} ({interval}) in {move.after}{_where(move)}"


def _where(move: Move) -> str:
    """Returns the functions that account for most of a change, with their shares of all instructions."""
    sign = move.verdict.ratio - 1
    along, against = causes(sign, move.functions)
    along = along or [change for change in move.functions if change.difference * sign > 0][:1]
    if not along:
        return ""
    sides = [("more" if sign > 0 else "fewer", along), ("fewer" if sign > 0 else "more", against)]
    return "".join(
        f", {word} by {' and '.join(f'{abs(c.share) * 100:.2g} % in {_code(c)}' for c in changes)}"
        for word, changes in sides
        if changes
    )


def _code(change: FunctionChange) -> str:
    """Returns a function and what moved with it, names as code."""
    names = {change.function, change.beside, *change.new, *change.gone} - {""}
    return re.sub(
        r"[A-Za-z_]\w*", lambda match: f"`{match[0]}`" if match[0] in names else match[0], change.title
    )


def _rates(steps: Sequence[Move], study: str) -> list[str]:
    """Returns what the instructions say to each large change of a published rate."""
    if not study:
        return []
    known = [(move, move.rate) for move in steps if move.rate is not None]
    large = sorted(known, key=lambda pair: -abs(math.log(pair[1].value)))
    parts = [
        f"the rate × {numbers.ratio(rate.value)} in {major_of(move.after)} {agreement(move, rate)}"
        for move, rate in large[:MOST]
        if abs(math.log(rate.value)) >= LEAST_RATE
    ]
    return parts or [f"no published change of the rate reaches {LEAST_RATE * 100:g} %"]


def agreement(move: Move, rate: Rounded) -> str:
    """Returns whether a rate changes as instructions alone would make it change."""
    if move.verdict.word == "unclear":
        return "is not known: they are unclear"
    expected = 1 / move.verdict.ratio
    if move.size < LEAST:
        return "is not in them: they are the same within 1 %"
    if (expected - 1) * (rate.value - 1) < 0:
        return f"goes against them: alone they make it × {numbers.ratio(expected)}"
    if rate.low * (1 - LEAST_RATE) <= expected <= rate.high * (1 + LEAST_RATE):
        return "is what they say"
    more = "more" if abs(math.log(rate.value)) > move.size else "less"
    return f"is {more} than they say: × {numbers.ratio(expected)}"


__all__ = ["Move", "Question", "agreement", "answer", "moves", "read_questions", "sentence_of"]
