"""What a replay proves, as blocks of a page: tables of its statements and of what only one side rejects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pgstrata import numbers
from pgstrata.judge.alone import figures
from pgstrata.judge.marks import Mark
from pgstrata.judge.statements import StatementVerdict
from pgstrata.page.blocks import Block, Cell, Column, Prose, Row, Section, Table, missing, words
from pgstrata.page.results import anchor
from pgstrata.report.sections.query_causes import Explained
from pgstrata.report.sections.query_times import difference_text, parts_table
from pgstrata.stats.verdict import Word
from pgstrata.traffic.replay.judged import Judged, NewError

MOST_ROWS = 200

MOST_LETTERS = 100
"""Of a statement in a title or a line."""

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


def judged_table(base: str, judged: Judged, keys: Sequence[tuple[str, str]] = ()) -> Table:
    """Returns the table of all statements, slower ones first, each kind by its share of the time."""
    ordered = [statement_verdict for word in ORDER for statement_verdict in judged.of(word)]
    return Table(
        name="replay_statements",
        title=f"Statements on {judged.variant}, against {base}",
        columns=[
            Column("verdict", f"On {judged.variant}", align="left"),
            Column("change", "It takes", align="left"),
            Column("statement", "Statement", align="left"),
            Column("base_share", f"Share, {base}", "%"),
            Column("share", f"Share, {judged.variant}", "%"),
            Column("base_each", f"Each, {base}", "ms"),
            Column("each", f"Each, {judged.variant}", "ms"),
            Column("calls", "Asked", "a round"),
            Column("remark", "Remark", align="left"),
        ],
        rows=[Row(list(_cells(statement_verdict, judged))) for statement_verdict in ordered[:MOST_ROWS]],
        how=_HOW.format(margin=f"{100 * judged.margin:.3g} %"),
        keys=[*keys, ("variant", judged.variant)],
        notes=[
            *(
                [f"With less time: {numbers.counted(len(ordered) - MOST_ROWS, 'more statement')}."]
                if len(ordered) > MOST_ROWS
                else []
            ),
            *([f"{left_out_rounds(judged)}."] if judged.left_out else []),
        ],
        stacked=True,
    )


def explained_statements(by_variant: Mapping[str, Judged]) -> list[Explained]:
    """Returns the slower statements with a cause, those with the largest share of the time first."""
    return [
        Explained(
            variant,
            statement_verdict.statement.text,
            "slower",
            change_cell(statement_verdict),
            statement_verdict.verdict.confidence,
            statement_verdict.cause,
        )
        for variant, judged in by_variant.items()
        for statement_verdict in judged.of("slower")
        if statement_verdict.cause is not None
    ]


def statement_times(
    base: str, by_variant: Mapping[str, Judged], keys: Sequence[tuple[str, str]] = ()
) -> list[Section]:
    """Returns a folded part for each slower statement of which it is known where its time went."""
    parts = []
    for variant, judged in by_variant.items():
        on = f" on {variant}" if len(by_variant) > 1 else ""
        for number, statement_verdict in enumerate(judged.of("slower")):
            if statement_verdict.parts is None:
                continue
            text = statement_verdict.statement.text
            table_keys = [*keys, ("statement", text), ("variant", variant)]
            table = parts_table(statement_verdict.parts, base, variant, table_keys)
            title = f"{shortened(text)}{on}: {difference_text(statement_verdict.parts)}"
            link = anchor("time", *(value for _, value in keys), variant, str(number))
            parts.append(Section(link, title, [replace(table, name="statement-parts")], folded=True))
    return parts


def shortened(text: str) -> str:
    """Returns a text in one line, of a long one the beginning."""
    text = " ".join(text.split())
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"


def left_out_rounds(judged: Judged) -> str:
    """Returns how many rounds are in no figure, and why; an empty text where all are."""
    if not judged.left_out:
        return ""
    rounds = numbers.counted(judged.rounds, "round")
    are = "is" if judged.left_out == 1 else "are"
    return f"{judged.left_out} of {rounds} {are} left out: other programs used too much of the CPUs meanwhile"


def _cells(statement_verdict: StatementVerdict, judged: Judged) -> Iterator[Cell]:
    verdict = statement_verdict.verdict
    yield words(SAID[verdict.word], mark=MARKS[verdict.word])
    yield change_cell(statement_verdict)
    yield words(statement_verdict.statement.text)
    yield Cell(statement_verdict.base_share, numbers.share_of_time(statement_verdict.base_share))
    yield Cell(statement_verdict.other_share, numbers.share_of_time(statement_verdict.other_share))
    for asked in (statement_verdict.base, statement_verdict.other):
        yield (
            Cell(asked.mean * 1000, numbers.milliseconds(asked.mean)) if asked.calls else missing("not asked")
        )
    yield per_round(statement_verdict.other.calls / judged.counted_rounds)
    remarks = ["another plan"] if statement_verdict.statement.name in judged.plans else []
    if (
        statement_verdict.alone is not None
        and statement_verdict.alone.verdict is not None
        and verdict.decided
    ):
        remarks.append(f"alone {figures(statement_verdict.alone.verdict)}")
    remarks += [doubt(statement_verdict)] if verdict.word == "unclear" else []
    yield words("; ".join(remarks))


def per_round(value: float) -> Cell:
    """Returns the cell with a number per round: a whole number mostly."""
    whole = round(value) == value
    return Cell(value, numbers.count(round(value)) if whole else numbers.significant(value))


def change_cell(statement_verdict: StatementVerdict) -> Cell:
    """Returns the cell with the ratio by which an execution takes longer, and its interval."""
    verdict = statement_verdict.verdict
    if not statement_verdict.rounds:
        return missing("nothing to compare")
    known = verdict.low > 1 / WIDEST and verdict.high < WIDEST
    small = f"× {numbers.ratio(1 / verdict.high)} – {numbers.ratio(1 / verdict.low)}" if known else ""
    return Cell(
        statement_verdict.longer,
        numbers.longer(statement_verdict.longer),
        MARKS[verdict.word],
        verdict.reason,
        small=small,
    )


def doubt(entry: StatementVerdict) -> str:
    """Returns the reason why nothing is known of a statement, in plain words."""
    verdict = entry.verdict
    if verdict.aside:
        return verdict.reason
    if entry.rare:
        return "asked too seldom to tell"
    if not verdict.is_bounded:
        return f"{numbers.counted(entry.rounds, 'round')} {'is' if entry.rounds == 1 else 'are'} too few"
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
    """Returns the errors that one side has and the other does not."""
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
                    words(error.statement.text),
                    words(error.message),
                    words(error.sqlstate),
                    words(f"failed with {error.then}" if error.then else "succeeded"),
                    Cell(error.count, numbers.count(error.count)),
                    *([words(error.apart)] if apart else []),
                ]
            )
            for error in errors[:MOST_ROWS]
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
    return [judged_table(base, judged, keys) for judged in by_variant.values()]


def error_blocks(
    base: str, by_variant: Mapping[str, Judged], keys: Sequence[tuple[str, str]] = ()
) -> list[Block]:
    """Returns blocks with the errors that each variant has and the base does not, and the other way round."""
    blocks: list[Block] = []
    for variant, judged in by_variant.items():
        table_keys = [*keys, ("variant", variant)]
        if judged.new_errors:
            title = f"What {variant} rejects and {base} does not"
            blocks.append(
                error_table(title, "replay_new_errors", judged.new_errors, judged.rounds, table_keys)
            )
        else:
            blocks.append(
                Prose(f"{variant} fails with nothing in every round that {base} does not fail with.")
            )
        if judged.gone_errors:
            title = f"What {base} rejects and {variant} does not"
            blocks.append(
                error_table(title, "replay_gone_errors", judged.gone_errors, judged.rounds, table_keys)
            )
        if judged.apart_errors:
            title = f"Errors on {variant} alone that come of order, or not in every round"
            blocks.append(
                error_table(
                    title, "replay_errors_apart", judged.apart_errors, judged.rounds, table_keys, apart=True
                )
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
    "shortened",
    "statement_times",
]
