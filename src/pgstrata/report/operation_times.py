"""Where the time of an operation went that is proven slower or faster: parts that add up, and the rest."""

from __future__ import annotations

from collections.abc import Sequence

from pgstrata.judge.operation_parts import ERRORS, OperationPart, OperationParts
from pgstrata.page.blocks import Table, words
from pgstrata.report.time_parts import LEAST, part_columns, part_rows, signed, time

_HOW = (
    "The time of an operation is clients ÷ rate per second; its difference is that of the verdict. Parts "
    "exclude each other. CPU is the kernel's; waits are shares of samples of the connections' state (±: two "
    "standard errors of a difference). While the driver works the connection waits for it, so its CPU is "
    "taken from that wait; that the driver itself waits for a CPU stays in it. Waiting for a CPU is what "
    "samples call running beyond the CPU used: sleep that PostgreSQL has no wait event for is in it. Samples "
    "count parallel workers to their leader, CPU does not. Parts show where the time went and prove nothing "
    "by themselves."
)


def difference_text(parts: OperationParts) -> str:
    """Returns where the difference of an operation went, in a few words, or why that is not known."""
    if parts.reason:
        return f"not known: {parts.reason}"
    sign = 1 if parts.difference >= 0 else -1
    named = [
        f"{part.title} {signed(part.difference, 'µs')}{_error(part)}"
        for part in sorted(parts.parts, key=lambda part: -sign * part.difference)
        if abs(part.difference) >= LEAST * abs(parts.difference)
    ]
    if (rest := parts.unexplained) is not None:
        named.append(f"unexplained {signed(rest, 'µs')}")
    return f"{signed(parts.difference, 'µs')} µs per {parts.noun}: {', '.join(named)}"


def difference_line(parts: OperationParts) -> str:
    """Returns the same, and what keeps a rest from being told apart."""
    why = "; ".join(parts.not_apart) if parts.unexplained is not None and not parts.reason else ""
    return difference_text(parts) + (f" ({why})" if why else "")


def _error(part: OperationPart) -> str:
    """Returns the error of a part that may not have moved; empty of others."""
    return "" if part.is_moved or part.error is None else f" (± {time(ERRORS * part.error, 'µs')})"


def operation_table(
    parts: OperationParts, base: str, variant: str, keys: Sequence[tuple[str, str]] = ()
) -> Table:
    """Returns the table of the parts. base, variant: titles of its columns."""
    verdict = words("by the verdict", "The rate of the base, and that × the ratio of the verdict.")
    errors = [None if part.error is None else ERRORS * part.error for part in parts.parts]
    rows = part_rows(parts, [words(part.title) for part in parts.parts], verdict, "µs", errors)
    return Table(
        "operation-parts",
        f"Parts of the time of one {parts.noun}",
        part_columns(base, variant, "µs"),
        rows,
        _HOW,
        keys=keys,
        notes=tuple(f"Not told apart: {text}." for text in parts.not_apart),
    )


__all__ = ["difference_line", "difference_text", "operation_table"]
