"""An upgrade that was tried: a page that a team can decide by, the same in short, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pgstrata import numbers
from pgstrata.judge.alone import figures
from pgstrata.judge.compare import StepVerdict, compare_all
from pgstrata.judge.marks import Mark
from pgstrata.judge.statements import WEIGHTY, StatementVerdict
from pgstrata.page.blocks import Block, Facts, Finding, Findings, Listing, Prose, Section, Term
from pgstrata.page.charts import color
from pgstrata.page.results import RunSet, StepResults, anchor, read_results
from pgstrata.report.export_html import Switch
from pgstrata.report.sections.defaults import Defaults, changed_defaults, default_blocks
from pgstrata.report.sections.settings import not_taken
from pgstrata.report.sections.sizes import growth
from pgstrata.report.sections.statement_plans import both_plans
from pgstrata.report.write import write_page, write_report_of
from pgstrata.stats.criterion import Criterion
from pgstrata.store.choose import Side
from pgstrata.store.record import RunRecord, Sizes
from pgstrata.traffic.replay.blocks import (
    MARKS,
    ORDER,
    SAID,
    doubt,
    error_blocks,
    judged_table,
    left_out_rounds,
)
from pgstrata.traffic.replay.emptiness import emptiness_in, emptiness_table
from pgstrata.traffic.replay.gaps import Gap, gap_table, gaps
from pgstrata.traffic.replay.judged import Judged, judged, plans_of
from pgstrata.traffic.upgrade.tried import TriedUpgrade

Json = dict[str, Any]

MOST_NAMED = 5
"""Statements of each kind that the first screenful and the terminal name."""

MOST_SLOWER = 5
"""Bounds beyond this many times say nothing but that there were too few rounds."""

ADVICE = "Stop other programs and ask again with another --results, or take every round: --other-load 100%."

MOST_PLANS = 40
MOST_LETTERS = 100


@dataclass(frozen=True)
class Decision:
    """What an upgrade comes to. whole: of all statements together, by variant."""

    tried: TriedUpgrade
    results: RunSet
    step: StepResults
    whole: dict[str, StepVerdict]
    judged: dict[str, Judged]
    gaps: Sequence[Gap]
    defaults: Defaults | None

    @property
    def base(self) -> str:
        return self.results.base

    @cached_property
    def rounds(self) -> int:
        """How often the log was replayed on each."""
        return max((one.rounds for one in self.judged.values()), default=0)

    @property
    def exit_code(self) -> int:
        """As of `pgstrata check`: 1 where something fails in every round on a new version and in none on the
        old one, is proven slower, or a version could not be measured; 3 where something that weighs is not
        known; else 0."""
        words = [one.verdict.word for one in self.whole.values()]
        statements = [one for own in self.judged.values() for one in own.statements]
        slower = "slower" in words or any(one.verdict.word == "slower" for one in statements)
        fails = any(own.new_errors for own in self.judged.values())
        if slower or fails or self.tried.failed:
            return 1
        weighty = [one.verdict for one in statements if one.share >= WEIGHTY]
        weighty += [one.verdict for one in self.whole.values()]
        # Unclear between the same and faster is clear enough: slower is what it is not.
        open_ = [v for v in weighty if v.word == "unclear" and (v.aside or v.low <= 1 - v.margin)]
        return 3 if open_ else 0


def decide(tried: TriedUpgrade) -> Decision:
    """What the runs of a tried say. Raises StoreError where they cannot be read."""
    results = read_results(tried.runs, tried.campaign.name, tried.labels[0])
    (workload,) = results.workloads
    (step,) = workload.compared
    sides = {v: Side(v, tuple(r for r in results.runs if r.variant == v)) for v in results.variants}
    others = [sides[v] for v in results.others if sides[v].runs]
    compared = compare_all(sides[results.base], others, criterion=Criterion(tried.question.margin))
    found = judged(results, step)
    return Decision(
        tried,
        results,
        step,
        {one.other: verdict for one in compared for verdict in one.steps},
        found,
        gaps(results, step, found),
        changed_defaults(results),
    )


# --- the page ---------------------------------------------------------------------------------


def write_pages(decision: Decision) -> tuple[Path, Path]:
    """The page, and the whole report of the runs beside it. Raises StoreError."""
    folder = decision.tried.question.folder
    whole = write_report_of(decision.results, folder / "report")
    out = folder / "page"
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    results = decision.results
    write_page(
        title(decision),
        lede(decision),
        _sections(decision),
        out,
        run_count=len(results.runs),
        variants=[Switch(v, color(results.color(v)), v == results.base) for v in results.variants],
    )
    return out / "index.html", whole.html


def title(decision: Decision) -> str:
    """From which version to which."""
    return f"PostgreSQL {_version(decision, decision.base)} to " + " and ".join(
        _version(decision, variant) for variant in decision.results.others
    )


def _record(decision: Decision, variant: str) -> RunRecord | None:
    runs = decision.results.runs_of(variant)
    return runs[-1].record if runs else None


def _version(decision: Decision, variant: str) -> str:
    record = _record(decision, variant)
    return record.server.version if record is not None else variant


def lede(decision: Decision) -> str:
    """What was done, in a few sentences."""
    tried, header = decision.tried, decision.tried.header
    dumps = " and ".join(dump.name for dump in tried.question.dumps)
    asked = f"{numbers.count(header.statements)} statements of {numbers.count(header.sessions)} connections"
    if header.synthetic:
        source = f"{asked}, drawn from what the server has counted of them,"
    else:
        logs = ", ".join(log.name for log in tried.question.logs)
        source = f"what {logs} holds, {asked} in {numbers.duration((header.end - header.begin) / 1e6)},"
    times = "once" if decision.rounds == 1 else f"{decision.rounds} times"
    host = next((run.record.host.hostname for run in decision.results.runs), None)
    return (
        f"{dumps} was loaded into every version. Then {source} {'were' if header.synthetic else 'was'} asked "
        f"again {times} on each, in turns{f', on {host}' if host else ''}: each time is called a round. "
        f"Everything is compared with {decision.base}."
    )


def _sections(decision: Decision) -> list[Section]:
    base, results = decision.base, decision.results
    made = [Section("answer", "The answer", [*_answer(decision)])]
    for variant, own in decision.judged.items():
        made.append(
            Section(
                anchor("statements", variant),
                f"Statements on {variant}",
                [judged_table(base, own)],
            )
        )
    made.append(Section("plans", "Changed plans", [*_plan_blocks(decision)]))
    made.append(Section("errors", "New errors", error_blocks(base, decision.judged)))
    made.append(Section("defaults", "Settings whose default changed", [*_default_blocks(decision)]))
    if (refused := not_taken(results)) is not None:
        made.append(refused)
    grown = growth(results)
    if grown is not None:
        made.append(Section("sizes", "Sizes", [grown]))
    made.append(Section("gaps", "What this does not cover", [*_gap_blocks(decision)]))
    made.append(Section("how", "How it was measured", [*_how(decision)]))
    return made


def _answer(decision: Decision) -> Iterator[Block]:
    tried, results = decision.tried, decision.results
    for label, error in tried.failed.items():
        yield Prose(f"{label} could not be measured: {error}", "bad")
    found = []
    for variant, own in decision.judged.items():
        items = [*_failing(own)]
        for word in ORDER:
            statements = own.of(word)
            if not statements:
                continue
            where = anchor("statements", variant)
            named = [
                (_short(one.statement.text), numbers.longer(one.longer) if word != "unclear" else "", where)
                for one in statements[:MOST_NAMED]
            ]
            if len(statements) > MOST_NAMED:
                named.append((f"and {len(statements) - MOST_NAMED} more", "", where))
            share = numbers.significant(100 * own.share(word), 2)
            items.append((MARKS[word], f"{SAID[word]}: {len(statements)}, {share} % of the time", named))
        found.append(Finding(variant, results.color(variant), headline(decision, variant), items))
    yield Findings("", found)
    for variant, own in decision.judged.items():
        if own.left_out:
            yield Prose(f"{variant}: {left_out_rounds(own)}.", "even")
    yield Facts([*_facts(decision)])
    for note in tried.notes:
        yield Prose(note, "even")


def _failing(own: Judged) -> Iterator[tuple[Mark, str, list[tuple[str, str, str]]]]:
    """What fails on a version, before anything is said of time."""
    by_statement = dict.fromkeys(error.statement for error in own.new_errors)
    if not by_statement:
        return
    named = [(_short(one.text), "", "errors") for one in [*by_statement][:MOST_NAMED]]
    if len(by_statement) > MOST_NAMED:
        named.append((f"and {len(by_statement) - MOST_NAMED} more", "", "errors"))
    yield "bad", f"fails in every round: {len(by_statement)}", named


def headline(decision: Decision, variant: str) -> str:
    """What is to be known of a version first: what fails on it, then what is proven slower, or that nothing
    is."""
    failing = len({error.statement for error in decision.judged[variant].new_errors})
    fails = (
        f"{numbers.counted(failing, 'statement')} that {decision.base} executes "
        f"{'fails' if failing == 1 else 'fail'}. "
    )
    return (fails if failing else "") + _slower(decision, variant)


def _slower(decision: Decision, variant: str) -> str:
    own = decision.judged[variant]
    if own.disturbance:
        return f"Nothing is known of any statement, as the rounds were disturbed: {own.disturbance}. {ADVICE}"
    slower, unclear = own.of("slower"), [one for one in own.of("unclear") if one.share >= WEIGHTY]
    count = len(own.statements)
    if slower:
        said = f"{_of(len(slower), count)} proven slower"
    elif unclear:
        share = numbers.significant(100 * sum(one.base_share for one in unclear), 2)
        said = (
            f"no statement is proven slower; of {len(unclear)}, with {share} % of the time, it is not known"
            f"{_at_most(unclear)}"
        )
    else:
        said = "no statement that matters is slower"
    said = said[:1].upper() + said[1:] if own.new_errors else said
    return f"{said}. {together(decision, variant)}."


def _at_most(statements: Sequence[StatementVerdict]) -> str:
    """What can be said all the same: how slow they are at the most."""
    lows = [one.verdict.low for one in statements]
    if not 1 / MOST_SLOWER < min(lows) < 1 or any(one.verdict.aside for one in statements):
        return ""
    return f", but probably none takes {numbers.longer(1 / min(lows))} or more"


def together(decision: Decision, variant: str) -> str:
    """All statements as one, with what is proven of that."""
    found = decision.whole.get(variant)
    if found is None or found.verdict.ratio <= 0:
        return "All statements together cannot be compared"
    verdict = found.verdict
    longer = numbers.longer(1 / verdict.ratio)
    match verdict.word:
        case "unclear":
            return f"All statements together: {longer}, which is not proven"
        case "same":
            return "All statements together take the same time"
        case _:
            return f"All statements together take {longer}"


def _facts(decision: Decision) -> Iterator[Term]:
    for variant, own in decision.judged.items():
        on = f" on {variant}" if len(decision.judged) > 1 else ""
        plans = (
            f"{len(own.plans)} of {own.planned} statements" if own.planned else "no plan could be asked for"
        )
        yield Term(f"Changed plans{on}", plans)
        yield Term(f"New errors{on}", _counted_errors(own))
        if own.apart_errors:
            count = sum(error.count for error in own.apart_errors)
            said = f"{numbers.counted(count, 'time')}, of order or not in every round: told apart"
            yield Term(f"Other errors{on}", said)
    if decision.defaults is not None:
        yield Term("Settings with another default", str(len(decision.defaults.changed)))
    yield Term("Database on disk, all loaded", _sizes_said(decision))
    yield Term(
        "Not covered",
        f"{numbers.counted(len(decision.gaps), 'thing')}, listed below" if decision.gaps else "nothing known",
    )


def _counted_errors(own: Judged) -> str:
    if not own.new_errors:
        return "none"
    count = sum(error.count for error in own.new_errors)
    kinds = numbers.counted(len(own.new_errors), "kind")
    return f"{kinds}, {numbers.counted(count, 'time')} in {numbers.counted(own.rounds, 'round')}"


def _loaded(decision: Decision, variant: str) -> Sizes | None:
    record = _record(decision, variant)
    loads = [step for step in record.steps if step.group == "load"] if record is not None else []
    return loads[-1].sizes if loads else None


def _sizes_said(decision: Decision) -> str:
    said = []
    for variant in decision.results.variants:
        sizes = _loaded(decision, variant)
        said.append(f"{numbers.size(sizes.database_bytes if sizes is not None else None)} on {variant}")
    return ", ".join(said)


def _plan_blocks(decision: Decision) -> Iterator[Block]:
    base = decision.base
    here = {plan.name: plan for plan in plans_of(decision.step.by_variant[base])}
    shown = 0
    for variant, own in decision.judged.items():
        if not own.planned:
            yield Prose(f"No plan could be asked for on {variant}.", "even")
            continue
        if not own.plans:
            yield Prose(f"All {own.planned} statements that have a plan have the same one on {variant}.")
            continue
        yield Prose(
            "A plan is the way in which the server looks for the rows of a statement. On "
            f"{variant}, {_of(len(own.plans), own.planned)} executed in another way: other "
            f"indexes, joins or orders. Both ways stand side by side, {base} on the left; lines that differ "
            "have a mark. Seq Scan reads the whole table, an Index Scan only what an index points to. "
            "Another plan is not a worse one: the table above says how long it takes."
        )
        there = {plan.name: plan for plan in plans_of(decision.step.by_variant[variant])}
        by_name = {one.statement.name: one for one in own.statements}
        changed = sorted(own.plans, key=lambda name: _rank(by_name.get(name)))
        for name in changed:
            if shown == MOST_PLANS:
                yield Prose("More changed plans are in the whole report.", "even")
                return
            shown += 1
            one = by_name.get(name)
            said = (
                f"{SAID[one.verdict.word]}: {_short(one.statement.text)}" if one is not None else _short(name)
            )
            both = {base: here[name], variant: there[name]}
            yield both_plans(said, both, base, variant, open=shown <= 3)


def _of(part: int, whole: int) -> str:
    return f"{part} of {whole} statements {'is' if part == 1 else 'are'}"


def _rank(one: StatementVerdict | None) -> tuple[int, float]:
    return (9, 0.0) if one is None else (ORDER.index(one.verdict.word), -one.share)


def _default_blocks(decision: Decision) -> Iterator[Block]:
    if decision.defaults is None or not (decision.defaults.changed or decision.defaults.only):
        yield Prose("Every setting begins with the same value.")
        return
    yield from default_blocks(decision.results, decision.defaults)


def _gap_blocks(decision: Decision) -> Iterator[Block]:
    yield Prose(
        "Nothing was looked at but how these statements do on this data: not the upgrade itself (pg_upgrade, "
        "downtime), not backups, replicas and jobs that are not in the log, and not other machines. Here the "
        "data is freshly loaded, and most of it in memory after the first statements: a database that has "
        "grown for years, is larger than its memory, or has many more users at a time may do otherwise."
    )
    if decision.gaps:
        yield gap_table(decision.gaps)
    if (without := emptiness_table(emptiness_in(decision.step))) is not None:
        yield without
    for text, names in decision.tried.servers.lacking.items():
        yield Prose(f"PostgreSQL {text} was left out: it lacks {', '.join(names)}.", "bad")


def _how(decision: Decision) -> Iterator[Block]:
    tried = decision.tried
    question = tried.question
    pace = (
        "as fast as answers came"
        if not question.speed
        else "at the pace of the original"
        if question.speed == 1
        else f"at {numbers.significant(question.speed)} times the pace of the original"
    )
    margin = f"{100 * question.margin:.3g} %"
    yield Prose(
        f"Every version got the same data, then ANALYZE, and before each round a fresh copy of it. A round "
        f"is all of it once, {pace}, on as many connections as there were. The versions took turns, so "
        f"that what else this machine did hit them alike. Differences below {margin} count as none."
    )
    yield Prose(
        "Slower, faster and the same are proven: among all statements that are called slower or faster, at "
        "most one in twenty is so by chance. Not known means that these rounds cannot tell, and more may "
        "(--minutes, --rounds)."
    )
    yield Prose(_alone(decision))
    yield Prose(
        f"All versions ran with the configuration {question.config}. Your own makes it yours: --config "
        "FILE.conf. The whole report of the runs, with response times and the machine, lies beside this "
        "page, in report/index.html."
    )
    yield Listing("Files", "\n".join(str(path) for path in (*question.dumps, *question.logs)))


def _alone(decision: Decision) -> str:
    text = (
        "A statement may be slower because others, which are slower, hold what it needs: so each that the "
        "rounds called slower or faster was executed alone after them, on the data that a round begins with "
        "and with values of the log; what may change rows was rolled back, which leaves out the time of its "
        "commit. Only where it is so alone, too, it is called slower or faster."
    )
    records = [
        m.record.alone
        for own in decision.step.by_variant.values()
        for m in own.repeats
        if m.record.alone is not None
    ]
    if not records:
        return "No statement was executed alone: one that is slower may be so because of others beside it."
    names = {one.name for record in records for one in record.statements}
    executed = {one.name for record in records for one in record.statements if one.slices}
    limit = max(record.budget_seconds for record in records)
    return (
        f"{text} {len(executed)} of {numbers.counted(len(names), 'statement')} were executed so, in "
        f"{numbers.duration(max(record.seconds for record in records))} (at most "
        f"{max(record.most_statements for record in records)} statements and {numbers.duration(limit)})."
    )


def _short(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"


# --- the same in short ------------------------------------------------------------------------


def text(decision: Decision) -> str:
    """For a terminal."""
    lines = [title(decision), lede(decision), ""]
    for label, error in decision.tried.failed.items():
        lines += [f"{label} could not be measured: {error}", ""]
    for variant, own in decision.judged.items():
        lines.append(f"{variant}: {headline(decision, variant)}")
        if own.left_out:
            lines.append(f"  {left_out_rounds(own)}")
        lines += [
            f"  fails, {numbers.counted(new.count, 'time')}: {new.message} ({_short(new.statement.text)})"
            for new in own.new_errors[:MOST_NAMED]
        ]
        for word in ORDER:
            statements = own.of(word)
            if not statements:
                continue
            share = numbers.significant(100 * own.share(word), 2)
            lines.append(f"  {SAID[word]}: {len(statements)}, {share} % of the time on {decision.base}")
            # What is the same, or not known, is a list for the page; but for what differs beside others only.
            statements = [one for one in statements if word in ("slower", "faster") or one.alone is not None]
            if statements:
                lines += [f"    {line}" for one in statements[:MOST_NAMED] for line in _lines(one, own)]
                if len(statements) > MOST_NAMED:
                    lines.append(f"    and {len(statements) - MOST_NAMED} more")
    lines.append("")
    lines += [f"{term.name}: {term.value}" for term in _facts(decision)]
    if decision.gaps:
        lines += ["", "not covered:"]
        for gap in decision.gaps:
            details = [numbers.counted(gap.count, "statement")] if gap.count is not None else []
            details += (
                [f"{numbers.significant(100 * gap.share, 2)} % of the time"] if gap.share is not None else []
            )
            lines.append(f"  {gap.what}" + (f" ({', '.join(details)})" if details else ""))
    lines += [f"note: {note}" for note in decision.tried.notes]
    return "\n".join(lines) + "\n"


def _lines(one: StatementVerdict, own: Judged) -> Iterator[str]:
    each = f"{numbers.milliseconds(one.base.mean)} → {numbers.milliseconds(one.other.mean)} ms"
    plan = ", another plan" if one.statement.name in own.plans else ""
    if not one.verdict.decided:
        yield f"{one.verdict.reason}: {_short(one.statement.text)}"
        return
    alone = one.alone.verdict if one.alone is not None else None
    beside = f"; alone {figures(alone)}" if alone is not None else ""
    yield f"{numbers.longer(one.longer)} ({each}{plan}{beside}): {_short(one.statement.text)}"


def record(decision: Decision, page: Path, report: Path) -> Json:
    """As JSON can hold it."""
    defaults = decision.defaults
    return {
        "from": {"label": decision.base, "version": _version(decision, decision.base)},
        "to": [
            {
                "label": variant,
                "version": _version(decision, variant),
                "said": headline(decision, variant),
                "whole": decision.whole[variant].record() if variant in decision.whole else None,
                "rounds": own.rounds,
                "rounds_left_out": own.left_out,
                "disturbance": own.disturbance,
                "statements": [_statement(one, own) for word in ORDER for one in own.of(word)],
                "new_errors": [error.record() for error in own.new_errors],
                "gone_errors": [error.record() for error in own.gone_errors],
                "apart_errors": [error.record() for error in own.apart_errors],
            }
            for variant, own in decision.judged.items()
        ],
        "failed": dict(decision.tried.failed),
        "left_out": {text: list(names) for text, names in decision.tried.servers.lacking.items()},
        "settings": [{"name": one.name, "defaults": dict(one.values)} for one in defaults.changed]
        if defaults is not None
        else [],
        "settings_of_one": {v: list(names) for v, names in defaults.only.items()}
        if defaults is not None
        else {},
        "sizes": {
            variant: {
                "loaded": _bytes(_loaded(decision, variant)),
                "end": _bytes(one.sizes if (one := _record(decision, variant)) is not None else None),
            }
            for variant in decision.results.variants
        },
        "not_covered": [vars(gap) for gap in decision.gaps],
        "notes": list(decision.tried.notes),
        "page": str(page),
        "report": str(report),
    }


def _statement(one: StatementVerdict, own: Judged) -> Json:
    return {
        "statement": one.statement.text,
        **one.verdict.record(),
        "longer": one.longer,
        "base_share": one.base_share,
        "share": one.other_share,
        "base_seconds": one.base.mean,
        "seconds": one.other.mean,
        "calls": one.other.calls,
        "rounds": one.rounds,
        "plan_changed": one.statement.name in own.plans,
        "alone": None
        if one.alone is None
        else {
            "verdict": one.alone.verdict.record() if one.alone.verdict is not None else None,
            "reason": one.alone.reason,
        },
        "doubt": doubt(one) if one.verdict.word == "unclear" else "",
    }


def _bytes(sizes: Sizes | None) -> Json | None:
    if sizes is None:
        return None
    return {
        "database": sizes.database_bytes,
        "tables": sum(t.table_bytes for t in sizes.tables.values()),
        "indexes": sum(t.index_bytes for t in sizes.tables.values()),
    }


__all__ = ["Decision", "decide", "headline", "lede", "record", "text", "title", "write_pages"]
