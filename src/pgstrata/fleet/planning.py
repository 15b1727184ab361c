"""The plan of a campaign that other machines measure."""

from __future__ import annotations

from pgstrata.campaign.checked import Campaign
from pgstrata.campaign.plan.runs import Plan, make_plan
from pgstrata.fleet.kinds import divided
from pgstrata.server.find.lookup import look_up
from pgstrata.store import Results


def plan_of(campaign: Campaign, results: Results, *, fresh: bool = False) -> Plan:
    """Returns the plan of a campaign on a fleet; servers are looked up and not fetched. Raises the errors of
    `divided` and `make_plan`."""
    return make_plan(
        divided(campaign),
        results,
        lambda spec, how: look_up(spec, how, folder=campaign.folder),
        fresh=fresh,
        elsewhere=True,
    )


__all__ = ["plan_of"]
