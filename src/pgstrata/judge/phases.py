"""In which part of the server the cost of an operation is: parsing, planning, execution, an index;
and in which source file.

A function belongs to the part whose entry it is, another one to the parts that called it, in proportion to
what their calls cost. So the parts of a step make up all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pgstrata.judge.functions import Cost

ENTRIES: Mapping[str, tuple[str, ...]] = {
    "parse": ("pg_parse_query", "raw_parser"),
    "analyse and rewrite": (
        *("pg_analyze_and_rewrite", "pg_analyze_and_rewrite_params", "pg_analyze_and_rewrite_fixedparams"),
        *("pg_analyze_and_rewrite_varparams", "pg_analyze_and_rewrite_withcb", "pg_rewrite_query"),
        *("parse_analyze", "parse_analyze_fixedparams", "parse_analyze_varparams"),
    ),
    "plan": ("pg_plan_queries", "pg_plan_query", "planner", "standard_planner", "GetCachedPlan"),
    "begin and end of execution": (
        *("ExecutorStart", "standard_ExecutorStart", "ExecutorFinish", "standard_ExecutorFinish"),
        *("ExecutorEnd", "standard_ExecutorEnd", "PortalStart", "PortalDrop", "CreateQueryDesc"),
    ),
    "execution": ("PortalRun", "ExecutorRun", "standard_ExecutorRun", "ProcessUtility"),
    "index": (
        *("index_beginscan", "index_rescan", "index_getnext", "index_getnext_tid", "index_getnext_slot"),
        *("index_getbitmap", "index_endscan", "index_insert", "btgettuple", "btgetbitmap", "btinsert"),
        *("btbeginscan", "btrescan", "btendscan", "ExecInsertIndexTuples"),
    ),
    "table": (
        *("heap_getnext", "heap_getnextslot", "heapgettup_pagemode", "heapam_index_fetch_tuple"),
        *("heap_hot_search_buffer", "heap_fetch", "heap_insert", "heap_multi_insert", "heap_update"),
        *("heap_delete", "heap_lock_tuple", "heap_page_prune_opt", "table_tuple_insert"),
    ),
    "buffers": (
        *("ReadBuffer", "ReadBufferExtended", "ReadBuffer_common", "ReleaseAndReadBuffer", "ReleaseBuffer"),
        *("UnlockReleaseBuffer", "LockBuffer", "MarkBufferDirty", "StartReadBuffer", "StartReadBuffers"),
        *("WaitReadBuffers", "read_stream_next_buffer", "ConditionalLockBuffer"),
    ),
    "locks": (
        *("LockAcquire", "LockAcquireExtended", "LockRelease", "LockReleaseAll", "LockRelationOid"),
        *("AcquireExecutorLocks", "ResourceOwnerRelease"),
    ),
    "snapshot": ("GetTransactionSnapshot", "GetSnapshotData", "PushActiveSnapshot", "PopActiveSnapshot"),
    "WAL": ("XLogInsert", "XLogInsertRecord", "XLogFlush", "XLogBeginInsert", "XLogRegisterData"),
    "transaction": ("StartTransactionCommand", "CommitTransactionCommand", "finish_xact_command"),
    "answer": ("printtup", "printtup_startup", "EndCommand", "SendRowDescriptionMessage", "ReadyForQuery"),
}
"""Parts of the server, with the functions of PostgreSQL 9.6 to 19 by which they are entered."""

REST = "message loop and rest"
"""The part of what no entry has called."""

_PART_OF = {function: part for part, functions in ENTRIES.items() for function in functions}
LEAST_SHARE = 0.0005
"""Of the base's instructions, from which a change of a part is named or has a colour: starts differ by
less."""

_ROUNDS = 60
_CLOSE = 1e-6


@dataclass(frozen=True)
class PartChange:
    """Cost of an operation in a part of the server or a source file, before and after. share: of the base's,
    more."""

    part: str
    before: float
    after: float
    share: float


def part_of_stack(frames: Sequence[str]) -> str:
    """Returns the part that a stack is in, by the innermost of its frames (outermost first) that enters
    one."""
    return next((_PART_OF[frame] for frame in reversed(frames) if frame in _PART_OF), REST)


def by_part(side: Cost) -> dict[str, float]:
    """Returns the cost of an operation in each part that has some, together all of it."""
    shares: dict[str, dict[str, float]] = {}
    names = {*side.of, *side.callers}
    for name in names:
        shares[name] = {_PART_OF.get(name, REST): 1.0}
    inner = [name for name in names if name not in _PART_OF and sum(side.callers.get(name, {}).values()) > 0]
    for _ in range(_ROUNDS):
        moved = 0.0
        for name in inner:
            of_callers: dict[str, float] = {}
            whole = sum(side.callers[name].values())
            for caller, cost in side.callers[name].items():
                for part, share in shares.get(caller, {_PART_OF.get(caller, REST): 1.0}).items():
                    of_callers[part] = of_callers.get(part, 0.0) + share * cost / whole
            old = shares[name]
            moved = max(moved, *(abs(of_callers.get(p, 0.0) - old.get(p, 0.0)) for p in {*of_callers, *old}))
            shares[name] = of_callers
        if moved < _CLOSE:
            break
    parts: dict[str, float] = {}
    for name, cost in side.of.items():
        for part, share in shares[name].items():
            parts[part] = parts.get(part, 0.0) + cost * share
    return {part: parts[part] for part in (*ENTRIES, REST) if parts.get(part, 0.0) > 0}


def part_changes(base: Cost, other: Cost) -> list[PartChange]:
    """Returns all parts, in the order in which a statement meets them; together they are the difference."""
    before, after = by_part(base), by_part(other)
    return _changes((*ENTRIES, REST), before, after)


def file_changes(base: Cost, other: Cost) -> list[PartChange]:
    """Returns all source files, the largest change first; together they are the difference. None where the
    files of a side are not known.

    Inlined code counts for the file that it stands in. What moved to another file is a change of both.
    """
    if not base.files or not other.files:
        return []
    changes = _changes(list({**base.files, **other.files}), base.files, other.files)
    return sorted(changes, key=lambda change: (-abs(change.share), change.part))


def _changes(
    parts: Iterable[str], before: Mapping[str, float], after: Mapping[str, float]
) -> list[PartChange]:
    whole = sum(before.values()) or 1.0
    return [
        PartChange(part, old, new, (new - old) / whole)
        for part in parts
        if (old := before.get(part, 0.0)) + (new := after.get(part, 0.0)) > 0
    ]


__all__ = [
    "ENTRIES",
    "LEAST_SHARE",
    "REST",
    "PartChange",
    "by_part",
    "file_changes",
    "part_changes",
    "part_of_stack",
]
