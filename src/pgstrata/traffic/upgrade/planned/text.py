"""Plans that were compared without data, in short: for a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from pgstrata.traffic.upgrade.planned.asked import AskedStatement
from pgstrata.traffic.upgrade.planned.outcome import Changed, PlannedUpgrade, PlannedVersion
from pgstrata.traffic.upgrade.planned.page import (
    NOT_SAID,
    PROOF,
    costs,
    facts,
    lede,
    percent,
    said,
    title,
)
from pgstrata.traffic.upgrade.sections import shortened

MOST_NAMED = 10

Json = dict[str, Any]


def planned_text(planned: PlannedUpgrade, proof: str) -> str:
    """Returns the comparison of plans as text for a terminal. proof: the command that measures."""
    lines = [title(planned), ""]
    for target in planned.versions:
        lines += [f"{target.label}: {said(planned, target)}", *_of_version(planned, target)]
    lines += ["", NOT_SAID, f"{PROOF}:", f"  {proof}", "", lede(planned)]
    lines += [f"{term.name}: {term.value}" for term in facts(planned)]
    for one in planned.servers:
        missing = one.restored.missing[:MOST_NAMED]
        lines += [f"  not restored on {one.label}: {m.what}: {m.why}" for m in missing]
    lines += [f"note: {note}" for note in planned.notes]
    return "\n".join(lines) + "\n"


def _of_version(planned: PlannedUpgrade, target: PlannedVersion) -> Iterator[str]:
    share = planned.asked.share
    for one, why in target.refused[:MOST_NAMED]:
        yield f"  refused, {percent(share(one))}: {why} ({shortened(one.text)})"
    for changed in target.changed[:MOST_NAMED]:
        part, text = percent(share(changed.statement)), shortened(changed.statement.text)
        yield f"  another plan, {part}, cost {costs(changed)}: {text}"
        yield from (f"      {ours or '-'}  ◆  {theirs or '-'}" for ours, theirs in changed.lines[:3])
    more = len(target.changed) - MOST_NAMED
    if more > 0:
        yield f"  and {more:,} more on the page"


def planned_record(planned: PlannedUpgrade, page: Path, proof: str) -> Json:
    """Returns the comparison of plans as JSON: the answer first."""
    old, *_ = planned.servers
    return {
        "answer": {one.label: "do not go yet" if one.refused else "cannot tell" for one in planned.versions},
        "from": {"label": old.label, "version": old.server.version},
        "to": [_version(planned, one) for one in planned.versions],
        "share_of": planned.asked.of,
        "statistics": {one.label: msgspec.to_builtins(one.restored) for one in planned.servers},
        "definitions_refused": {one.label: dict(one.definitions_refused) for one in planned.servers},
        "proof": proof,
        "notes": list(planned.notes),
        "page": str(page),
    }


def _version(planned: PlannedUpgrade, target: PlannedVersion) -> Json:
    def named(one: AskedStatement, **more: object) -> Json:
        return {"statement": one.text, "share": planned.asked.share(one), "calls": one.calls, **more}

    def changed(one: Changed) -> Json:
        base_cost, cost = one.costs
        return named(
            one.statement,
            kind=one.other.kind,
            base_cost=base_cost,
            cost=cost,
            differences=[list(pair) for pair in one.lines],
            base_plan=one.base.plan,
            plan=one.other.plan,
        )

    return {
        "label": target.label,
        "version": target.server.version,
        "said": said(planned, target),
        "changed": [changed(one) for one in target.changed],
        "same": [named(one) for one in target.same],
        "refused": [named(one, why=why) for one, why in target.refused],
        "not_planned": [named(one, why=why) for one, why in target.unknown],
    }


__all__ = ["planned_record", "planned_text"]
