"""Kinds of measuring beside time (`--by`): what a capability does for the core's commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pgstrata.registry import capabilities, load

if TYPE_CHECKING:
    from rich.console import Console

    from pgstrata.campaign.checked import Campaign
    from pgstrata.campaign.study import Variant
    from pgstrata.cli.output import Format, TextOrJson, VerdictFormat
    from pgstrata.page.results import RunSet
    from pgstrata.stats.criterion import Criterion
    from pgstrata.store.choose import Side

Json = dict[str, Any]


class Kind(Protocol):
    """The module that a capability names in `kinds`."""

    MARGIN: str
    """Smallest difference that counts, where the command line names none."""

    def measure_beside(self, campaign: Campaign, console: Console, fresh: bool) -> list[tuple[str, str, str]]:
        """Measures beside the timed runs where a campaign asks for it. Returns variant, workload and reason
        of what failed."""
        ...

    def records(self, results: RunSet) -> Sequence[Mapping[str, Any]]:
        """Returns the verdicts of a campaign as JSON can hold them."""
        ...

    def compare(self, base: Side, others: list[Side], steps: list[str], criterion: Criterion) -> list[Any]:
        """Compares sides with a base. Raises UsageError."""
        ...

    def print_comparisons(
        self,
        base: Side,
        others: list[Side],
        comparisons: list[Any],
        form: VerdictFormat,
        callers: str | None,
    ) -> None:
        """Prints what `compare` returned."""
        ...

    def check(self, comparisons: list[Any], margin: float) -> int:
        """Prints the sentence of `pgstrata check` on standard error and returns its exit code."""
        ...

    def show_study(self, results: Path, campaign: str | None, step: str | None, form: Format) -> None:
        """Prints what overlays of a study do. Raises UsageError."""
        ...

    def show_noise(self, variant: Variant, options: Json, step: str, keys: Json, form: TextOrJson) -> None:
        """Measures a server against itself and prints what differs. keys: of the study. Raises UsageError."""
        ...


def kinds() -> list[Kind]:
    """Returns all kinds that capabilities offer."""
    return [load(place) for offer in capabilities() for place in offer.kinds.values()]


def kind(name: str) -> Kind:
    """Returns the kind of measuring that `--by` names. Raises UsageError where no capability offers it."""
    from pgstrata.errors import UsageError

    for offer in capabilities():
        if name in offer.kinds:
            offered: Kind = load(offer.kinds[name])
            return offered
    raise UsageError(f"--by {name}: this installation has no capability that measures it")


__all__ = ["Kind", "kind", "kinds"]
