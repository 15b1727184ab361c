"""Measures a commit of a watch against the anchor: every step, by rate or by instructions."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from msgspec import structs
from rich.console import Console

from pgstrata.campaign.checked import Campaign
from pgstrata.campaign.study import Variant
from pgstrata.count.measure.count import COUNTED_AS
from pgstrata.count.measure.counted_pair import Starts, count_each
from pgstrata.count.measure.template import Templates
from pgstrata.errors import BuildError, ServerError
from pgstrata.files.disk import remove_tree, storing
from pgstrata.measure.two_servers import MeasuredRatio, MeasuredWork, OtherFailedError, TwoServers
from pgstrata.observe import machine
from pgstrata.observe.other_load import OtherLoad, own_cpu_seconds
from pgstrata.search.bisect.hunt import build_server, of_machine, recipe_of
from pgstrata.search.bisect.line import Stop
from pgstrata.search.bisect.procedure import BUILD_ERROR
from pgstrata.server.config.resolve import find_config_file
from pgstrata.server.find.model import Server
from pgstrata.server.find.recipe import Build
from pgstrata.source.build import find_built
from pgstrata.source.code_digest import code_digest
from pgstrata.source.git import tree_of
from pgstrata.store.kept import digest
from pgstrata.store.lock import own_results
from pgstrata.watch.file import By, Watch, WatchedSteps
from pgstrata.watch.history import VERSION, CommitValues, Value
from pgstrata.workload.core.options import NamesFiles
from pgstrata.workload.custom.contents import digest_of

STARTS = Starts(fewest=4, most=6, fewer=3)
"""A commit is started once if its counts repeat as the anchor's do, three times at most: its error is known,
and the next commits are evidence, too. Six starts of the anchor at most serve all commits."""

RUNS = "runs"
"""Folder of the runs of the commit that is measured now, below that of the watch."""


@dataclass(frozen=True)
class Series:
    """A step that is watched, in one way of measuring. asked: digest of what decides its measurements.
    smallest: change that is looked for, as a log ratio."""

    name: str
    step: str
    by: By
    work: MeasuredWork
    asked: str
    smallest: float

    @classmethod
    def of(cls, steps: WatchedSteps, step: str, work: MeasuredWork, asked: str) -> Series:
        """Returns the series of one of these steps. work: of all of them."""
        single = replace(work, steps=(step,))
        return cls(_name(steps, step), step, steps.by, single, asked, math.log1p(steps.least))


@dataclass(frozen=True)
class _Spent:
    """Seconds since `begun`, and of CPU, that measuring a commit has taken."""

    begun: float
    cpu_begun: float

    @classmethod
    def begin(cls) -> _Spent:
        """Begins now."""
        return cls(time.monotonic(), own_cpu_seconds())

    @property
    def seconds(self) -> float:
        """Until now."""
        return round(time.monotonic() - self.begun, 1)

    @property
    def cpu_seconds(self) -> float:
        """Of this program and of all that it has started."""
        return round(own_cpu_seconds() - self.cpu_begun, 1)


class Measuring:
    """Measures commits of a watch.

    say: prints a line of progress; check: raises Interrupted after a signal."""

    def __init__(
        self,
        watch: Watch,
        anchor: Stop,
        console: Console,
        say: Callable[[str], None],
        check: Callable[[], None],
    ) -> None:
        self._watch, self._anchor = watch, anchor
        self._console, self._say, self._check = console, say, check
        self._ready = False

    @cached_property
    def series(self) -> Mapping[str, Series]:
        """Every watched step by its name. Raises UsageError for a workload, step, option or config that does
        not exist, before anything is built."""
        file = self._watch.file
        by_name = {}
        for number, steps in enumerate(file.series, 1):
            with self._watch.naming(f"`series[{number}]`: "):
                work = self._work(steps)
                campaign = self.two(steps, self._anchor).campaign()
            asked = digest(
                {
                    **work.question(),
                    "by": steps.by,
                    "server": self._anchor.variant.model_dump(mode="json", exclude={"server"}),
                    "files": _files(campaign, self._anchor.variant),
                }
            )[:16]
            for step in steps.steps:
                series = Series.of(steps, step, work, asked)
                by_name[series.name] = series
        return by_name

    @cached_property
    def epoch(self) -> str:
        """The epoch of values that this machine measures."""
        return self.epoch_of(machine.kind_of_code())

    def epoch_of(self, kind: str) -> str:
        """Returns the digest of what makes values comparable: kind of machine, compiler, anchor and way of
        counting."""
        return digest(
            {"kind": kind, "cc": self._recipe.cc, "anchor": self._anchor.id, "counted": COUNTED_AS}
        )[:16]

    @cached_property
    def _recipe(self) -> Build:
        return recipe_of(self._anchor.variant, self._watch.file.series[0].workload)

    def measure(self, stop: Stop, tries: int, known: Iterable[CommitValues] = ()) -> CommitValues:
        """Measures every step of a commit. tries: how often it was measured before. known: commits with all
        their values; one that executes the same code is not measured, and has their values.

        Raises ServerError where the anchor cannot be measured or the machine is at fault, StoreError,
        UsageError, Interrupted. A commit that does not build, or whose server does not run, is skipped, with
        the reason.
        """
        if not self._ready:
            self._build(self._anchor)
            self._ready = True
        spent = _Spent.begin()
        # Where measuring it was interrupted, the server is of this watch all the same.
        mark = self._watch.folder / RUNS / f"{stop.id[:12]}.building"
        is_of_watch = mark.exists() or not self._key(stop)
        if is_of_watch:
            with storing("note that a server is built", mark.parent):
                own_results(mark.parent)
                mark.touch(mode=0o600)
        try:
            server = self._build(stop)
        except (BuildError, ServerError) as error:
            if of_machine(error):
                raise
            return self._skipped(stop, error.message, spent)
        built = spent.seconds, spent.cpu_seconds
        code = code_digest(server.bin_dir) if server.bin_dir is not None else ""
        key = self._key(stop) if is_of_watch else ""
        if twin := next((values for values in known if code and values.code == code), None):
            self._say(f"  {stop.name} executes the same code as {twin.commit[:10]}: it is not measured")
            self._remove_runs()
            return structs.replace(
                twin,
                commit=stop.id,
                at=utc_now(),
                seconds=spent.seconds,
                cpu_seconds=spent.cpu_seconds,
                build_seconds=built[0],
                build_cpu_seconds=built[1],
                built=key,
                same_as=twin.same_as or twin.commit,
            )
        others = OtherLoad()
        values: dict[str, Value] = {}
        missing: dict[str, str] = {}
        with Templates() as templates:
            for steps in self._watch.file.series:
                self._check()
                try:
                    results = self._results(steps, stop, templates)
                except OtherFailedError as error:
                    return self._skipped(stop, error.message, spent)
                for step, result in results.items():
                    name = _name(steps, step)
                    if isinstance(result, str):
                        missing[name] = result
                    else:
                        values[name] = _value(self.series[name], result)
        self._remove_runs()
        return CommitValues(
            version=VERSION,
            commit=stop.id,
            epoch=self.epoch,
            at=utc_now(),
            seconds=spent.seconds,
            other_load=round(others.share(), 3),
            tries=tries + 1,
            values=values,
            missing=missing,
            built=key,
            cpu_seconds=spent.cpu_seconds,
            build_seconds=built[0],
            build_cpu_seconds=built[1],
            code=code,
        )

    def _skipped(self, stop: Stop, why: str, spent: _Spent) -> CommitValues:
        self._say(f"  {stop.name} is skipped: {why}")
        self._remove_runs()
        return CommitValues(
            version=VERSION,
            commit=stop.id,
            epoch=self.epoch,
            at=utc_now(),
            seconds=spent.seconds,
            cpu_seconds=spent.cpu_seconds,
            skipped=why[:2000],
        )

    def _results(
        self, steps: WatchedSteps, stop: Stop, templates: Templates
    ) -> Mapping[str, MeasuredRatio | str]:
        """Measures the steps of one workload, unless that was done already. Its runs stay until the commit is
        measured: what is interrupted goes on."""
        two = self.two(steps, stop)
        if steps.by == "rate":
            return two.measure_each(self._console)
        anchor = self._lasting() / "anchor"
        own_results(anchor)
        return count_each(
            two,
            steps.least,
            self._console,
            anchor / digest(two.work.question())[:16],
            with_functions=False,
            templates=templates,
            starts=STARTS,
        )

    def _remove_runs(self) -> None:
        """Removes what the values were computed from: the search of an alarm measures commits itself."""
        remove_tree(self._watch.folder / RUNS)

    def two(self, steps: WatchedSteps, stop: Stop) -> TwoServers:
        """Returns what is measured of a commit beside the anchor, of the steps of one workload."""
        name = f"{stop.id[:12]}-{steps.workload}-{steps.by}"
        folder = self._watch.folder / RUNS / name
        return TwoServers(self._work(steps), self._anchor.variant, stop.variant, name, folder)

    def _lasting(self) -> Path:
        """Returns the folder in which starts of the anchor stay."""
        return self._watch.folder

    def _work(self, steps: WatchedSteps) -> MeasuredWork:
        file = self._watch.file
        return steps.work(file.seed, file.data_dir, tuple(file.keep_settings))

    def _build(self, stop: Stop) -> Server:
        return build_server(self._work(self._watch.file.series[0]), stop.variant, self._say, self._check)

    def _key(self, stop: Stop) -> str:
        """Returns the key of the commit's server in the cache; empty if it is not there."""
        repo, _, commit = stop.variant.server.removeprefix("git:").rpartition("#")
        with suppress(BuildError, ServerError):
            if there := find_built(tree_of(Path(repo), commit), self._recipe):
                return there.key
        return ""


def _name(steps: WatchedSteps, step: str) -> str:
    """Returns the name of the series of a step."""
    return f"{steps.workload} {step}" + (" by rate" if steps.by == "rate" else "")


def _files(campaign: Campaign, variant: Variant) -> dict[str, str]:
    """Returns the digests of scripts and config files: a file that is edited asks another question."""
    options = campaign.workloads[0].options
    names = set(options.files()) if isinstance(options, NamesFiles) else set()
    names |= {str(path) for name in variant.config if (path := find_config_file(name, Path.cwd()).path)}
    return {name: digest_of(Path(name)) for name in sorted(names)}


def _value(series: Series, result: MeasuredRatio) -> Value:
    """Returns the value of a measured ratio; its error includes the error that stays with a build."""
    return Value(
        asked=series.asked,
        log_ratio=result.log_ratio,
        error=math.hypot(result.error, BUILD_ERROR[series.by]),
        pairs=result.pairs,
        anchor=result.base_rate,
        commit=result.other_rate,
        unit=result.unit,
    )


def utc_now() -> str:
    """Returns the time as ISO 8601, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


__all__ = ["Measuring", "Series", "utc_now"]
