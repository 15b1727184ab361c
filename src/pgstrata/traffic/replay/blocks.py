"""What a replay proves, as blocks of a page: tables of its statements and of what only one side rejects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pgstrata import numbers
from pgstrata.judge.alone import figures
from pgstrata.judge.marks import Mark
from pgstrata.judge.statements import StatementVerdict
from pgstrata.page.blocks import Block, Cell, Column, Prose, Row, Table, missing, words
from pgstrata.report.sections.query_causes import Explained
from pgstrata.stats.verdict import Word
from pgstrata.traffic.replay.judged import Judged, NewError

MOST_ROWS = 200

WIDEST = 1000
"""Bounds beyond so many times are none."""

ORDER: tuple[Word, ...] = ("slower", "faster", "same", "unclear")
"""What a reader wants to know first."""

SAID: Mapping[Word, str] = {
    "slower": "slower",
    "faster": "faster",
    "same": "the same",
    "unclear": "not known",
}
MARKS: Mapping[Word, Mark] = {"slower": "bad", "faster": "good", "same": "same", "unclear": "even"}

_HOW = (
    "Times are from sending a statement to its whole answer, on average. Slower and faster are said only "
    "where the rounds prove it: the whole replay is done again and again on both, in turns, and the "
    "difference is larger than what rounds differ by among themselves, and than {margin}; and where the "
    "statement differs with nothing beside it, too. The same: proven to differ by less. Small figures: the "
    "least and the most that it may be, in 95 of 100 cases. Share: of the time that all statements take "
    "together. Values are left out: $1, $2, …."
)


def judged_table(base: str, found: Judged, keys: Sequence[tuple[str, str]] = ()) -> Table:
    """Returns the table of all statements, slower ones first, each kind by its share of the time."""
    ordered = [one for word in ORDER for one in found.of(word)]
    return Table(
        name="replay_statements",
        title=f"Statements on {found.variant}, against {base}",
        columns=[
            Column("verdict", f"On {found.variant}", align="left"),
            Column("change", "It takes", align="left"),
            Column("statement", "Statement", align="left"),
            Column("base_share", f"Share, {base}", "%"),
            Column("share", f"Share, {found.variant}", "%"),
            Column("base_each", f"Each, {base}", "ms"),
            Column("each", f"Each, {found.variant}", "ms"),
            Column("calls", "Asked", "a round"),
            Column("remark", "Remark", align="left"),
        ],
        rows=[Row(list(_cells(one, found))) for one in ordered[:MOST_ROWS]],
        how=_HOW.format(margin=f"{100 * found.margin:.3g} %"),
        keys=[*keys, ("variant", found.variant)],
        notes=[
            *(
                [f"{len(ordered) - MOST_ROWS} more statements take less time."]
                if len(ordered) > MOST_ROWS
                else []
            ),
            *([f"{left_out_rounds(found)}."] if found.left_out else []),
        ],
        stacked=True,
    )


def explained_statements(by_variant: Mapping[str, Judged]) -> list[Explained]:
    """Returns the slower statements with a cause, those with the largest share of the time first."""
    return [
        Explained(variant, one.statement.text, "slower", change_cell(one), one.verdict.confidence, one.cause)
        for variant, judged in by_variant.items()
        for one in judged.of("slower")
        if one.cause is not None
    ]


def left_out_rounds(judged: Judged) -> str:
    """Returns how many rounds are in no figure, and why; an empty text where all are."""
    if not judged.left_out:
        return ""
    rounds = numbers.counted(judged.rounds, "round")
    are = "is" if judged.left_out == 1 else "are"
    return f"{judged.left_out} of {rounds} {are} left out: other programs used too much of the CPUs meanwhile"


def _cells(one: StatementVerdict, found: Judged) -> Iterator[Cell]:
    verdict = one.verdict
    yield words(SAID[verdict.word], mark=MARKS[verdict.word])
    yield change_cell(one)
    yield words(one.statement.text)
    yield Cell(one.base_share, numbers.significant(100 * one.base_share))
    yield Cell(one.other_share, numbers.significant(100 * one.other_share))
    for asked in (one.base, one.other):
        yield (
            Cell(asked.mean * 1000, numbers.milliseconds(asked.mean)) if asked.calls else missing("not asked")
        )
    yield per_round(one.other.calls / found.counted_rounds)
    remarks = ["another plan"] if one.statement.name in found.plans else []
    if one.alone is not None and one.alone.verdict is not None and verdict.decided:
        remarks.append(f"alone {figures(one.alone.verdict)}")
    remarks += [doubt(one)] if verdict.word == "unclear" else []
    yield words("; ".join(remarks))


def per_round(value: float) -> Cell:
    """Returns the cell with a number per round: a whole number mostly."""
    whole = round(value) == value
    return Cell(value, numbers.count(round(value)) if whole else numbers.significant(value))


def change_cell(one: StatementVerdict) -> Cell:
    """Returns the cell with the ratio by which an execution takes longer, and its interval."""
    verdict = one.verdict
    if not one.rounds:
        return missing("nothing to compare")
    known = verdict.low > 1 / WIDEST and verdict.high < WIDEST
    small = f"× {numbers.ratio(1 / verdict.high)} – {numbers.ratio(1 / verdict.low)}" if known else ""
    return Cell(one.longer, numbers.longer(one.longer), MARKS[verdict.word], verdict.reason, small=small)


def doubt(one: StatementVerdict) -> str:
    """Returns the reason why nothing is known of a statement, in plain words."""
    verdict = one.verdict
    if verdict.aside:
        return verdict.reason
    if one.rare:
        return "asked too seldom to tell"
    if not verdict.is_bounded:
        return f"{numbers.counted(one.rounds, 'round')} {'is' if one.rounds == 1 else 'are'} too few"
    if verdict.low > 1 or verdict.high < 1:
        if verdict.adjusted_p is not None and verdict.adjusted_p > 1 - verdict.confidence:
            return "it differs, but among so many statements that may be chance: more rounds can tell"
        return "it differs, but perhaps by too little to matter"
    return "its time differs too much from round to round"


def error_table(
    title: str,
    name: str,
    errors: Sequence[NewError],
    rounds: int,
    keys: Sequence[tuple[str, str]],
    *,
    apart: bool = False,
) -> Table:
    """Errors that one side has and the other does not."""
    return Table(
        name=name,
        title=title,
        columns=[
            Column("statement", "Statement", align="left"),
            Column("message", "The server's words", align="left"),
            Column("sqlstate", "Code", align="left"),
            Column("then", "In the log", align="left"),
            Column("count", "Times", f"in {numbers.counted(rounds, 'round')}"),
            *([Column("apart", "Why it does not count", align="left")] if apart else []),
        ],
        rows=[
            Row(
                [
                    words(one.statement.text),
                    words(one.message),
                    words(one.sqlstate),
                    words(f"failed with {one.then}" if one.then else "succeeded"),
                    Cell(one.count, numbers.count(one.count)),
                    *([words(one.apart)] if apart else []),
                ]
            )
            for one in errors[:MOST_ROWS]
        ],
        how="Of statements that are asked the same on both. "
        + (
            "They say nothing of the version, and do not decide the exit code."
            if apart
            else "In every round on the one, and in none on the other."
        ),
        keys=keys,
    )


def judged_blocks(
    base: str, by_variant: Mapping[str, Judged], keys: Sequence[tuple[str, str]] = ()
) -> list[Block]:
    """Returns a table for each variant against the base."""
    return [judged_table(base, found, keys) for found in by_variant.values()]


def error_blocks(
    base: str, by_variant: Mapping[str, Judged], keys: Sequence[tuple[str, str]] = ()
) -> list[Block]:
    """Returns blocks with the errors that each variant has and the base does not, and the other way round."""
    blocks: list[Block] = []
    for variant, found in by_variant.items():
        own = [*keys, ("variant", variant)]
        if found.new_errors:
            title = f"What {variant} rejects and {base} does not"
            blocks.append(error_table(title, "replay_new_errors", found.new_errors, found.rounds, own))
        else:
            blocks.append(
                Prose(f"{variant} fails with nothing in every round that {base} does not fail with.")
            )
        if found.gone_errors:
            title = f"What {base} rejects and {variant} does not"
            blocks.append(error_table(title, "replay_gone_errors", found.gone_errors, found.rounds, own))
        if found.apart_errors:
            title = f"Errors on {variant} alone that come of order, or not in every round"
            blocks.append(
                error_table(title, "replay_errors_apart", found.apart_errors, found.rounds, own, apart=True)
            )
    return blocks


__all__ = [
    "MARKS",
    "ORDER",
    "SAID",
    "change_cell",
    "doubt",
    "error_blocks",
    "explained_statements",
    "judged_blocks",
    "judged_table",
    "left_out_rounds",
    "per_round",
]
