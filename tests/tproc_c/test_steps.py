"""Steps of TPROC-C by number of virtual users."""

from __future__ import annotations

from typing import Any

from pgstrata.server.features import NEWEST
from pgstrata.tproc_c.options import TprocCOptions
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Phase, Refine, Step, Work

TPROC_C = catalog.find("tproc-c")


def phases(**options: Any) -> list[Phase]:
    return TPROC_C.phases(TprocCOptions.model_validate({"warehouses": [1, 2], **options}), NEWEST)


def test_a_curve_of_each_number_of_warehouses_gets_its_points_before_the_next_load() -> None:
    planned = phases(clients="1..4", conditions="none")
    names = [p.name if isinstance(p, Step) else p.steps for p in planned if isinstance(p, Step | Refine)]
    assert names == [
        name
        for w in (1, 2)
        for name in (f"load-w{w}", f"keys-w{w}", *(f"mix-w{w}-c{n}" for n in (1, 2, 4)), f"mix-w{w}")
    ]


def test_a_further_point_is_checked_as_the_others_are() -> None:
    place = next(phase for phase in phases(clients="1..4") if isinstance(phase, Refine))
    _, step, check = place.at(3)
    assert isinstance(step, Step) and isinstance(check, Work)
    assert (step.name, step.roles[0].clients) == ("mix-w1-c3", 3)
    assert check.name == "conditions after mix-w1-c3"
