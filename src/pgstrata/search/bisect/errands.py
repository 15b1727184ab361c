"""A search by counted instructions on the machines of a fleet: several commits between the ends at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from pgstrata.campaign.plan.model import PlannedRun
from pgstrata.campaign.plan.runs import make_plan
from pgstrata.campaign.study import FleetSpec
from pgstrata.count.measure.counted_pair import count_two
from pgstrata.errors import BuildError, ServerError, UsageError
from pgstrata.files.disk import remove_tree
from pgstrata.measure.errands import Errand, There, errand_id, understood_as
from pgstrata.measure.two_servers import MeasuredRatio, MeasuredWork, OtherFailedError, TwoServers
from pgstrata.observe import machine
from pgstrata.search.bisect import state as states
from pgstrata.search.bisect.hunt import (
    RUNS,
    SearchResult,
    SearchSettings,
    entry_of,
    of_machine,
    result_of,
    set_aside,
)
from pgstrata.search.bisect.procedure import Task
from pgstrata.search.bisect.state import SameCode, State
from pgstrata.server.find.lookup import look_up
from pgstrata.server.find.model import Server
from pgstrata.server.find.recipe import Build
from pgstrata.server.find.sources import is_source, source_of
from pgstrata.source.code_digest import code_digest
from pgstrata.store import Results, Run
from pgstrata.store.counted import COUNTED
from pgstrata.store.names import RunKey

DOES = "pair"

MOST_SECONDS = 24 * 3600.0
"""Longest time that a machine may take for a commit, with its build and that of the good end."""


class _Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What travels beside the campaign. codes: positions by the code that their servers execute."""

    step: str
    smallest: float
    codes: dict[str, int]


class _Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What comes home. skipped: why the second server cannot be counted; same: position whose code it
    executes; else the ratio, as it was measured."""

    build_seconds: float
    seconds: float
    code: str = ""
    skipped: str = ""
    same: int | None = None
    log_ratio: float = 0.0
    error: float = 0.0
    pairs: int = 0
    base_rate: float = 0.0
    other_rate: float = 0.0
    unit: str = ""
    plans: tuple[str, ...] = ()


def count_pair_there(there: There) -> bytes:
    """Counts a commit and the good end on a machine of a fleet. Raises UsageError for a step that cannot be
    counted, ServerError where the good end cannot be measured or the machine is at fault, StoreError."""
    with understood_as("pair"):
        asked = msgspec.msgpack.decode(there.asked, type=_Asked)
        (campaign,) = there.campaigns
        base, other = campaign.variants
    begun = time.monotonic()
    there.find(base.server, campaign.build_of(base))
    try:
        server = there.find(other.server, campaign.build_of(other))
    except (BuildError, ServerError) as error:
        if of_machine(error):
            raise
        return msgspec.json.encode(_Answer(0.0, 0.0, skipped=error.message[:2000]))
    built = time.monotonic() - begun
    code = code_digest(server.bin_dir) if is_source(other.server) and server.bin_dir is not None else ""
    if code and (same := asked.codes.get(code)) is not None:
        return msgspec.json.encode(_Answer(built, built, code, same=same))
    work = MeasuredWork((asked.step,), campaign.workloads[0].workload.name)
    two = TwoServers(work, base, other, campaign.name, there.results, checked=campaign, find=there.find)
    try:
        ratio = count_two(two, asked.smallest, there.console, there.lasting / "good")
    except OtherFailedError as error:
        remove_tree(there.results)
        return msgspec.json.encode(_Answer(built, built, code, skipped=error.message[:2000]))
    return msgspec.json.encode(
        _Answer(
            built,
            time.monotonic() - begun,
            code,
            log_ratio=ratio.log_ratio,
            error=ratio.error,
            pairs=ratio.pairs,
            base_rate=ratio.base_rate,
            other_rate=ratio.other_rate,
            unit=ratio.unit,
            plans=ratio.plans,
        )
    )


class SearchErrands:
    """The commits between the ends of a search that are counted next. until: by the monotonic clock, when no
    new one is begun; show: takes what is known after each."""

    does = DOES
    most_seconds = MOST_SECONDS
    fleet = FleetSpec()

    def __init__(
        self,
        search: SearchSettings,
        state: State,
        until: float,
        show: Callable[[SearchResult], object] | None,
        say: Callable[[str], None],
    ) -> None:
        self._search, self._state, self._until = search, state, until
        self._show, self._say = show, say
        self.name, self.results = f"search {search.folder.resolve()}", search.folder / RUNS
        self._begun: dict[str, int] = {}
        """Positions that machines count, by errand."""
        self._number = len(state.measured) + len(state.disturbed)
        self._is_idle = False
        self.failure = ""
        """Why a commit could not be counted by any machine; empty where all could."""

    def preferred(self, kinds: Sequence[str]) -> str:
        """Returns the kind of this machine, which has measured the ends."""
        here = machine.kind_of_code()
        return here if here in kinds else ""

    def begin(self, kind: str) -> None:
        """Does nothing: all kinds count in the same way."""

    def next(self, number: int) -> list[Errand]:
        errands: list[Errand] = []
        while not self._is_idle and len(errands) < number:
            position = self._position()
            if position is None:
                self._is_idle = True
            else:
                errands.append(self._errand(position))
        return errands

    def _position(self) -> int | None:
        if self.failure or time.monotonic() > self._until:
            return None
        ways = self._search.ways(self._state)
        next_ = ways.next()
        if next_ is None or (next_[0], next_[1].why) != ("instructions", "search"):
            return None
        begun = set(self._begun.values())
        if not begun:
            return next_[1].other
        return ways.procedures["instructions"].search.apart_from(begun)

    def earlier(self, id: str) -> Errand | None:
        for position in range(1, self._search.line.n):
            if (
                self._id(position) == id
                and position not in self._state.procedure(0.0, "instructions").search.outcomes
            ):
                return self._errand(position)
        return None

    def arrived(self, errand: Errand, answer: bytes, runs: Sequence[Run]) -> None:
        try:
            reply = msgspec.json.decode(answer, type=_Answer)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise UsageError(f"{errand.name}: this is no count of a pair: {error}") from error
        position, state = self._begun[errand.id], self._state
        stop = self._search.line.stops[position]
        if reply.skipped:
            set_aside(state, position, reply.skipped, self._say, stop)
        elif reply.same is not None:
            state.same.append(SameCode(position, reply.same, states.now()))
        elif not runs:
            raise ServerError(f"{errand.name} came home without its runs")
        else:
            name = runs[0].campaign
            ratio = MeasuredRatio(
                reply.log_ratio,
                reply.error,
                reply.pairs,
                reply.base_rate,
                reply.other_rate,
                reply.unit,
                name,
                plans=reply.plans,
            )
            task = Task(0, position, "search")
            state.measured.append(
                entry_of("instructions", task, ratio, reply.build_seconds, reply.seconds, 0.0)
            )
        if reply.code:
            state.codes[position] = reply.code
        states.save(self._search.folder, state)
        del self._begun[errand.id]
        self._is_idle = False
        if self._show is not None:
            self._show(result_of(self._search, state))

    def failed(self, errand: Errand, reason: str) -> None:
        self.failure = f"{errand.name} could not be counted by any machine: {reason}"
        self._is_idle = True

    def _id(self, position: int) -> str:
        return errand_id([self._search.question(), self._search.line.stops[position].id])

    def _errand(self, position: int) -> Errand:
        search, line = self._search, self._search.line
        stop, id_ = line.stops[position], self._id(position)
        self._begun[id_] = position
        name = f"f{position:04d}-0"
        two = TwoServers(search.work, line.stops[0].variant, stop.variant, name, self.results)
        plan = make_plan(two.campaign(), Results(self.results), unbuilt, fresh=True, elsewhere=True)
        chosen = plan.campaign.workloads[0]
        runs = [
            PlannedRun(RunKey(name, variant.label, f"{chosen.label}{COUNTED}", 1), variant, chosen, 0.0, 0)
            for variant in plan.variants
        ]
        codes = {code: place for place, code in self._state.codes.items()}
        asked = _Asked(search.work.step, search.least("instructions"), codes)
        return Errand(
            id=id_,
            name=f"{stop.name} {stop.subject}".strip()[:80],
            questions=((plan, chosen),),
            servers=[variant.server.spec for variant in plan.variants],
            asked=msgspec.msgpack.encode(asked),
            runs=runs,
        )


def unbuilt(spec: str, how: Build | None) -> Server:
    """Returns the server of a spec for a plan of what other machines measure; whether it builds is found out
    where it is built."""
    if not is_source(spec):
        return look_up(spec, how)
    tree = source_of(spec).find_tree(spec)
    return Server(tree.origin, tree.label, tree.version, tree.version_num, "", Path())


__all__ = ["SearchErrands", "count_pair_there", "unbuilt"]
