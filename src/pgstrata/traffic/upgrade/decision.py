"""What an upgrade that was tried comes to: its runs judged, its checklist, and the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from pgstrata.judge.compare import StepVerdict, compare_all
from pgstrata.judge.disturbance import other_load
from pgstrata.judge.statements import WEIGHTY
from pgstrata.page.results import RunSet, StepResults, read_results
from pgstrata.report.sections.defaults import Defaults, changed_defaults
from pgstrata.stats.criterion import Criterion
from pgstrata.store.choose import Side
from pgstrata.store.record import RunRecord, Sizes
from pgstrata.store.statement import Statement
from pgstrata.traffic.captured import Captured, name_of
from pgstrata.traffic.replay.gaps import Gap, gaps
from pgstrata.traffic.replay.judged import Judged, judged, replays_of
from pgstrata.traffic.replay.steps import database_of
from pgstrata.traffic.upgrade.answer import Answer, Evidence, answer
from pgstrata.traffic.upgrade.checklist.changes import crossed
from pgstrata.traffic.upgrade.checklist.lines import lines
from pgstrata.traffic.upgrade.checklist.model import REFUSED_STATEMENTS, Line, Material
from pgstrata.traffic.upgrade.checklist.rehearsal import first_of_each
from pgstrata.traffic.upgrade.differing import DifferingRows, differing_rows
from pgstrata.traffic.upgrade.settle import Settling, seconds_of_round, settling, undecided
from pgstrata.traffic.upgrade.tried import TriedUpgrade
from pgstrata.workload.custom.contents import digest_of
from pgstrata.workload.custom.files import read
from pgstrata.workload.custom.setup import definitions
from pgstrata.workload.custom.sql import SqlStatement

ROUTINE = frozenset(("analyze",))
"""Lines that every upgrade has: they are no change."""

NOT_REPLAYED = ("Not replayed: ", "left out: ")
"""How gaps begin that count as time of the log that was not replayed."""


@dataclass(frozen=True)
class Measured:
    """The runs, judged. whole: of all statements together, by variant."""

    results: RunSet
    step: StepResults
    whole: Mapping[str, StepVerdict]
    judged: Mapping[str, Judged]
    gaps: Sequence[Gap]
    defaults: Defaults | None
    differing: Mapping[str, Sequence[DifferingRows]]

    @cached_property
    def rounds(self) -> int:
        """How often the log was replayed on each."""
        return max((judged.rounds for judged in self.judged.values()), default=0)

    @cached_property
    def round_seconds(self) -> float:
        """Of one round of all versions together, by the clock."""
        base = self.step.by_variant[self.results.base]
        return seconds_of_round(base.repeats[-1].record.slices, len(self.step.by_variant))[0]

    @property
    def other_load(self) -> float:
        """The most that other programs used of the CPUs beside a replay, 0 to 1."""
        return other_load(
            measured.record for repeats in self.step.by_variant.values() for measured in repeats.repeats
        )

    @property
    def lag(self) -> float:
        """Seconds by which one statement in a hundred was sent late, or more, on the worst side."""
        late = [
            replay.lateness.p99 for repeats in self.step.by_variant.values() for replay in replays_of(repeats)
        ]
        return max(late, default=0.0)

    def record(self, variant: str) -> RunRecord | None:
        """Returns the record of the last run of a variant; None if there is none."""
        runs = self.results.runs_of(variant)
        return runs[-1].record if runs else None

    def loaded(self, variant: str) -> Sizes | None:
        """Returns the sizes when all was loaded."""
        record = self.record(variant)
        loads = [step for step in record.steps if step.group == "load"] if record is not None else []
        return loads[-1].sizes if loads else None


@dataclass(frozen=True)
class Decision:
    """What an upgrade comes to. measured: None where no new version could be; checklists, answers, settlings:
    by label of the new versions."""

    tried: TriedUpgrade
    measured: Measured | None
    checklists: Mapping[str, Sequence[Line]]
    answers: Mapping[str, Answer]
    settlings: Mapping[str, Settling]

    @property
    def base(self) -> str:
        return self.tried.labels[0]

    @property
    def targets(self) -> Sequence[str]:
        """Labels of the new versions."""
        return self.tried.labels[1:]

    @property
    def judged(self) -> Mapping[str, Judged]:
        """By label of those new versions that were measured."""
        return self.measured.judged if self.measured is not None else {}

    @property
    def exit_code(self) -> int:
        """1 where something fails, is refused or proven slower on a new version, or one could not be
        measured; 3 where it cannot be told; else 0."""
        words = [answer.word for answer in self.answers.values()]
        slower = any(
            statement.verdict.word == "slower"
            for judged in self.judged.values()
            for statement in judged.statements
        )
        if "do not go yet" in words or slower or self.tried.failed:
            return 1
        return 3 if "cannot tell" in words else 0


def decide(tried: TriedUpgrade) -> Decision:
    """Judges what was measured and writes the checklist. Raises StoreError where runs cannot be read."""
    measured = _measured(tried) if tried.measured else None
    checklists = _checklists(tried, measured)
    evidence = {label: _evidence(tried, measured, label, checklists.get(label)) for label in tried.labels[1:]}
    settlings = {
        label: settled
        for label, judged in (measured.judged.items() if measured is not None else ())
        if measured is not None and (settled := settling(judged, measured.round_seconds)) is not None
    }
    return Decision(
        tried,
        measured,
        checklists,
        {label: answer(of_label) for label, of_label in evidence.items()},
        settlings,
    )


def _measured(tried: TriedUpgrade) -> Measured:
    results = read_results(tried.runs, tried.campaign.name, tried.labels[0])
    (workload,) = results.workloads
    (step,) = workload.compared
    sides = {v: Side(v, tuple(r for r in results.runs if r.variant == v)) for v in results.variants}
    others = [sides[v] for v in results.others if sides[v].runs]
    compared = compare_all(sides[results.base], others, criterion=Criterion(tried.question.margin))
    by_variant = judged(results, step)
    return Measured(
        results,
        step,
        {comparison.other: verdict for comparison in compared for verdict in comparison.steps},
        by_variant,
        gaps(results, step, by_variant),
        changed_defaults(results),
        {
            variant: [
                rows
                for rows in differing_rows(step, results.base, variant)
                if rows.statement not in of_variant.answers.varying
            ]
            for variant, of_variant in by_variant.items()
        },
    )


def _checklists(tried: TriedUpgrade, measured: Measured | None) -> dict[str, Sequence[Line]]:
    rehearsal = tried.rehearsal
    if rehearsal is None:
        return {}
    sources = [read(dump, digest_of(dump)) for dump in tried.question.dumps]
    texts = [
        item.text
        for source in sources
        for item in source.items
        if isinstance(item, SqlStatement) and item.text[:6].upper() != "INSERT"
    ]
    confinement, _ = definitions(tried.load_options, tried.servers.base.features)
    left_out = [f"{omission.what}: {omission.why}" for omission in confinement.left_out]
    statements = first_of_each(tried.whole, _database(tried))
    with Captured(tried.whole) as captured:
        shapes = captured.header.shapes
    names = {number: Statement(number, name_of(number, shapes[number].text)).text for number in statements}
    by_label = dict(zip(tried.labels[1:], tried.servers.targets, strict=True))
    checklists: dict[str, Sequence[Line]] = {}
    for label in rehearsal.new:
        record = measured.record(label) if measured is not None else None
        loaded, was = ((measured.loaded(v) if measured else None) for v in (label, tried.labels[0]))
        _, server = by_label[label]
        checklists[label] = lines(
            Material(
                rehearsal,
                label,
                crossed(tried.servers.base.version_num, server.version_num),
                texts,
                statements,
                names,
                tried.settings,
                left_out,
                loaded.database_bytes if loaded is not None else None,
                was.database_bytes if was is not None else None,
                record.timings.get("analyze") if record is not None else None,
            )
        )
    return checklists


def _database(tried: TriedUpgrade) -> str:
    return database_of(tried.campaign.workloads[0].options, tried.header).name


def _evidence(
    tried: TriedUpgrade, measured: Measured | None, label: str, checklist: Sequence[Line] | None
) -> Evidence:
    lines_of = checklist or ()
    judged_label = measured.judged.get(label) if measured is not None else None
    failing, refused = fails(judged_label, lines_of)
    common = {
        "refused": sum(refused_line.count for refused_line in refused),
        "unanswered": sum(line.state == "unknown" for line in lines_of),
        "unchecked": tried.unchecked,
        "changes": sum(line.must and line.id not in ROUTINE for line in lines_of),
    }
    if measured is None or label not in measured.judged:
        why = tried.failed.get(label, "")
        if not why and tried.question.checklist_only:
            return Evidence(**common, not_replayed=1.0)  # type: ignore[arg-type]
        return Evidence(**common, unmeasured=why or "there are no runs of it")  # type: ignore[arg-type]
    judged = measured.judged[label]
    slower = judged.of("slower")
    weighty = [statement_verdict for statement_verdict in slower if statement_verdict.share >= WEIGHTY]
    open_ = [
        statement_verdict
        for statement_verdict in undecided(judged)
        if statement_verdict.statement.text not in failing
    ]
    whole = measured.whole.get(label)
    return Evidence(
        **common,  # type: ignore[arg-type]
        failing=len(failing),
        slower=len(weighty),
        slower_share=sum(statement_verdict.base_share for statement_verdict in weighty),
        remedied=sum(
            statement_verdict.cause is not None and statement_verdict.cause.remedy is not None
            for statement_verdict in weighty
        ),
        slower_light=len(slower) - len(weighty),
        whole_slower=whole is not None and whole.verdict.word == "slower",
        changed=len(judged.answers.changed),
        answers=len(other_rows(measured, label)),
        unknown=len(open_),
        unknown_share=sum(statement_verdict.base_share for statement_verdict in open_),
        disturbed=judged.disturbance,
        not_replayed=sum(gap.share or 0.0 for gap in measured.gaps if gap.what.startswith(NOT_REPLAYED)),
    )


def other_rows(measured: Measured, label: str) -> Sequence[DifferingRows]:
    """Returns the statements with another number of rows on a version whose answers on the same data are not
    known to be others: those stand by themselves."""
    changed = measured.judged[label].answers.changed if label in measured.judged else ()
    return [rows for rows in measured.differing.get(label, ()) if rows.statement not in changed]


def fails(judged: Judged | None, checklist: Sequence[Line]) -> tuple[list[str], list[Line]]:
    """Returns what fails on a new version, each once: texts of the statements that failed in the replay, and
    the lines of what is refused besides."""
    errors = judged.new_errors if judged is not None else ()
    failing = [*dict.fromkeys(error.statement.text for error in errors)]
    refused = []
    for line in checklist:
        if line.state != "fails":
            continue
        objects = line.objects
        if line.id == REFUSED_STATEMENTS:
            objects = [
                entry for entry in objects if not any(entry.startswith(f"{text}: ") for text in failing)
            ]
        if count := line.count - (len(line.objects) - len(objects)):
            refused.append(msgspec.structs.replace(line, objects=objects, count=count))
    return failing, refused


__all__ = ["Decision", "Measured", "decide", "fails", "other_rows"]
