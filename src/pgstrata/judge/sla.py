"""Whether a step kept up the background writes that its query rate is worth nothing without."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgstrata.store.record import RoleRecord

SHARE = 0.95  # of the target, the Insert Benchmark's rule


@dataclass(frozen=True)
class Sla:
    """Rows/s asked of the background writers and the least that one of the writing roles reached.

    All three are None where no role has a target.
    """

    target_rate: float | None
    background_rate: float | None
    met: bool | None


def met(background_rate: float | None, target_rate: float | None) -> bool | None:
    """Returns True when at least 95 % of the target was reached; None where there is no target."""
    if target_rate is None:
        return None
    return (background_rate or 0.0) >= SHARE * target_rate


def sla(roles: Mapping[str, RoleRecord]) -> Sla:
    """Returns the SLA of a step from its roles.

    The role that is furthest behind its own target decides.
    """
    with_target = [(role.rate, role.target_rate) for role in roles.values() if role.target_rate]
    if not with_target:
        return Sla(None, None, None)
    rate, target = min(with_target, key=lambda pair: pair[0] / pair[1])
    return Sla(target, rate, met(rate, target))
