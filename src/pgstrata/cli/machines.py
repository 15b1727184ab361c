"""What a capability that gives work to many machines does for commands with `--fleet`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from pgstrata.registry import capabilities, load

if TYPE_CHECKING:
    from rich.console import Console

    from pgstrata.campaign.checked import Campaign
    from pgstrata.cli.output import TextOrJson
    from pgstrata.measure.errands import Errands
    from pgstrata.measure.interrupt import Interrupts

FleetOption = Annotated[
    str | None,
    typer.Option(
        "--fleet",
        metavar="SCHEDULER",
        help="On many machines: tcp://HOST:8786, tls://HOST:8786, local:N to try it.",
    ),
]


class Machines(Protocol):
    """The part of a capability that gives work to many machines."""

    def show_forecast(self, campaign: Campaign, fleet: str, fresh: bool, form: TextOrJson) -> None:
        """Prints what a fleet would do."""
        ...

    def check_fleet(self, fleet: str) -> None:
        """Raises UsageError for what is no fleet, or where a program that fleets need is not installed."""
        ...

    def run_on_fleet(
        self, campaign: Campaign, fleet: str, fresh: bool, *, report: bool, form: TextOrJson
    ) -> int:
        """Runs a campaign on the machines of a fleet and returns the exit code."""
        ...

    def do_errands(self, errands: Errands, fleet: str, console: Console, interrupts: Interrupts) -> None:
        """Has all errands done by the machines of a fleet. Raises Interrupted, when nothing is left running
        anywhere, UsageError where no machine can take part, ServerError where no scheduler answers,
        StoreError."""
        ...


def machines() -> Machines:
    """Returns what gives work to many machines. Raises UsageError where no capability does."""
    from pgstrata.errors import UsageError

    for offer in capabilities():
        if offer.machines:
            module: Machines = load(offer.machines)
            return module
    raise UsageError("--fleet: this installation has no capability that gives work to many machines")


__all__ = ["FleetOption", "Machines", "machines"]
