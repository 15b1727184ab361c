"""The table of a tuning study: class × set-up → overlays, and the combination to try next."""

from __future__ import annotations

from pgstrata import numbers
from pgstrata.judge.overlays import TuningStudy, tuning_study
from pgstrata.judge.tuning import CLASSES, StudyEntry
from pgstrata.page.blocks import Block, Cell, Column, Prose, Row, Section, Table, words
from pgstrata.page.results import RunSet

_BANDS = {
    "significant benefit": "> 1.05",
    "small benefit": "1.02 … 1.05",
    "no impact": "0.99 … 1.01",
    "hurt": "≤ 0.98",
    "ignored": "unsafe, or changes nothing",
}


def tuning(results: RunSet) -> Section | None:
    """Returns the section of a tuning study; None if the campaign is no tuning study."""
    study = tuning_study(results.runs)
    if study is None:
        return None
    return Section("tuning-study", "Study of configurations", [table(study), *remarks(study)])


def table(study: TuningStudy) -> Table:
    """Returns a table with a row per class and a column per set-up."""
    t = study.table
    judged = ", ".join(f"{step} of {workload}" for workload, step in study.steps.items())
    rows = []
    for cls in CLASSES:
        cells = [Cell(cls, f"{cls} ({_BANDS[cls]})")]
        for set_up in t.set_ups:
            entries = t.cell(cls, set_up)
            cells.append(words(", ".join(_cell_text(study, entry) for entry in entries) or numbers.UNKNOWN))
        rows.append(Row(cells))
    return Table(
        name="tuning-study",
        title=f"What each overlay does: judged by {judged}",
        columns=[
            Column("class", "Class", align="left"),
            *(Column(set_up, set_up, align="left") for set_up in t.set_ups),
        ],
        rows=rows,
        how="Each overlay stands in the class of its relative rate against the base of its set-up. ~ marks a "
        "rate between two bands (0.98 to 0.99, 1.01 to 1.02), which counts to the nearer one; ? one whose "
        "interval holds 1, so the difference may be noise.",
    )


def remarks(study: TuningStudy) -> list[Block]:
    """Duplicates, unsafe settings, and what to try next, in sentences."""
    t = study.table
    blocks: list[Block] = []
    for overlay, same in t.duplicates.items():
        what = "the base: it changes nothing" if same is None else same
        blocks.append(Prose(f"{overlay} has the same settings as {what}.", "even"))
    for overlay, reasons in t.unsafe.items():
        blocks.append(Prose(f"{overlay} is not safe and never recommended: {'; '.join(reasons)}.", "bad"))
    for overlay, reasons in t.noted.items():
        blocks.append(Prose(f"{overlay} has a price: {'; '.join(reasons)}.", "even"))
    blocks += [Prose(f"The base itself: {warning}.", "even") for warning in t.base_warnings]
    blocks.append(Prose(next_sentence(study)))
    left: dict[str, list[str]] = {}
    for out in t.next.left:
        left.setdefault(out.reason, []).append(out.overlay)
    blocks += [Prose(f"Not in it: {', '.join(overlays)} ({reason}).") for reason, overlays in left.items()]
    return blocks


def next_sentence(study: TuningStudy) -> str:
    """Returns a sentence about the combination worth trying."""
    winners = study.table.next.overlays
    if not winners:
        return "No overlay has a benefit that is safe and proven, so there is no combination to try next."
    what = f"{' + '.join(winners)} together" if len(winners) > 1 else f"{winners[0]} once more"
    return f"To try next: {what}; `pgstrata study next` writes that campaign."


def _cell_text(study: TuningStudy, entry: StudyEntry) -> str:
    marks = ("~" if entry.between else "") + ("?" if entry.proven is False else "")
    why = ""
    if entry.cls == "ignored":
        why = " (unsafe)" if entry.overlay in study.table.unsafe else " (duplicate)"
    # Spaces that do not break: a mark on another line than its number says nothing.
    return "\u00a0".join(filter(None, (entry.overlay, numbers.ratio(entry.relative.ratio), marks))) + why
