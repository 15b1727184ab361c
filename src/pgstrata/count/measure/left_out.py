"""Which instructions of an operation are left out of its verdict, because time decides whether they run.

Everything that runs at every operation is judged. Left out, with all that it calls, is

- reading from the client's socket and writing to it (`WAITS`): whether the backend has to wait there depends
  on how quick the client is, and waiting is another path;
- what a backend does when it reports its statistics, at most once a second (`REPORTS`). The reporting
  function is entered after each transaction and looks at the clock: that is judged. The marks of a step
  (`marks`) show what such a call costs: they are too close to each other for two reports;
- what follows from a report (`AFTER_REPORTS`), from signals and timers (`SIGNALS`), and preparing pages of
  the WAL buffers (`WAL_PAGES`), which the WAL writer does ahead of the backend whenever its clock wakes it.

The left-out part is stored and shown beside the verdict, and a difference in it forbids the word "same"
(`pgstrata.count.verdicts`).
"""

from __future__ import annotations

from collections.abc import Collection

from pgstrata.count.measure.callgrind import Asking, CallGraph, Key

REPORTS = frozenset({"pgstat_report_stat", "pgstat_report_tabstat"})
"""Functions that are called after each transaction and report statistics if the last report is a second
old."""

WAITS = frozenset({"secure_read", "secure_write"})

SIGNALS = frozenset(
    {"handle_sig_alarm", "procsignal_sigusr1_handler", "ProcessConfigFile", "ProcessCatchupInterrupt"}
)

AFTER_REPORTS = frozenset({"pgstat_assoc_relation", "get_tabstat_entry"})
"""Functions that look up the statistics of a table again once they were reported (15 and later; before)."""

WAL_PAGES = frozenset({"AdvanceXLInsertBuffer"})

_ALWAYS = WAITS | SIGNALS | WAL_PAGES

_ASKS = frozenset({"GetCurrentTransactionStopTimestamp", "GetCurrentTimestamp", "TimestampDifferenceExceeds"})
"""What a reporting function calls to look at the clock."""

ASKING = 32.0
"""Least instructions of a reporting function itself that look at the clock, in every version."""

REPORT = 20_000.0
"""Most instructions of a reporting function itself for one report. 14 and older collect the statistics of all
tables there: 6,500 for 43 tables and indexes; 15 and later need 1,100 for as many."""

TABLES = 50
"""Most tables and indexes that are looked up again after one report."""

_EVERY = 0.9
"""Share of the calls of a reporting function from which on something is done at every call."""

_ROUNDS = 60


def timed(graph: CallGraph) -> float:
    """Returns the instructions that are left out of the verdict."""
    shares = left_out_shares(graph)
    return sum(graph.exclusive[key] * share for key, share in shares.items() if key in graph.exclusive)


def untimed(graph: CallGraph) -> dict[Key, float]:
    """Returns the instructions in each function itself that are judged; their sum is all that is judged."""
    shares = left_out_shares(graph)
    return {key: instructions * (1.0 - shares.get(key, 0.0)) for key, instructions in graph.exclusive.items()}


def left_out_shares(graph: CallGraph) -> dict[Key, float]:
    """Returns by function the share of its own instructions that is left out, where it is above 0.

    A function that is called from judged and from left-out code is divided by what the calls cost, so the sum
    over all functions is exactly the inclusive cost of the left-out calls, unless functions call each other
    in a circle.
    """
    fixed, weights = _clock_driven(graph)
    if not fixed and not weights:
        return {}
    whole = dict(graph.exclusive)
    callers: dict[Key, list[tuple[Key, float, float | None]]] = {}  # the share of the call, where it is known
    callees: dict[Key, list[Key]] = {}
    for (caller, callee), arc in graph.arcs.items():
        if caller != callee:
            whole[caller] = whole.get(caller, 0.0) + arc.instructions
            weight = weights.get((caller, callee), 0.0 if _name(caller) in REPORTS else None)
            callers.setdefault(callee, []).append((caller, arc.instructions, weight))
            callees.setdefault(caller, []).append(callee)
    shares = dict(fixed)
    changed = {callee for caller, callee in weights} | {c for key in fixed for c in callees.get(key, ())}
    for _ in range(_ROUNDS):
        following: set[Key] = set()
        for key in changed:
            if key in fixed:
                continue
            reached, is_all = 0.0, True
            for caller, cost, known in callers[key]:
                weight = known if known is not None else shares.get(caller, 0.0)
                reached += cost * weight
                is_all = is_all and weight == 1.0
            if is_all:
                share = 1.0  # also where the mark waited longer than the operation, and less than 0 is left
            else:
                share = min(1.0, max(0.0, reached / whole[key])) if whole.get(key, 0.0) > 0 else 0.0
            if abs(share - shares.get(key, 0.0)) > 1e-9:
                shares[key] = share
                following.update(callees.get(key, ()))
        if not following:
            break
        changed = following
    return shares


def _clock_driven(graph: CallGraph) -> tuple[dict[Key, float], dict[tuple[Key, Key], float]]:
    """Returns the functions of which a known share is left out, and the calls of reporting functions that
    are: those of functions which only a report calls."""
    shares: dict[Key, float] = {}
    weights: dict[tuple[Key, Key], float] = {}
    calls = graph.calls()
    reports = 0.0
    for key in [key for key in {*graph.exclusive, *calls} if _name(key) in REPORTS]:
        callees = {b: arc.calls for (a, b), arc in graph.arcs.items() if a == key != b and arc.calls > 0}
        done, number = _only_in_reports(callees, calls.get(key, 0.0), graph.asking)
        reports += number
        weights |= {(key, callee): 1.0 for callee in done}
        instructions = graph.exclusive.get(key, 0.0)
        asking = graph.asking.exclusive if graph.asking is not None else ASKING
        rest = min(max(0.0, instructions - asking * calls.get(key, 0.0)), REPORT * number)
        shares[key] = rest / instructions if done and instructions > 0 else 0.0
    for key in {*graph.exclusive, *calls}:
        name = _name(key)
        if name in _ALWAYS:
            shares[key] = 1.0
        elif name in AFTER_REPORTS and calls.get(key, 0.0) > 0:
            # A report right before the counted operations has the same effect.
            most = TABLES * (reports + 1.0 / graph.operations)
            shares[key] = min(1.0, most / calls[key])
    return shares, weights


def _only_in_reports(
    callees: dict[Key, float], calls: float, asking: Asking | None
) -> tuple[Collection[Key], float]:
    """Returns what a reporting function calls only where it reports, and how often that was; nothing where it
    reports at every call: then the report is part of the operation.

    callees: calls of each callee; calls: of the reporting function itself.
    """
    known = _ASKS | (set(asking.callees) if asking is not None else set())
    only = {callee: number for callee, number in callees.items() if _name(callee) not in known}
    number = min(only.values(), default=0.0)
    return ((), 0.0) if number >= _EVERY * calls else (only, number)


def asking_of(mark: CallGraph) -> Asking | None:
    """Returns what a call of the reporting function costs that only looks at the clock, as one mark shows it;
    None where it was not called there (in a transaction)."""
    calls = mark.calls()
    for key in mark.exclusive:
        if _name(key) in REPORTS and calls.get(key, 0.0) > 0:
            callees = sorted({_name(callee) for (caller, callee) in mark.arcs if caller == key != callee})
            return Asking(mark.exclusive[key] / calls[key], tuple(callees))
    return None


def _name(key: Key) -> str:
    return key[1].partition(".")[0]  # without what a compiler appends to copies
