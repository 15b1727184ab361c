"""pgstrata: did PostgreSQL get slower — where, by how much, is it real, and why?

The names below are the public API; `pgstrata.api` documents them, and docs/guides/python.md shows their use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgstrata.api import (
        Comparison,
        Criterion,
        Failure,
        OpenResults,
        Outcome,
        PgstrataError,
        Run,
        ServerError,
        StepVerdict,
        StoreError,
        Study,
        UsageError,
        Variant,
        Verdict,
        Workload,
        compare,
        open_results,
        run,
    )

__version__ = "0.1.0"

__all__ = [
    "Comparison",
    "Criterion",
    "Failure",
    "OpenResults",
    "Outcome",
    "PgstrataError",
    "Run",
    "ServerError",
    "StepVerdict",
    "StoreError",
    "Study",
    "UsageError",
    "Variant",
    "Verdict",
    "Workload",
    "compare",
    "open_results",
    "run",
]


def __getattr__(name: str) -> Any:
    """Imports the API where a program uses it: every start of the command line imports this package."""
    if name not in __all__:
        raise AttributeError(f"module 'pgstrata' has no attribute {name!r}")
    from pgstrata import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
