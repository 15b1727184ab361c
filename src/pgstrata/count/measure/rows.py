"""What was counted, as rows of the run's tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pgstrata.count.measure.callgrind import CallGraph, Key, mean
from pgstrata.count.measure.left_out import untimed
from pgstrata.files.elf import DYNSYM, SYMTAB, sections_of

Row = dict[str, Any]

LEAST = 0.5
"""Instructions per operation of a function or a call that is stored: below, nothing happens at each operation
or at every other."""


def start_row(role: str, start: int, operations: int, graph: CallGraph, left_out: float) -> Row:
    """Returns the row of one start of a step in the table `instructions`, all figures per operation.
    left_out: instructions that are not judged."""
    row: Row = {
        "role": role,
        "start": start,
        "operations": operations,
        "instructions": graph.instructions - left_out,
        "timed_instructions": left_out,
    }
    if "D1mr" in graph.events:
        l1 = sum(map(graph.count, ("I1mr", "D1mr", "D1mw")))
        last = sum(map(graph.count, ("ILmr", "DLmr", "DLmw")))
        wrong = sum(map(graph.count, ("Bcm", "Bim")))
        row |= {
            "simulated_l1_misses": l1,
            "simulated_ll_misses": last,
            "simulated_mispredicted": wrong,
            "simulated_cycles": cycles(graph.instructions, l1, last, wrong),
        }
    return row


def cycles(instructions: float, l1_misses: float, ll_misses: float, mispredicted: float) -> float:
    """Returns the estimated cycles: instructions + 10 for each first-level miss, 100 for each last-level
    miss, 10 for each mispredicted branch. Source: KCachegrind's derived event CEst."""
    return instructions + 10 * l1_misses + 100 * ll_misses + 10 * mispredicted


def function_rows(role: str, graphs: Sequence[CallGraph]) -> list[Row]:
    """Returns the rows of table `functions`, means over the starts of a step: judged instructions per
    operation in each function itself, and all instructions with those of its callees.

    Instructions that are left out (`left_out`) are in the second figure only, so the first ones account for
    the difference that is judged.
    """
    whole = mean(graphs)
    inclusive, calls = whole.inclusive(), whole.calls()
    instructions: dict[Key, float] = {}
    for graph in graphs:
        for key, value in untimed(graph).items():
            instructions[key] = instructions.get(key, 0.0) + value / len(graphs)
    return [
        {
            "role": role,
            "object": path,
            "function": function,
            "instructions": instructions.get((path, function), 0.0),
            "inclusive": cost,
            "calls": calls.get((path, function), 0.0),
        }
        for (path, function), cost in sorted(inclusive.items(), key=lambda item: -item[1])
        if cost >= LEAST
    ]


def file_rows(role: str, graphs: Sequence[CallGraph]) -> list[Row]:
    """Returns the rows of table `files`, means over the starts of a step: judged instructions per operation
    by source file, those without one by their binary or library. None where no file is known."""
    if not any(graph.sources for graph in graphs):
        return []
    files: dict[tuple[str, str], float] = {}
    for graph in graphs:
        judged = untimed(graph)
        shares = {key: judged[key] / cost for key, cost in graph.exclusive.items() if cost}
        rest = dict(judged)
        for ((path, function), source), cost in graph.sources.items():
            part = cost * shares.get((path, function), 0.0)
            rest[path, function] = rest.get((path, function), 0.0) - part
            files[path, source] = files.get((path, source), 0.0) + part / len(graphs)
        for (path, _), cost in rest.items():
            files[path, ""] = files.get((path, ""), 0.0) + cost / len(graphs)
    return [
        {"role": role, "object": path, "file": source or None, "instructions": instructions}
        for (path, source), instructions in sorted(files.items(), key=lambda item: -item[1])
        if instructions >= LEAST
    ]


def call_rows(role: str, graph: CallGraph) -> list[Row]:
    """Returns the rows of table `calls`: who called whom how often per operation, and how many instructions
    that took."""
    return [
        {
            "role": role,
            "caller_object": caller[0],
            "caller": caller[1],
            "callee_object": callee[0],
            "callee": callee[1],
            "calls": arc.calls,
            "instructions": arc.instructions,
        }
        for (caller, callee), arc in graph.arcs.items()
        if arc.instructions >= LEAST
    ]


def symbols_of(bin_dir: Path | None) -> Literal["all", "exported", "none"]:
    """Returns which names the server's binary has: those of a symbol table (`all`), or only those it
    exports."""
    if bin_dir is None:
        return "none"
    try:
        kinds = {section.type for section in sections_of(bin_dir / "postgres")}
    except OSError:
        return "none"
    return "all" if SYMTAB in kinds else "exported" if DYNSYM in kinds else "none"
