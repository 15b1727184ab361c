"""What capabilities offer to the core, which imports none of them.

A capability is a package of pgstrata with a `CAPABILITY` in its `__init__.py`; `pgstrata/capabilities.py`
lists the packages. Commands, workloads and the rest are named as `module:attribute` and imported when they
are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import resolve_name
from typing import Any

LIST = "pgstrata.capabilities"
"""Module with the names of the packages, in the order in which users see them."""

CORE = "Commands"
"""Heading of the core's commands in `pgstrata --help`."""


@dataclass(frozen=True)
class Command:
    """A command of the program `pgstrata`, imported when it is run."""

    name: str
    place: str
    """`module:attribute` of the function, or of the Typer object of a command with subcommands."""
    summary: str
    heading: str = CORE
    """The group in `pgstrata --help`."""
    help_names: tuple[str, ...] = ("-h", "--help")
    error_codes: Mapping[str, int] = field(default_factory=dict)
    """Exit code of every error, also of a mistyped option, on a command line that has this option: of a
    program that takes 1 and 2 for an answer."""


@dataclass(frozen=True)
class Capability:
    """What a package offers."""

    commands: tuple[Command, ...] = ()
    workloads: Mapping[str, str] = field(default_factory=dict)
    """Workloads by name: `module:attribute` of the class."""
    cached: Mapping[str, str] = field(default_factory=dict)
    """Folders of the cache with data that can be produced again, and what `pgstrata data list` calls them."""
    machines: str = ""
    """Module that gives work to many machines (`pgstrata.cli.machines.Machines`), for `--fleet`."""
    errands: Mapping[str, str] = field(default_factory=dict)
    """What machines of a fleet do for it, by name: `module:attribute` of a function that takes a
    `pgstrata.measure.errands.There` and returns its answer as bytes."""
    server_sources: Mapping[str, str] = field(default_factory=dict)
    """Sources of servers by kind of spec: modules (`pgstrata.server.find.sources.ServerSource`)."""
    prints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Types of what commands of the core print as JSON for its sake, `module:attribute` by command."""
    report: str = ""
    """Module of what it adds to reports (`pgstrata.report.parts.ReportPart`)."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Kinds of measuring by the names that `--by` takes: modules (`pgstrata.cli.kinds.Kind`)."""
    unpackers: Mapping[str, str] = field(default_factory=dict)
    """By the ending of a file with results: `module:attribute` of a context manager that takes its path and
    yields a folder with the results, which goes at the end."""


@cache
def capabilities() -> tuple[Capability, ...]:
    """Returns what the listed packages offer, in the order of the list."""
    packages: tuple[str, ...] = import_module(LIST).CAPABILITIES
    return tuple(import_module(package).CAPABILITY for package in packages)


def load(place: str) -> Any:
    """Imports a module and returns its attribute, both named by `module:attribute`."""
    return resolve_name(place)


__all__ = ["CORE", "LIST", "Capability", "Command", "capabilities", "load"]
