"""On which CPUs the participants of a comparison run: all on the same ones, in the same way.

Left to the kernel, two backends stay for seconds on CPUs and run queues of their own. Beside a program that
keeps one CPU busy, one of them is slower all that time, and no statistics tell that from a slower server. On
a CPU that all participants share they wait alike.

A connection's driver and backend work in turn: on one CPU nothing is lost by that, and no other CPU has to be
woken. Steps in which several connections work at the same time have all CPUs of the fastest kind.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence

from pgstrata.campaign.study import Study
from pgstrata.observe.cpus import fastest_cpus
from pgstrata.store.record import Cpus
from pgstrata.workload.core.language import Step

_dice = random.SystemRandom()


def draw_cpus(step: Step, spec: Study) -> tuple[int, ...]:
    """Returns the CPUs that the drivers and backends of all participants share in one batch of a step.

    Empty where the kernel places them: the campaign says so, or names the CPUs itself. A step in which one
    connection works at a time has one CPU, another one in each batch by chance, so that a verdict does not
    hang on it."""
    if spec.placement != "auto" or spec.server_cpus or spec.driver_cpus:
        return ()
    cpus = fastest_cpus()
    if busy_connections(step) <= 1:
        return (_dice.choice(cpus),)
    return () if len(cpus) == len(os.sched_getaffinity(0)) else tuple(cpus)


def busy_connections(step: Step) -> int:
    """Returns how many connections of a step work as fast as they can at the same time.

    Those that keep to a rate wait most of the time, and roles in lockstep wait for each other.
    """
    fast = {role.name: role.clients for role in step.roles if role.rate is None}
    for together in step.lockstep:
        clients = [fast.pop(name) for name in together.roles if name in fast]
        fast[together.roles[0]] = max(clients, default=0)
    return sum(fast.values())


def pin(pids: Iterable[int], cpus: Sequence[int]) -> None:
    """Lets processes run on these CPUs only. One that has ended is left out; a server without privileges of
    ours stays where it is."""
    for pid in pids:
        try:
            os.sched_setaffinity(pid, cpus)
        except (ProcessLookupError, PermissionError):
            continue


def cpus_of(spec: Study) -> Cpus:
    """Returns the CPUs that the campaign names, as its runs record them."""
    return Cpus(server=tuple(spec.server_cpus), driver=tuple(spec.driver_cpus))


__all__ = ["busy_connections", "cpus_of", "draw_cpus", "pin"]
