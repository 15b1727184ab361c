"""`--quiet`, which every command has: results on standard output, warnings and errors, nothing else."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

_quiet = ContextVar("quiet", default=False)


QuietOption = Annotated[
    bool, typer.Option("--quiet", help="Print no progress: only results, warnings and errors.")
]


def is_quiet() -> bool:
    """Returns whether the command line says `--quiet`."""
    return _quiet.get()


def with_quiet(app: typer.Typer) -> None:
    """Gives every command of a program `--quiet`."""
    for command in app.registered_commands:
        if command.callback is not None:
            command.callback = _with_option(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            with_quiet(group.typer_instance)


def _with_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a command with `--quiet` behind its own options, which it does not see."""

    @functools.wraps(function)
    def command(*args: Any, quiet: bool = False, **options: Any) -> Any:
        before = _quiet.set(quiet)
        try:
            return function(*args, **options)
        finally:
            _quiet.reset(before)

    signature = inspect.signature(function, eval_str=True)
    option = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=QuietOption)
    parameters = [*signature.parameters.values(), option]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def progress_console() -> Console:
    """Returns the console on standard error for progress and warnings; with `--quiet` only for warnings."""
    from rich.console import Console

    if not is_quiet():
        return Console(stderr=True)

    class Warnings(Console):
        """A console that prints warnings only."""

        def print(self, *objects: Any, **how: Any) -> None:
            if objects and str(objects[0]).startswith("warning"):
                super().print(*objects, **how)

    return Warnings(stderr=True, force_terminal=False)


def say_progress(text: str) -> None:
    """Prints one line of progress on standard error."""
    progress_console().print(text, markup=False, highlight=False, soft_wrap=True)


__all__ = ["is_quiet", "progress_console", "say_progress", "with_quiet"]
