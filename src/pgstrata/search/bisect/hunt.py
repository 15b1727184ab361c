"""A search from its first build to the end: builds, measures, writes down, and can be stopped anywhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from pgstrata.campaign.checked import Campaign
from pgstrata.campaign.file.reading import check_study
from pgstrata.campaign.study import Study, Variant, Workload
from pgstrata.count.measure.countable import check_counted
from pgstrata.count.measure.counted_pair import count_two
from pgstrata.errors import BuildError, PgstrataError, ServerError, UsageError
from pgstrata.measure.interrupt import Interrupts
from pgstrata.measure.progress import plain_lines
from pgstrata.measure.two_servers import (
    MeasuredRatio,
    MeasuredWork,
    OtherFailedError,
    TooFewPairsError,
    TwoServers,
    WaitedError,
)
from pgstrata.numbers import agreeing, counted
from pgstrata.observe.other_load import OtherLoad
from pgstrata.observe.profile import unavailable
from pgstrata.search.bisect import state as states
from pgstrata.search.bisect.executed import FEWEST, prior_along, words_of
from pgstrata.search.bisect.line import Range, Stop
from pgstrata.search.bisect.procedure import (
    Asked,
    By,
    Conclusion,
    Procedure,
    Task,
    TaskOutcome,
    change_of,
)
from pgstrata.search.bisect.search import Outcome
from pgstrata.search.bisect.state import Measurement, SameCode, SetAside, State
from pgstrata.search.bisect.ways import Ways, other_way
from pgstrata.server.config.resolve import find_config_file
from pgstrata.server.find.acquire import acquire
from pgstrata.server.find.model import Server
from pgstrata.server.find.recipe import Build
from pgstrata.source.code_digest import code_digest
from pgstrata.store.lock import ResultsLock
from pgstrata.workload.core.options import NamesFiles
from pgstrata.workload.custom.contents import digest_of

RUNS = "runs"
"""Folder of the runs, below that of the search."""

GOOD = "good"
"""Folder of the good end's counts, likewise: of all comparisons with it."""

COUNTED_SMALLEST = 0.002
"""Difference of instructions that is looked for where they are not what is asked for."""

MOST_PLANS, MOST_WORDS = 5, 500
"""Changed plans that are kept of a comparison, and characters of each."""

TRIES = 3
"""How often a comparison by the rate is made beside others that use the CPUs, before it is taken as it is."""


@dataclass(frozen=True)
class SearchSettings:
    """What is asked. smallest: share below which no difference is looked for; most_seconds: after which no
    new measurement is begun, None for no limit; profile: of what is found, where perf can work; by: the rate
    of the step, instructions per operation, or that of both by which the ends differ; both_ways: the ends are
    measured by the other one as well."""

    line: Range
    work: MeasuredWork
    folder: Path
    smallest: float = 0.01
    most_seconds: float | None = None
    profile: bool = True
    by: Asked = "rate"
    both_ways: bool = True

    def least(self, by: By) -> float:
        """Returns the share below which no difference is looked for by this measure."""
        return min(self.smallest, COUNTED_SMALLEST) if self.by != by == "instructions" else self.smallest

    def ways(self, state: State) -> Ways:
        """Returns the search by each measure, with all that was measured. Raises StoreError."""
        each: dict[By, Procedure] = {
            by: state.procedure(math.log1p(self.least(by)), by) for by in ("rate", "instructions")
        }
        asked: Asked = state.only if self.by == "both" and state.only else self.by
        return Ways(asked, each, not self.both_ways or bool(state.one_way))

    def question(self) -> dict[str, Any]:
        """Returns everything that decides the measurements, as the state stores it."""
        first = self.line.stops[0].variant
        common = first.model_dump(mode="json", exclude_unset=True, exclude={"server"})
        return {
            **self.work.question(),
            "kind": self.line.kind,
            "repository": str(self.line.repo) if self.line.repo else None,
            "servers": common if self.line.kind != "config" else first.server,
            "smallest": self.smallest,
            **({"by": self.by} if self.by != "rate" else {}),
        }


@dataclass(frozen=True)
class SearchResult:
    """What a search says at its end, or so far. stopped: why it ended before, or empty; by: what the search
    goes by; against: what the other measure says of the ends, where its sign is another one."""

    search: SearchSettings
    state: State
    conclusion: Conclusion
    stopped: str = ""
    by: By = "rate"
    against: Outcome | None = None
    goes_on: bool = False

    @property
    def is_same(self) -> bool:
        """Whether both ends execute the same code."""
        return any((pair.position, pair.other) == (self.search.line.n, 0) for pair in self.state.same)


def result_of(search: SearchSettings, state: State, stopped: str = "") -> SearchResult:
    """Returns what a search says of all that was measured. Raises StoreError."""
    ways = search.ways(state)
    conclusion = ways.procedures[ways.leading].conclusion()
    return SearchResult(search, state, conclusion, stopped, ways.leading, ways.disagreement())


def hunt(
    search: SearchSettings,
    console: Console,
    show: Callable[[SearchResult], object] | None = None,
    spread: Callable[[State, float, Interrupts], None] | None = None,
) -> SearchResult:
    """Goes on with a search, or begins it; what is finished is on disk whenever this ends.

    show: takes what is known after each measurement. spread: has commits between the ends counted by other
    machines, until a time of the monotonic clock, and adds them to the state.

    Raises UsageError where the folder holds another search or the step is not there, ServerError where an end
    cannot be measured, StoreError where nothing can be stored or another pgstrata is at it, Interrupted.
    """
    begun = time.monotonic()
    say = plain_lines(console)
    campaign = check(search)
    question = search.question() | _files(campaign, search.line)
    with ResultsLock(search.folder), Interrupts(say) as interrupts:
        state = states.begin(search.folder, search.line, question)
        states.save(search.folder, state)
        for note in search.line.notes:
            say(f"note: {note}")
        if state.measured or state.set_aside:
            say(f"going on: {counted(len(state.measured), 'measurement')} there already")
        hunting = _Hunt(search, state, campaign, console, say, interrupts.check)
        while True:
            next_ = search.ways(state).next()
            if next_ is None:
                return result_of(search, state)
            if next_[1].why == "search" and hunting.weigh():
                continue  # now the likelier commits come first
            interrupts.check()
            if search.most_seconds is not None and time.monotonic() - begun > search.most_seconds:
                return result_of(search, state, f"after {search.most_seconds:.0f} s (--max-seconds)")
            if spread is not None and (next_[0], next_[1].why) == ("instructions", "search"):
                before = state.steps
                until = begun + search.most_seconds if search.most_seconds is not None else math.inf
                spread(state, until, interrupts)
                if state.steps > before:
                    continue
            hunting.do(*next_)
            states.save(search.folder, state)
            if show is not None:
                show(replace(result_of(search, state), goes_on=True))


def check(search: SearchSettings) -> Campaign:
    """Returns the campaign of both ends. Raises UsageError for a workload, step, config or build that is not
    there, before anything is built."""
    first, last = search.line.stops[0], search.line.stops[-1]
    two = TwoServers(search.work, first.variant, last.variant, "check", search.folder / RUNS)
    campaign = two.campaign()
    if search.by == "instructions":
        check_counted(campaign, search.work.steps)
    return campaign


def _files(campaign: Campaign, line: Range) -> dict[str, dict[str, str]]:
    """Returns digests of the scripts and configs, for the question: an edited file makes another question."""
    options = campaign.workloads[0].options
    names = set(options.files()) if isinstance(options, NamesFiles) else set()
    config_files = {name for stop in line.stops for name in stop.variant.config}
    names |= {str(path) for name in config_files if (path := find_config_file(name, Path.cwd()).path)}
    return {"files": {name: digest_of(Path(name)) for name in sorted(names)}} if names else {}


class _Hunt:
    """The tasks of a search, one after the other. check: raises Interrupted after a signal."""

    def __init__(
        self,
        search: SearchSettings,
        state: State,
        campaign: Campaign,
        console: Console,
        say: Callable[[str], None],
        check: Callable[[], None],
    ) -> None:
        self._search, self._state, self._campaign = search, state, campaign
        self._console, self._say, self._check = console, say, check
        self._ready: set[int] = set()
        """Positions whose servers are at hand."""
        if search.both_ways and search.by != "instructions" and not state.one_way:
            try:
                check_counted(campaign, search.work.steps)
            except UsageError as error:
                self._only_one_way("rate", error)

    def do(self, by: By, task: Task) -> None:
        """Does a single task: its outcome, or the server that cannot be measured, is in the state
        afterwards."""
        search, state = self._search, self._state
        procedure = state.procedure(math.log1p(search.least(by)), by)
        self._say(_announced(search.line, len(state.measured) + 1, procedure, task))
        begun = time.monotonic()
        for position in sorted({task.base, task.other} - self._ready):
            if not self._build(position):
                return
        if task.why in ("ends", "search") and self._is_same(task.other):
            return
        try:
            entry = self._quietly(by, task, time.monotonic() - begun)
        except OtherFailedError as error:
            if task.other == search.line.n:
                raise
            set_aside(state, task.other, error.message, self._say, search.line.stops[task.other])
            return
        except (UsageError, TooFewPairsError) as error:
            if search.by == by or (search.by == "both" and state.only):
                raise
            self._only_one_way(other_way(by), error)
            return
        state.measured.append(entry)
        what = "instructions " if by == "instructions" else ""
        ratio = change_of(entry.log_ratio, by)
        error_ = TaskOutcome(0, 1, entry.log_ratio, entry.error, by).outcome.error
        name = search.line.stops[task.other].name
        self._say(f"  {name}: {what}{ratio:+.2%} ± {error_:.2%} in {entry.seconds:.0f} s")

    def _build(self, position: int) -> bool:
        """Builds or fetches the server of a position; False where that fails, and it is set aside."""
        search, state = self._search, self._state
        stop = search.line.stops[position]
        try:
            server = build_server(search.work, stop.variant, self._say, self._check)
        except (BuildError, ServerError) as error:
            if position in (0, search.line.n) or of_machine(error):
                raise
            set_aside(state, position, error.message, self._say, stop)
            return False
        self._ready.add(position)
        if search.line.kind == "commit" and position not in state.codes and server.bin_dir is not None:
            state.codes[position] = code_digest(server.bin_dir)
        return True

    def _is_same(self, position: int) -> bool:
        """Returns whether a server executes the same code as a server that was built before, so that there is
        nothing to measure, and records that."""
        state, stops = self._state, self._search.line.stops
        code = state.codes.get(position)
        others = [p for p, other in state.codes.items() if code and other == code and p != position]
        if not others or any(position in (m.base, m.other) for m in state.measured):
            return False
        nearest = 0 if 0 in others else min(others, key=lambda p: abs(p - position))
        state.same.append(SameCode(position, nearest, states.now()))
        self._say(
            f"  {stops[position].name} executes the same code as {stops[nearest].name}: it is not measured"
        )
        return True

    def weigh(self) -> bool:
        """Finds how likely each commit is to have made the change, once, before the first between the ends
        is built. True where it is known only now."""
        search, state, line = self._search, self._state, self._search.line
        if state.prior or line.repo is None or line.n < FEWEST:
            return False
        counts = [m for m in state.measured_by("instructions") if (m.base, m.other) == (0, line.n)]
        campaign = counts[0].campaign if counts else ""
        try:
            words = words_of(self._campaign.workloads[0], search.work.step)
            prior = prior_along(line, search.folder / RUNS, campaign, search.work.step, words, self._check)
        except ServerError as error:
            self._say(f"note: the commits are not weighed: {error.message}")
            prior = [1.0 / line.n] * line.n
        state.prior = [float(f"{p:.4g}") for p in prior]
        likely = sum(p > 2 / line.n for p in prior)
        by = "what they change, and the functions counted" if campaign else "what they change"
        are = agreeing(likely, "is", "are")
        self._say(f"the commits are weighed by {by}: {likely} of {line.n} {are} more likely than most")
        return True

    def _only_one_way(self, by: By, error: PgstrataError) -> None:
        self._state.only = by
        self._state.one_way = error.message[:2000]
        self._say(f"note: the ends are not measured both ways: {error.message}")

    def _quietly(self, by: By, task: Task, build_seconds: float) -> Measurement:
        """Makes a comparison, again if other programs used the CPUs meanwhile (`tries_of`). Raises as
        `TwoServers.measure`, and StoreError."""
        search, state = self._search, self._state
        tries = tries_of(by, search.work.other_load, state.measured_by("rate"))
        while True:
            begun, others = time.monotonic(), OtherLoad()
            name = f"m{len(state.measured) + len(state.disturbed) + 1:03d}-{task.base}-{task.other}"
            try:
                measured = self._measure(by, task, name)
            except WaitedError as error:
                tries -= 1
                if tries == 0:
                    raise
                self._say(f"  {error.message}: measured again")
                self._check()
                continue
            seconds = build_seconds + time.monotonic() - begun
            entry = entry_of(by, task, measured, build_seconds, seconds, others.share())
            tries -= 1
            if not entry.disturbed or tries == 0:
                return entry
            self._say(f"  others used {entry.others:.0%} of the CPUs meanwhile: measured again")
            state.disturbed.append(entry)
            states.save(search.folder, state)
            self._check()
            build_seconds = 0.0

    def _measure(self, by: By, task: Task, name: str) -> MeasuredRatio:
        search = self._search
        stops = search.line.stops
        work = search.work
        if by == "instructions":
            base, other = stops[task.base].variant, stops[task.other].variant
            two = TwoServers(work, base, other, name, search.folder / RUNS)
            # A count has no drift that the good end would have to be counted again for.
            lasting = search.folder / GOOD if task.base == 0 else None
            return count_two(two, search.least(by), self._console, lasting)
        profile = task.why == "culprit" and search.profile and not unavailable()
        if profile:
            # Samples of the function that moved are few: 3 % of a hundred per second.
            work = replace(work, seconds=max(work.seconds, 20.0))
        base, other = stops[task.base].variant, stops[task.other].variant
        return TwoServers(work, base, other, name, search.folder / RUNS, profile).measure(self._console)


def tries_of(by: By, other_load: float, timed: Sequence[Measurement]) -> int:
    """Returns how often a comparison is made beside other programs that use the CPUs: once where they may use
    all of them, or counts do not depend on it. If they did so up to the last try of the comparison before, a
    quieter moment is not to be expected."""
    once = by == "instructions" or other_load >= 1 or any(m.disturbed for m in timed[-1:])
    return 1 if once else TRIES


def build_server(
    work: MeasuredWork, variant: Variant, say: Callable[[str], None], check: Callable[[], None]
) -> Server:
    """Builds or fetches a server before its measurement begins, never beside one. Raises ServerError."""
    campaign = check_study(Study(variants=[variant], workloads=[Workload(name=work.workload)]))
    how = campaign.build_of(campaign.variants[0])
    return acquire(variant.server, how, say=say, folder=campaign.folder, check=check)


def recipe_of(variant: Variant, workload: str) -> Build:
    """Returns how the server of a commit is built. Raises UsageError for a workload, config or build that
    does not exist."""
    recipe = check_study(Study(variants=[variant], workloads=[Workload(name=workload)])).build_of(variant)
    assert recipe is not None  # a commit is built
    return recipe


def of_machine(error: ServerError) -> bool:
    """Returns whether an error is the machine's fault, not the commit's, as a full disk: the same commit may
    well build later."""
    return not isinstance(error, BuildError) or not error.lasting


def set_aside(state: State, position: int, why: str, say: Callable[[str], None], stop: Stop) -> None:
    """Notes that a position cannot be measured, and says so."""
    state.set_aside.append(SetAside(position, why[:2000], states.now()))
    say(f"  {stop.name} is skipped: {why}")


def _announced(line: Range, number: int, procedure: Procedure, task: Task) -> str:
    other, base = line.stops[task.other], line.stops[task.base]
    match task.why:
        case "ends":
            return f"{number}: the bad end {other.name} against the good end {base.name}"
        case "culprit":
            return f"{number}: {other.name}, which was found, against {base.name} before it"
        case "doubt":
            return f"{number}: {other.name} once more, because neighbours do not differ as the ends do"
    known = procedure.conclusion()
    left = sum(group.size for group in known.groups)
    return f"{number}: {other.name} ({task.other} of {line.n}), {left} {line.kind}s in question"


def entry_of(
    by: By, task: Task, measured: MeasuredRatio, build_seconds: float, seconds: float, others: float
) -> Measurement:
    """Returns a ratio as the state has it."""
    return Measurement(
        base=task.base,
        other=task.other,
        why=task.why,
        log_ratio=measured.log_ratio,
        error=measured.error,
        pairs=measured.pairs,
        base_rate=measured.base_rate,
        other_rate=measured.other_rate,
        unit=measured.unit,
        campaign=measured.campaign,
        measured_seconds=round(measured.seconds, 3),
        build_seconds=round(build_seconds, 3),
        seconds=round(seconds, 3),
        at=states.now(),
        others=round(others, 3),
        by=by,
        plans=[plan[:MOST_WORDS] for plan in measured.plans[:MOST_PLANS]],
        cpu=measured.cpu,
    )


__all__ = [
    "RUNS",
    "SearchResult",
    "SearchSettings",
    "build_server",
    "check",
    "entry_of",
    "hunt",
    "of_machine",
    "recipe_of",
    "result_of",
    "set_aside",
    "tries_of",
]
