"""The core knows capabilities by what they register, and what they register is there."""

from __future__ import annotations

import tomllib
from inspect import getmembers, isfunction
from pathlib import Path
from typing import Any

import pytest

import pgstrata
from pgstrata.capabilities import CAPABILITIES
from pgstrata.cli.commands import offered
from pgstrata.cli.kinds import Kind
from pgstrata.cli.machines import Machines
from pgstrata.registry import CORE, Capability, capabilities, load
from pgstrata.report.parts import ReportPart
from pgstrata.server.find.sources import ServerSource

ROOT = Path(__file__).parents[1]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
OFFERS = dict(zip(CAPABILITIES, capabilities(), strict=True))


def methods(protocol: type) -> set[str]:
    return {name for name, _ in getmembers(protocol, isfunction) if not name.startswith("_")}


def modules(offer: Capability) -> list[tuple[str, type]]:
    """Returns the modules that a capability names, each with its protocol."""
    named: list[tuple[str, type]] = [(place, ServerSource) for place in offer.server_sources.values()]
    named += [(place, Kind) for place in offer.kinds.values()]
    named += [(offer.machines, Machines)] if offer.machines else []
    named += [(offer.report, ReportPart)] if offer.report else []
    return named


@pytest.mark.parametrize("package", OFFERS)
def test_what_a_capability_names_is_in_its_package(package: str) -> None:
    offer = OFFERS[package]
    places = [command.place for command in offer.commands]
    places += [*offer.workloads.values(), *offer.errands.values()]
    for place in places:
        assert place.startswith(f"{package}.")
        assert callable(load(place))
    for place, protocol in modules(offer):
        assert place.startswith(f"{package}.")
        module: Any = load(place)
        assert methods(protocol) <= {name for name, member in getmembers(module) if callable(member)}
    for name, place in offer.workloads.items():
        assert load(place)().name == name


def test_every_package_is_of_the_core_or_a_capability() -> None:
    """Or shared by capabilities."""
    (core,) = (c for c in CONTRACTS if c["name"] == "The core imports no capability")
    folder = Path(pgstrata.__file__).parent
    here = {f"pgstrata.{p.stem}" for p in folder.iterdir() if not p.name.startswith(("_", "py."))}
    assert set(core["source_modules"]) | set(core["forbidden_modules"]) == here
    assert set(core["forbidden_modules"]) == {*CAPABILITIES, "pgstrata.capabilities", "pgstrata.tpc"}


def test_commands_of_the_core_come_first() -> None:
    headings = [command.heading for command in offered().values() if " " not in command.name]
    first = headings.index(next(heading for heading in headings if heading != CORE))
    assert CORE not in headings[first:]


def test_a_capability_that_is_not_listed_offers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgstrata.capabilities.CAPABILITIES", ("pgstrata.count",))
    assert capabilities.__wrapped__() == (OFFERS["pgstrata.count"],)
