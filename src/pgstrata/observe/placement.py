"""Where servers and the driver can be placed on the CPUs that this process may use."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgstrata.store.record import Cpus

NODES = Path("/sys/devices/system/node")


@dataclass(frozen=True)
class Placement:
    """`server`, `driver`: numbers of the only CPUs that servers and the driver use; empty: all of them."""

    name: str
    server: tuple[int, ...] = ()
    driver: tuple[int, ...] = ()


def placements(cpus: Collection[int], nodes: Sequence[Collection[int]] = ()) -> list[Placement]:
    """The sensible ones for these CPUs: free; both on one CPU; each on one of its own; on each NUMA node.

    cpus: those that may be used. nodes: the CPUs of each node. The first CPU is left out where there are
    others: interrupts are served there, as a rule.
    """
    there = sorted(cpus)
    last = there[-1]
    found = [Placement("free")]
    if len(there) > 1:
        found += [
            Placement("one CPU", (last,), (last,)),
            Placement("one CPU each", (last,), (there[-2],)),
        ]
    own = [tuple(cpu for cpu in there if cpu in node) for node in nodes]
    if sum(map(bool, own)) > 1:
        found += [Placement(f"node {n}", node, node) for n, node in enumerate(own) if node]
    return found


def placements_here() -> list[Placement]:
    """Those of this machine; a cpuset or an affinity of fewer CPUs is kept to."""
    folders = sorted(NODES.glob("node[0-9]*"), key=lambda folder: int(folder.name[4:]))
    return placements(os.sched_getaffinity(0), [_cpus(folder / "cpulist") for folder in folders])


def _cpus(file: Path) -> set[int]:
    """CPUs of a list like `0-3,8`; none where it cannot be read."""
    found: set[int] = set()
    try:
        parts = file.read_text().strip().split(",")
    except OSError:
        return found
    for part in filter(None, parts):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def sentence(cpus: Cpus) -> str:
    """Where servers and driver were, and why there; empty where that was left to the kernel unasked."""
    found = cpus.placement
    where = f"Servers on {_named(cpus.server)}, the driver on {_named(cpus.driver)}"
    if found is None:
        return f"{where}, as the campaign says." if cpus.server or cpus.driver else ""
    tried = ", ".join(f"{one.name} {one.error_of_a_second:.1%}" for one in found.tried)
    return (
        f"{where}: the placement `{found.name}` tells differences soonest here. Tried on {found.at[:10]}, "
        f"base against base, standard error of a ratio after one measured second: {tried}."
    )


def _named(cpus: Sequence[int]) -> str:
    if not cpus:
        return "all CPUs"
    return f"CPU{'s' if len(cpus) > 1 else ''} {', '.join(map(str, cpus))}"
