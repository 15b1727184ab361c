"""Who comes first: drawn, since the first one gets other memory for what it reads."""

from __future__ import annotations

from collections import Counter
from unittest.mock import MagicMock

from pgstrata.measure.turns.group import Group
from pgstrata.measure.turns.participant import Participant
from pgstrata.server.cluster.cluster import Cluster

GROUPS = 200


def group(variants: int) -> Group:
    runs = [MagicMock(cluster=MagicMock(spec=Cluster)) for _ in range(variants)]
    return Group(MagicMock(judge=()), runs, "base")


def test_each_variant_begins_the_first_pair_as_often() -> None:
    for variants in (2, 3):
        first: Counter[int] = Counter()
        for drawn in (group(variants) for _ in range(GROUPS)):
            first[drawn.participants.index(drawn.order(1)[0])] += 1
            assert drawn.order(2) == drawn.order(1)[::-1]
        # By chance once in ten million of times at most, as a binomial distribution has it.
        assert all(first[number] > GROUPS / variants / 2.5 for number in range(variants)), first


def test_who_reads_the_data_first_is_drawn() -> None:
    both = group(2)
    first: Counter[Participant] = Counter()
    for _ in range(GROUPS):
        done: list[Participant] = []
        both.each_in_drawn_order(done.append)
        assert sorted(done, key=id) == sorted(both.participants, key=id)
        first[done[0]] += 1
    assert all(first[participant] > GROUPS / 5 for participant in both.participants), first
