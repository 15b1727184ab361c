"""Plans that were compared without data, in short: for a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast

import msgspec

from pgstrata.traffic.replay.blocks import shortened
from pgstrata.traffic.upgrade.planned.asked import AskedStatement
from pgstrata.traffic.upgrade.planned.outcome import Changed, PlannedUpgrade, PlannedVersion
from pgstrata.traffic.upgrade.planned.page import (
    NOT_SAID,
    PROOF,
    answer_sentence,
    costs,
    facts,
    lede,
    percent,
    title,
)
from pgstrata.traffic.upgrade.text import FromRecord, LabelRecord

MOST_NAMED = 10

Json = dict[str, Any]


def planned_text(planned: PlannedUpgrade, proof: str) -> str:
    """Returns the comparison of plans as text for a terminal. proof: the command that measures."""
    lines = [title(planned), ""]
    for target in planned.versions:
        lines += [f"{target.label}: {answer_sentence(planned, target)}", *_of_version(planned, target)]
    lines += ["", NOT_SAID, f"{PROOF}:", f"  {proof}", "", lede(planned)]
    lines += [f"{term.name}: {term.value}" for term in facts(planned)]
    for server in planned.servers:
        missing = server.restored.missing[:MOST_NAMED]
        lines += [f"  not restored on {server.label}: {m.what}: {m.why}" for m in missing]
    lines += [f"note: {note}" for note in planned.notes]
    return "\n".join(lines) + "\n"


def _of_version(planned: PlannedUpgrade, target: PlannedVersion) -> Iterator[str]:
    share = planned.asked.share
    for statement, why in target.refused[:MOST_NAMED]:
        yield f"  refused, {percent(share(statement))}: {why} ({shortened(statement.text)})"
    for changed in target.changed[:MOST_NAMED]:
        part, text = percent(share(changed.statement)), shortened(changed.statement.text)
        yield f"  another plan, {part}, cost {costs(changed)}: {text}"
        yield from (f"      {ours or '-'}  ◆  {theirs or '-'}" for ours, theirs in changed.lines[:3])
    more = len(target.changed) - MOST_NAMED
    if more > 0:
        yield f"  and {more:,} more on the page"


class PlannedStatementRecord(TypedDict):
    """A statement as JSON. why: of one that is refused or not planned; the rest of one whose plan changed."""

    statement: str
    share: float
    calls: float
    why: NotRequired[str]
    kind: NotRequired[str]
    base_cost: NotRequired[float]
    cost: NotRequired[float]
    differences: NotRequired[list[list[str]]]
    base_plan: NotRequired[Any]
    plan: NotRequired[Any]


class PlannedVersionRecord(LabelRecord):
    """What a version makes of the statements, as JSON."""

    said: str
    changed: list[PlannedStatementRecord]
    same: list[PlannedStatementRecord]
    refused: list[PlannedStatementRecord]
    not_planned: list[PlannedStatementRecord]


class PlannedUpgradeRecord(FromRecord):
    """A comparison of plans as JSON."""

    answer: dict[str, str]
    to: list[PlannedVersionRecord]
    share_of: str
    statistics: dict[str, Any]
    definitions_refused: dict[str, dict[str, str]]
    proof: str
    notes: list[str]
    page: str


def planned_record(planned: PlannedUpgrade, page: Path, proof: str) -> PlannedUpgradeRecord:
    """Returns the comparison of plans as JSON: the answer first."""
    old, *_ = planned.servers
    return {
        "answer": {
            version.label: "do not go yet" if version.refused else "cannot tell"
            for version in planned.versions
        },
        "from": {"label": old.label, "version": old.server.version},
        "to": [_version(planned, version) for version in planned.versions],
        "share_of": planned.asked.of,
        "statistics": {server.label: msgspec.to_builtins(server.restored) for server in planned.servers},
        "definitions_refused": {server.label: dict(server.definitions_refused) for server in planned.servers},
        "proof": proof,
        "notes": list(planned.notes),
        "page": str(page),
    }


def _version(planned: PlannedUpgrade, target: PlannedVersion) -> PlannedVersionRecord:
    def named(asked_statement: AskedStatement, **more: object) -> PlannedStatementRecord:
        record: Json = {
            "statement": asked_statement.text,
            "share": planned.asked.share(asked_statement),
            "calls": asked_statement.calls,
            **more,
        }
        return cast(PlannedStatementRecord, record)

    def changed(change: Changed) -> PlannedStatementRecord:
        base_cost, cost = change.costs
        return named(
            change.statement,
            kind=change.other.kind,
            base_cost=base_cost,
            cost=cost,
            differences=[list(pair) for pair in change.lines],
            base_plan=change.base.plan,
            plan=change.other.plan,
        )

    return {
        "label": target.label,
        "version": target.server.version,
        "said": answer_sentence(planned, target),
        "changed": [changed(change) for change in target.changed],
        "same": [named(statement) for statement in target.same],
        "refused": [named(statement, why=why) for statement, why in target.refused],
        "not_planned": [named(statement, why=why) for statement, why in target.unknown],
    }


__all__ = ["planned_record", "planned_text"]
