"""Tries an upgrade: the log captured, the dump loaded into every version, the sessions replayed in turns."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import msgspec
from rich.console import Console

from pgstrata import __version__, numbers
from pgstrata.campaign.checked import Campaign
from pgstrata.errors import ServerError, StoreError, UsageError
from pgstrata.files import digests
from pgstrata.files.bounded import BoundError, json_as
from pgstrata.files.disk import read_regular, replacing, storing
from pgstrata.files.ownership import own_folder
from pgstrata.files.user_files import in_command, shown
from pgstrata.measure.campaign import data_root, execute, plan_campaign
from pgstrata.measure.interrupt import Interrupts
from pgstrata.measure.progress import plain_lines
from pgstrata.server.config.conf_file import read_assignments
from pgstrata.server.connect.secrets import without_secrets
from pgstrata.server.features import NEWEST
from pgstrata.server.find.acquire import acquire
from pgstrata.store import Results
from pgstrata.store.lock import ResultsLock
from pgstrata.traffic.capture import capture
from pgstrata.traffic.captured import Captured, Header, is_captured
from pgstrata.traffic.replay.statistics import capture_statistics
from pgstrata.traffic.replay.steps import database_of
from pgstrata.traffic.upgrade.campaign import campaign, labels
from pgstrata.traffic.upgrade.checklist.changes import crossed, table_digest
from pgstrata.traffic.upgrade.checklist.rehearsal import Rehearsal, rehearse
from pgstrata.traffic.upgrade.question import INPUT, Question, spec_of
from pgstrata.traffic.upgrade.versions import Servers, fit
from pgstrata.traffic.upgrade.without import dependents
from pgstrata.traffic.window import Window, busiest, cut, window_of
from pgstrata.workload.custom.contents import digest_of
from pgstrata.workload.custom.options import CustomOptions
from pgstrata.workload.custom.setup import setup

RUNS = "runs"

MOST_KEPT_BYTES = 256 << 20
"""Of what the servers said of a schema, as it is kept."""


@dataclass(frozen=True)
class TriedUpgrade:
    """An upgrade that was tried.

    campaign: whose runs lie below `runs` of the folder; captured: the file with the traffic that is replayed,
    and its header; whole: the file of the whole log, which is checked; failed: by label why a version could
    not be measured; rehearsal: what the servers said of the schema, None where unchecked says why there is
    none; measured: there are runs.
    """

    question: Question
    campaign: Campaign
    servers: Servers
    labels: Sequence[str]
    header: Header
    notes: Sequence[str]
    captured: Path
    whole: Path
    failed: Mapping[str, str] = field(default_factory=dict)
    rehearsal: Rehearsal | None = None
    unchecked: str = ""
    settings: Sequence[tuple[str, str]] = ()
    """Of the config files that the question names, in their order."""
    measured: bool = False
    without: Mapping[str, str] = field(default_factory=dict)
    """Statements of the dump that are left out, and why."""

    @property
    def load_options(self) -> CustomOptions:
        """What the dumps are loaded by."""
        return load_options(self.question, self.without)

    @property
    def runs(self) -> Path:
        """The results folder."""
        return self.question.folder / RUNS

    @property
    def digest(self) -> str:
        """The digest of the question, by which its pages are told from those of others."""
        return self.campaign.name.rpartition("-")[2]


def prepare(question: Question, console: Console, interrupts: Interrupts) -> TriedUpgrade:
    """Prepares everything before the first server starts: errors in the question are reported here.

    Raises UsageError for it, ServerError for a server that is not to be had, StoreError where nothing can be
    written.
    """
    say = plain_lines(console)
    servers = servers_of(question, say, interrupts)
    file = whole = captured_file(question, say, interrupts)
    with Captured(file) as captured:
        header = captured.header
    without = left_out(question, servers, say, interrupts)
    if question.window is not None or question.skip_idle:
        chosen = Window(header.begin, header.end + 1)
        if question.window is not None:
            chosen = window_of(question.window, header)
        file, header = _part(question, file, chosen, skip_idle=question.skip_idle)
    upgrade_campaign, rounds = campaign(
        question, _name(question, file), servers, file, header, question.folder / RUNS, without
    )
    notes = list(servers.notes)
    if rounds.log_seconds is not None and question.window is None and not question.checklist_only:
        chosen = busiest(file, rounds.log_seconds, question.database)
        file, header = _part(question, file, chosen)
        upgrade_campaign, rounds = campaign(
            question, _name(question, file), servers, file, header, question.folder / RUNS, without
        )
        notes.append(
            f"{_budget(question)} is less than four rounds of the whole log take on all servers: its busiest "
            f"window is replayed, {chosen.text} (--window, --minutes, --seconds, --speed)"
        )
    if without:
        notes.append(
            f"without {', '.join(question.without_extensions)} {numbers.counted(len(without), 'statement')} "
            f"of the dump {numbers.agreeing(len(without), 'is', 'are')} left out: see Not covered"
        )
    return TriedUpgrade(
        question,
        upgrade_campaign,
        servers,
        labels(question, servers),
        header,
        notes,
        file,
        whole,
        without=without,
    )


def servers_of(question: Question, say: Callable[[str], None], interrupts: Interrupts) -> Servers:
    """Checks the question, makes its folder and finds its servers. Raises as `prepare`."""
    question.check()
    try:
        own_folder(
            question.folder, "the folder of the upgrade", advice="name another one: --results", way=True
        )
    except OSError as error:
        raise StoreError(f"{question.folder} cannot be written: {error.strerror}") from error
    extensions = [
        name
        for name in setup(load_options(question), NEWEST).extensions
        if name not in question.without_extensions
    ]
    servers = [acquire(spec_of(text), say=say, check=interrupts.check) for text in _written(question)]
    return fit(question, servers, extensions)


def left_out(
    question: Question, servers: Servers, say: Callable[[str], None], interrupts: Interrupts
) -> dict[str, str]:
    """Returns statements of the dump that need an extension that is left out, and why."""
    if not question.without_extensions:
        return {}
    return dependents(
        servers.base,
        load_options(question),
        question.without_extensions,
        folder=Path(question.data_dir) if question.data_dir else None,
        say=say,
        check=interrupts.check,
    )


def rehearsed(tried: TriedUpgrade, console: Console, interrupts: Interrupts) -> TriedUpgrade:
    """Defines the schema on every server without its rows, once for the same dumps, log and servers.

    A server that does not start is said to be unchecked. Raises StoreError, Interrupted.
    """
    say = plain_lines(console)
    question = tried.question
    plan = plan_campaign(tried.campaign, Results(tried.runs), say)
    config_files = [
        f for f in plan.variants[0].config.config_files if f.path is not None and f.name != "connections"
    ]
    settings = [(line.name, line.value) for f in config_files for line in read_assignments(f, [])]
    tried = replace(tried, settings=settings)
    servers = {variant.label: (variant.server, variant.config) for variant in plan.variants}
    base, *others = tried.labels
    key = [
        _name(question, tried.whole),
        *sorted(tried.without),
        *(f"{label} {servers[label][0].version}" for label in tried.labels),
    ]
    file = (
        question.folder / f"checklist-{digests.of(json.dumps([*key, table_digest(), __version__]))[:8]}.json"
    )
    if (kept := _kept(file)) is not None:
        return replace(tried, rehearsal=kept)
    say("checklist: every server gets the schema, without rows")
    old = servers[base]
    changes = {
        c.id: c for label in others for c in crossed(old[0].version_num, servers[label][0].version_num)
    }
    try:
        rehearsal = rehearse(
            tried.load_options,
            tried.whole,
            database_of(tried.campaign.workloads[0].options, tried.header).name,
            old,
            {label: servers[label] for label in others},
            list(changes.values()),
            data_root(tried.campaign),
            say=say,
            check=interrupts.check,
        )
    except ServerError as error:
        return replace(tried, unchecked=error.message)
    with storing("store the checklist", file), replacing(file) as opened:
        opened.write(msgspec.json.encode(rehearsal))
    return replace(tried, rehearsal=rehearsal)


def _kept(file: Path) -> Rehearsal | None:
    try:
        return json_as(read_regular(file, MOST_KEPT_BYTES), Rehearsal)
    except (OSError, BoundError):
        return None


def refusing(tried: TriedUpgrade) -> dict[str, str]:
    """Returns by label of a new version why its dump cannot be loaded: it refuses what the old one takes."""
    if tried.rehearsal is None:
        return {}
    reasons = {}
    for label, answers in tried.rehearsal.new.items():
        refused = [n for n in answers.definitions if n not in tried.rehearsal.old.definitions]
        if refused:
            first = refused[0]
            reasons[label] = (
                f"it refuses {numbers.counted(len(refused), 'definition')} of the dump, first "
                f"{tried.rehearsal.texts[first][:120]}: {answers.definitions[first]}"
            )
    return reasons


def carry_out(tried: TriedUpgrade, console: Console) -> TriedUpgrade:
    """Measures what is missing; a version that fails leaves, and the others go on.

    Raises ServerError where the old version, or all new ones, could not be measured; StoreError, Interrupted.
    """
    if tried.question.checklist_only:
        return tried
    refused = refusing(tried)
    if all(label in refused for label in tried.labels[1:]):
        return replace(tried, failed=refused)
    with ResultsLock(tried.question.folder):
        outcome = execute(tried.campaign, Results(tried.runs), console)
    failed = {run.key.variant: error for run, error in outcome.failed}
    base, *others = tried.labels
    if base in failed or all(label in failed for label in others):
        label = base if base in failed else others[0]
        raise ServerError(
            f"{label} could not be measured: {failed[label]}",
            f"its run, with the server's log, is below {shown(tried.runs)}; pgstrata runs --results "
            f"{in_command(tried.runs)} lists it",
        )
    return replace(tried, failed=failed, measured=True)


def _written(question: Question) -> tuple[str, ...]:
    return (question.base, *question.targets)


def load_options(question: Question, without: Mapping[str, str] | None = None) -> CustomOptions:
    """Returns the options by which workload `custom` would load the dumps. without: statements that are left
    out, and why."""
    files = tuple(str(dump) for dump in question.dumps)
    contents = {name: digest_of(Path(name)) for name in files}
    return CustomOptions.model_construct(
        setup=files,
        contents=contents,
        allow_outside=question.allow_outside,
        without=dict(without or {}),
    )


def captured_file(question: Question, say: Callable[[str], None], interrupts: Interrupts) -> Path:
    """Returns the captured file: the one that was named, one that was made of the same logs before, or a new
    one."""
    logs = question.logs
    if question.statements is not None:
        # Statistics change with every second: the same command goes on with those that it began with.
        source = digests.of(without_secrets(question.statements))[:8]
        file = question.folder / f"statements-{source}.traffic"
        if not file.exists():
            capture_statistics(question.statements, file)
        return file.absolute()
    if len(logs) == 1 and is_captured(logs[0]):
        return logs[0].absolute()
    if INPUT in logs:
        # It comes once: the same command reads another one.
        part = question.folder / f"input-{os.getpid()}.traffic"
        _capture(question, part, say, interrupts)
        return part.rename(question.folder / f"log-{digest_of(part)[:8]}.traffic").absolute()
    if any(is_captured(log) for log in logs):
        raise UsageError("--log names a captured file beside others", "name it alone, or logs only")
    parts = [f"{digest_of(log)}\n".encode() for log in logs]
    parts.append(repr((question.prefix, question.timezone, question.encoding)).encode())
    file = question.folder / f"log-{digests.of_parts(parts)[:8]}.traffic"
    if not file.exists():
        _capture(question, file, say, interrupts)
    return file.absolute()


def _capture(question: Question, to: Path, say: Callable[[str], None], interrupts: Interrupts) -> None:
    capture(
        question.logs,
        to,
        prefix=question.prefix,
        timezone=question.timezone,
        encoding=question.encoding,
        say=say,
        check=interrupts.check,
    )


def _budget(question: Question) -> str:
    """Returns the time that the user has allowed, in words."""
    if question.seconds is not None:
        return f"--seconds {question.seconds:g}"
    return numbers.duration(question.minutes * 60)


def _part(question: Question, file: Path, window: Window, *, skip_idle: bool = False) -> tuple[Path, Header]:
    """Returns a window of a captured file as a file of its own, made before or now, and its header."""
    digest = digests.of(f"{digest_of(file)} {window} {skip_idle}")[:8]
    part = question.folder.absolute() / f"window-{digest}.traffic"
    if part.exists():
        with Captured(part) as captured:
            return part, captured.header
    return part, cut(file, part, window, skip_idle=skip_idle)


def _name(question: Question, captured: Path) -> str:
    """Returns the name of the measurement: other dumps, logs or options make another one."""
    digest = question_digest(question, captured)
    return f"upgrade-{question.base}-to-{'-'.join(question.targets)}-{digest}"


def question_digest(question: Question, captured: Path | None) -> str:
    """Returns a short digest of what is asked. captured: the file that is replayed; None where statements
    were read from statistics."""
    asked = {
        **asdict(question),
        "folder": "",
        "statements": "" if captured is not None else without_secrets(question.statements or ""),
        "more": None,
        "checklist_only": False,
        "dumps": [digest_of(dump) for dump in question.dumps],
        "logs": digest_of(captured) if captured is not None else "",
        "after_load": {v: [digest_of(Path(f)) for f in files] for v, files in question.after_load.items()},
        "statistics": digest_of(question.statistics) if question.statistics is not None else None,
    }
    return digests.of(json.dumps(asked, sort_keys=True, default=str))[:8]


def page_folder(question: Question, digest: str) -> Path:
    """Makes the folder of the page of a question, beside those of other logs, windows and options."""
    folder = question.folder / f"page-{digest}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


__all__ = [
    "RUNS",
    "TriedUpgrade",
    "captured_file",
    "carry_out",
    "left_out",
    "load_options",
    "page_folder",
    "prepare",
    "question_digest",
    "refusing",
    "rehearsed",
    "servers_of",
]
