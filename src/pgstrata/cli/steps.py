"""`pgstrata steps`"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from pgstrata import numbers
from pgstrata.cli.arguments import SetsOption, SmallScaleOption
from pgstrata.cli.output import Format, prints

if TYPE_CHECKING:
    from pgstrata.workload.core.language import Step


StepRow = TypedDict("StepRow", {"step": str, "kind": str, "what it does": str})
StepRows = list[StepRow]


@prints("pgstrata.cli.steps:StepRows")
def steps(
    workload: Annotated[
        str,
        typer.Argument(metavar="WORKLOAD", help="A name that pgstrata workloads lists, or FILE.py:CLASS."),
    ] = "sysbench",
    scale: SmallScaleOption = None,
    set_: SetsOption = None,
    format: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.table,
) -> None:
    """List the steps of a workload: what each does, in one sentence.

    Names are what `--step` of other commands takes. Options of the workload decide which steps there are.

    \b
    Examples:
      pgstrata steps sysbench
      pgstrata steps sysbench --set steps=full
      pgstrata steps pgbench --scale small --format json
    """
    from pgstrata.campaign.file.reading import SMALLEST_SCALE, Overrides, adhoc_campaign
    from pgstrata.cli.output import print_rows
    from pgstrata.server.features import NEWEST
    from pgstrata.workload.core.language import Step

    wanted = Overrides(
        servers=["pg:latest"], workloads=[workload], scale=scale, small=SMALLEST_SCALE, sets=set_ or []
    )
    (chosen,) = adhoc_campaign(wanted).workloads
    measured = [phase for phase in chosen.phases(NEWEST) if isinstance(phase, Step) and phase.measured]
    rows = [[step.name, _kind(step), _sentence(step)] for step in measured]
    print_rows(list(StepRow.__annotations__), rows, format)


def _kind(step: Step) -> str:
    return "reads" if step.reads_only else "loads" if step.load or step.judged_load else "writes"


def _sentence(step: Step) -> str:
    if step.summary:
        return step.summary
    clients = sum(role.clients for role in step.roles)
    where = f" on {numbers.counted(clients, 'connection')}" if clients else ""
    return f"{(step.group or step.name).capitalize()}{where}."


__all__ = ["steps"]
