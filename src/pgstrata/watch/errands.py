"""A watch on the machines of a fleet: each commit against the anchor is an errand of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from pgstrata.campaign.plan.runs import make_plan
from pgstrata.campaign.study import FleetSpec
from pgstrata.errors import ServerError, UsageError
from pgstrata.files import disk
from pgstrata.files.bounded import BoundError, json_as
from pgstrata.files.disk import read_regular, storing
from pgstrata.measure.errands import Errand, There, errand_id, understood_as
from pgstrata.measure.two_servers import TwoServers
from pgstrata.search.bisect.errands import unbuilt
from pgstrata.search.bisect.line import Stop
from pgstrata.server.find.model import Server
from pgstrata.server.find.recipe import Build
from pgstrata.source import build_cache
from pgstrata.store import Results, Run
from pgstrata.watch.file import Watch, WatchedSteps, WatchFile
from pgstrata.watch.history import VERSION, CommitValues
from pgstrata.watch.measure import Measuring, Series
from pgstrata.watch.passing import Pass, next_stop

DOES = "commit"

MOST_SECONDS = 24 * 3600.0
"""Longest time that a machine may take for a commit, with its build and that of the anchor."""

MOST_BYTES = 16 << 20
"""Of the list of servers that a machine has built for a watch."""


class _Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What travels beside the campaigns. anchor, commit: hashes; name: of the commit, for people. file: of
    the watch. asked: digest of each series' question. codes: commits by the code that they execute. tries: so
    often it was measured before."""

    anchor: str
    commit: str
    name: str
    epoch: str
    file: dict[str, Any]
    asked: dict[str, str]
    codes: dict[str, str]
    tries: int


def measure_there(there: There) -> bytes:
    """Measures a commit against the anchor on a machine of a fleet, and returns its values. Raises as
    `Measuring.measure`."""
    with understood_as("commit"):
        asked = msgspec.msgpack.decode(there.asked, type=_Asked)
        file = WatchFile.model_validate(asked.file)
    if len(there.campaigns) != len(file.series):
        raise UsageError(f"{len(there.campaigns)} campaigns came for {len(file.series)} series")
    measuring = _MeasuringThere(there, asked, file)
    stop = Stop(asked.commit, asked.name, there.campaigns[0].variants[1])
    known = [
        CommitValues(version=VERSION, commit=commit, epoch=asked.epoch, at="", seconds=0.0, code=code)
        for code, commit in asked.codes.items()
    ]
    values = measuring.measure(stop, asked.tries, known)
    measuring.expire(values)
    return msgspec.json.encode(structs.replace(values, built=""))


class _MeasuringThere(Measuring):
    """Measures a commit on another machine than that of the watch: what it needs has travelled."""

    def __init__(self, there: There, asked: _Asked, file: WatchFile) -> None:
        anchor = Stop(asked.anchor, asked.anchor[:10], there.campaigns[0].variants[0])
        watch = Watch("watch", file, there.results.parent / "watch", there.lasting)
        super().__init__(watch, anchor, there.console, there.say, there.check)
        self._there, self._asked = there, asked
        self._built = ""

    @cached_property
    def series(self) -> Mapping[str, Series]:
        by_name = {}
        for steps in self._watch.file.series:
            work = self._work(steps)
            for step in steps.steps:
                series = Series.of(steps, step, work, "")
                asked = self._asked.asked.get(series.name, "")
                by_name[series.name] = Series.of(steps, step, work, asked)
        return by_name

    @cached_property
    def epoch(self) -> str:
        return self.epoch_of(self._there.kind)

    def two(self, steps: WatchedSteps, stop: Stop) -> TwoServers:
        campaign = self._there.campaigns[self._watch.file.series.index(steps)]
        base, other = campaign.variants
        folder = self._watch.folder / "runs" / campaign.name
        return TwoServers(
            self._work(steps),
            base,
            other,
            campaign.name,
            folder,
            checked=campaign,
            find=self._there.find,
        )

    def _build(self, stop: Stop) -> Server:
        before = {kept.record.key for kept in build_cache.built()}
        campaign = self._there.campaigns[0]
        server = self._there.find(stop.variant.server, campaign.build_of(stop.variant))
        if stop.id == self._asked.commit and server.built is not None and server.built.key not in before:
            self._built = server.built.key
        return server

    def _key(self, stop: Stop) -> str:
        return self._built

    def _lasting(self) -> Path:
        return self._there.lasting

    def expire(self, values: CommitValues) -> None:
        """Removes servers that were built here for this watch, but the newest."""
        path = self._there.lasting / "servers.json"
        try:
            keys = json_as(read_regular(path, MOST_BYTES), list[str])
        except (OSError, BoundError):
            keys = []
        keys = [*(key for key in keys if key != values.built), *filter(None, [values.built])]
        number = self._watch.file.builds
        for key in keys[:-number]:
            with suppress(ServerError):  # in use: another one will be removed for it later
                build_cache.remove(key)
        with storing("note the servers that are built", self._there.lasting):
            disk.replace(path, msgspec.json.encode(keys[-number:]))


class WatchErrands:
    """The commits that are due in a pass, as many at once as there are machines."""

    does = DOES
    most_seconds = MOST_SECONDS

    def __init__(self, this: Pass) -> None:
        self._pass, self._known = this, this.known
        self._watch = this.known.watch
        self.name, self.results = f"watch {self._watch.name}", self._watch.folder
        self.fleet = FleetSpec()
        self._begun: set[int] = set()
        """Positions that machines measure, or none could."""
        self._is_idle = False
        """Whether nothing more is due before something comes home."""
        self._servers: dict[str, Server] = {}

    def preferred(self, kinds: Sequence[str]) -> str:
        """Returns the kind whose values are the latest."""
        latest = self._known.latest_epoch
        return next((kind for kind in kinds if self._pass.measuring.epoch_of(kind) == latest), "")

    def begin(self, kind: str) -> None:
        self._known.epoch = self._pass.measuring.epoch_of(kind)

    def next(self, number: int) -> list[Errand]:
        errands: list[Errand] = []
        while not self._is_idle and len(errands) < number:
            stop = next_stop(self._known, self._begun)
            if stop is None or self._pass.is_over():
                self._is_idle = True
            else:
                errands.append(self._errand(stop))
        return errands

    def earlier(self, id: str) -> Errand | None:
        for stop in self._known.line.stops[1:]:
            if self._id(stop) == id:
                return self._errand(stop)
        return None

    def arrived(self, errand: Errand, answer: bytes, runs: Sequence[Run]) -> None:
        try:
            values = json_as(answer, CommitValues)
        except BoundError as error:
            raise UsageError(f"{errand.name}: these are no values of a commit: {error}") from error
        stop = self._known.line.stops[self._known.line.places.get(values.commit, 0)]
        if values.version != VERSION or self._id(stop) != errand.id:
            raise UsageError(f"{errand.name}: the values of {values.commit[:10]} came instead")
        if values.same_as and (twin := self._known.values.get(values.same_as)) is not None:
            values = structs.replace(
                values,
                values=twin.values,
                missing=twin.missing,
                other_load=twin.other_load,
                tries=twin.tries,
                same_as=twin.same_as or twin.commit,
            )
        self._pass.add(values)
        self._begun.discard(self._known.line.places[values.commit])
        self._is_idle = False
        if self._pass.show is not None:
            self._pass.show(self._known)

    def failed(self, errand: Errand, reason: str) -> None:
        self._known.failed.append(f"{errand.name}: {reason}")
        self._is_idle = False

    def _id(self, stop: Stop) -> str:
        """Returns the identity of a commit in the question that the watch asks now."""
        asked = {name: series.asked for name, series in self._known.series.items()}
        return errand_id([stop.id, asked])

    def _errand(self, stop: Stop) -> Errand:
        known, measuring = self._known, self._pass.measuring
        anchor = known.line.stops[0]
        self._begun.add(known.line.places[stop.id])
        questions = []
        for steps in self._watch.file.series:
            campaign = measuring.two(steps, stop).campaign()
            plan = make_plan(campaign, Results(self.results), self._look_up, fresh=True, elsewhere=True)
            questions.append((plan, plan.campaign.workloads[0]))
        file = self._watch.file.model_copy(update={"acknowledged": []})
        asked = _Asked(
            anchor=anchor.id,
            commit=stop.id,
            name=stop.name,
            epoch=known.epoch,
            file=file.model_dump(mode="json"),
            asked={name: series.asked for name, series in known.series.items()},
            codes={values.code: values.commit for values in known.whole() if values.code},
            tries=known.values[stop.id].tries if stop.id in known.values else 0,
        )
        return Errand(
            id=self._id(stop),
            name=f"{stop.name} {stop.subject}"[:80],
            questions=questions,
            servers=[variant.server.spec for variant in questions[0][0].variants],
            asked=msgspec.msgpack.encode(asked),
        )

    def _look_up(self, spec: str, how: Build | None) -> Server:
        """Returns the server of a commit, as `unbuilt` does, once for all series."""
        if spec not in self._servers:
            self._servers[spec] = unbuilt(spec, how)
        return self._servers[spec]


__all__ = ["WatchErrands", "measure_there"]
