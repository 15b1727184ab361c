"""A search from its first build to the end: builds, measures, writes down, and can be stopped anywhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from pgstrata.campaign.checked import Campaign
from pgstrata.campaign.file.reading import check_study
from pgstrata.campaign.study import Study, Variant, Workload
from pgstrata.count.measure.counted_pair import count_two
from pgstrata.errors import BuildError, ServerError
from pgstrata.measure.interrupt import Interrupts
from pgstrata.measure.progress import plain_lines
from pgstrata.measure.two_servers import MeasuredRatio, MeasuredWork, OtherFailedError, TwoServers
from pgstrata.observe.other_load import OtherLoad
from pgstrata.observe.profile import unavailable
from pgstrata.search.bisect import state as states
from pgstrata.search.bisect.line import Range, Stop
from pgstrata.search.bisect.procedure import By, Conclusion, Procedure, Task, TaskOutcome, change_of
from pgstrata.search.bisect.state import Measurement, SetAside, State
from pgstrata.server.config.resolve import find_config_file
from pgstrata.server.find.acquire import acquire
from pgstrata.store.lock import ResultsLock
from pgstrata.workload.core.options import NamesFiles
from pgstrata.workload.custom.contents import digest_of

RUNS = "runs"
"""Folder of the runs, below that of the search."""

GOOD = "good"
"""Folder of the good end's counts, likewise: of all comparisons with it."""

TRIES = 3
"""How often a comparison by the rate is made beside others that use the CPUs, before it is taken as it is."""


@dataclass(frozen=True)
class SearchSettings:
    """What is asked. smallest: share below which no difference is looked for; most_seconds: after which no
    new measurement is begun, None for no limit; profile: of what is found, where perf can work; by: the rate
    of the step, or instructions per operation."""

    line: Range
    work: MeasuredWork
    folder: Path
    smallest: float = 0.01
    most_seconds: float | None = None
    profile: bool = True
    by: By = "rate"

    def question(self) -> dict[str, Any]:
        """What decides the measurements, as the state has it."""
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
    """What a search says at its end. stopped: why it ended before, or empty."""

    search: SearchSettings
    state: State
    conclusion: Conclusion
    stopped: str = ""


def hunt(search: SearchSettings, console: Console) -> SearchResult:
    """Goes on with a search, or begins it; what is finished is on disk whenever this ends.

    Raises UsageError where the folder holds another search or the step is not there, ServerError where an end
    cannot be measured, StoreError where nothing can be stored or another pgstrata is at it, Interrupted.
    """
    begun = time.monotonic()
    say = plain_lines(console)
    question = search.question() | _files(check(search), search.line)
    with ResultsLock(search.folder), Interrupts(say) as interrupts:
        state = states.begin(search.folder, search.line, question)
        states.save(search.folder, state)
        for note in search.line.notes:
            say(f"note: {note}")
        if state.measured or state.set_aside:
            say(f"going on: {len(state.measured)} measurements are there already")
        hunting = _Hunt(search, state, console, say, interrupts.check)
        while True:
            procedure = state.procedure(math.log1p(search.smallest))
            task = procedure.next()
            if task is None:
                return SearchResult(search, state, procedure.conclusion())
            interrupts.check()
            if search.most_seconds is not None and time.monotonic() - begun > search.most_seconds:
                stopped = f"after {search.most_seconds:.0f} s (--max-seconds)"
                return SearchResult(search, state, procedure.conclusion(), stopped)
            hunting.do(procedure, task)
            states.save(search.folder, state)


def check(search: SearchSettings) -> Campaign:
    """The campaign of both ends. Raises UsageError for a workload, step, config or build that is not there,
    before anything is built."""
    first, last = search.line.stops[0], search.line.stops[-1]
    return TwoServers(search.work, first.variant, last.variant, "check", search.folder / RUNS).campaign()


def _files(campaign: Campaign, line: Range) -> dict[str, dict[str, str]]:
    """The content of scripts and configs, for the question: one that is edited asks another."""
    options = campaign.workloads[0].options
    names = set(options.files()) if isinstance(options, NamesFiles) else set()
    config_files = {name for stop in line.stops for name in stop.variant.config}
    names |= {str(own) for name in config_files if (own := find_config_file(name, Path.cwd()).path)}
    return {"files": {name: digest_of(Path(name)) for name in sorted(names)}} if names else {}


class _Hunt:
    """The tasks of a search, one after the other. check: raises Interrupted after a signal."""

    def __init__(
        self,
        search: SearchSettings,
        state: State,
        console: Console,
        say: Callable[[str], None],
        check: Callable[[], None],
    ) -> None:
        self._search, self._state = search, state
        self._console, self._say, self._check = console, say, check
        self._ready: set[int] = set()
        """Positions whose servers are at hand."""

    def do(self, procedure: Procedure, task: Task) -> None:
        """One task: its outcome, or what cannot be measured, is in the state afterwards."""
        search, state = self._search, self._state
        self._say(_announced(search.line, procedure, task))
        begun = time.monotonic()
        for position in {task.base, task.other} - self._ready:
            stop = search.line.stops[position]
            try:
                build_server(search.work, stop.variant, self._say, self._check)
            except (BuildError, ServerError) as error:
                if position in (0, search.line.n) or of_machine(error):
                    raise
                _set_aside(state, position, error.message, self._say, stop)
                return
            self._ready.add(position)
        try:
            entry = self._quietly(task, time.monotonic() - begun)
        except OtherFailedError as error:
            if task.other == search.line.n:
                raise
            _set_aside(state, task.other, error.message, self._say, search.line.stops[task.other])
            return
        state.measured.append(entry)
        what = "instructions " if search.by == "instructions" else ""
        ratio = change_of(entry.log_ratio, search.by)
        error_ = TaskOutcome(0, 1, entry.log_ratio, entry.error, search.by).outcome.error
        name = search.line.stops[task.other].name
        self._say(f"  {name}: {what}{ratio:+.2%} ± {error_:.2%} in {entry.seconds:.0f} s")

    def _quietly(self, task: Task, build_seconds: float) -> Measurement:
        """A comparison, made again where others used the CPUs beside it. Where they went on to the last try
        of the one before, a quieter moment is not to be expected. Raises as `TwoServers.measure`, and
        StoreError."""
        search, state = self._search, self._state
        tries = 1 if search.by == "instructions" or any(m.disturbed for m in state.measured[-1:]) else TRIES
        while True:
            begun, others = time.monotonic(), OtherLoad()
            name = f"m{len(state.measured) + len(state.disturbed) + 1:03d}-{task.base}-{task.other}"
            measured = self._measure(task, name)
            seconds = build_seconds + time.monotonic() - begun
            entry = _entry(task, measured, build_seconds, seconds, others.share())
            tries -= 1
            if not entry.disturbed or tries == 0:
                return entry
            self._say(f"  others used {entry.others:.0%} of the CPUs meanwhile: measured again")
            state.disturbed.append(entry)
            states.save(search.folder, state)
            self._check()
            build_seconds = 0.0

    def _measure(self, task: Task, name: str) -> MeasuredRatio:
        search = self._search
        stops = search.line.stops
        work = search.work
        if search.by == "instructions":
            base, other = stops[task.base].variant, stops[task.other].variant
            two = TwoServers(work, base, other, name, search.folder / RUNS)
            # A count has no drift that the good end would have to be counted again for.
            lasting = search.folder / GOOD if task.base == 0 else None
            return count_two(two, search.smallest, self._console, lasting)
        profile = task.why == "culprit" and search.profile and not unavailable()
        if profile:
            # Samples of the function that moved are few: 3 % of a hundred per second.
            work = replace(work, seconds=max(work.seconds, 20.0))
        base, other = stops[task.base].variant, stops[task.other].variant
        return TwoServers(work, base, other, name, search.folder / RUNS, profile).measure(self._console)


def build_server(
    work: MeasuredWork, variant: Variant, say: Callable[[str], None], check: Callable[[], None]
) -> None:
    """Builds or fetches a server before its measurement begins, never beside one. Raises ServerError."""
    campaign = check_study(Study(variants=[variant], workloads=[Workload(name=work.workload)]))
    how = campaign.build_of(campaign.variants[0])
    acquire(variant.server, how, say=say, folder=campaign.folder, check=check)


def of_machine(error: ServerError) -> bool:
    """Whether it is the machine's fault, not the commit's, as a full disk: the same commit may well build
    later."""
    return not isinstance(error, BuildError) or not error.lasting


def _set_aside(state: State, position: int, why: str, say: Callable[[str], None], stop: Stop) -> None:
    state.set_aside.append(SetAside(position, why[:2000], _now()))
    say(f"  {stop.name} is skipped: {why}")


def _announced(line: Range, procedure: Procedure, task: Task) -> str:
    number = len(procedure.seen) + 1
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


def _entry(
    task: Task, measured: MeasuredRatio, build_seconds: float, seconds: float, others: float
) -> Measurement:
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
        at=_now(),
        others=round(others, 3),
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


__all__ = ["RUNS", "SearchResult", "SearchSettings", "build_server", "check", "hunt", "of_machine"]
