"""Tries an upgrade: the log captured, the dump loaded into every version, the sessions replayed in turns."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from rich.console import Console

from pgstrata import numbers
from pgstrata.campaign.checked import Campaign
from pgstrata.errors import ServerError, StoreError, UsageError
from pgstrata.files import digests
from pgstrata.files.ownership import own_folder
from pgstrata.files.user_files import shown
from pgstrata.measure.campaign import execute
from pgstrata.measure.interrupt import Interrupts
from pgstrata.measure.progress import plain_lines
from pgstrata.server.connect.secrets import without_secrets
from pgstrata.server.features import NEWEST
from pgstrata.server.find.acquire import acquire
from pgstrata.store import Results
from pgstrata.store.lock import ResultsLock
from pgstrata.traffic.capture import capture
from pgstrata.traffic.captured import MAGIC, Captured, Header
from pgstrata.traffic.replay.statistics import capture_statistics
from pgstrata.traffic.upgrade.campaign import campaign, labels
from pgstrata.traffic.upgrade.question import Question, spec_of
from pgstrata.traffic.upgrade.versions import Servers, fit
from pgstrata.workload.custom.contents import digest_of
from pgstrata.workload.custom.options import CustomOptions
from pgstrata.workload.custom.setup import setup

RUNS = "runs"


@dataclass(frozen=True)
class TriedUpgrade:
    """An upgrade that was tried. campaign: whose runs lie below `runs` of the folder; failed: by label why a
    version could not be measured."""

    question: Question
    campaign: Campaign
    servers: Servers
    labels: Sequence[str]
    header: Header
    notes: Sequence[str]
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def runs(self) -> Path:
        """The results folder."""
        return self.question.folder / RUNS


def prepare(question: Question, console: Console, interrupts: Interrupts) -> TriedUpgrade:
    """Everything before the first server starts: what is wrong with the question is said here.

    Raises UsageError for it, ServerError for a server that is not to be had, StoreError where nothing can be
    written.
    """
    say = plain_lines(console)
    question.check()
    try:
        own_folder(
            question.folder, "the folder of the upgrade", advice="name another one: --results", way=True
        )
    except OSError as error:
        raise StoreError(f"{question.folder} cannot be written: {error.strerror}") from error
    extensions = setup(_load(question), NEWEST).extensions
    found = [acquire(spec_of(text), say=say, check=interrupts.check) for text in _written(question)]
    servers = fit(question, found, extensions)
    file = _captured(question, say, interrupts)
    with Captured(file) as captured:
        header = captured.header
    made, rounds = campaign(question, _name(question, file), servers, file, header, question.folder / RUNS)
    notes = list(servers.notes)
    if rounds.cut:
        notes.append(
            f"{numbers.duration(question.minutes * 60)} do not hold four rounds of the whole log on all "
            f"servers: only its first {numbers.duration(rounds.seconds)} are replayed (--minutes, --seconds, "
            "--speed)"
        )
    return TriedUpgrade(question, made, servers, labels(question, servers), header, notes)


def carry_out(tried: TriedUpgrade, console: Console) -> TriedUpgrade:
    """Measures what is missing; a version that fails leaves, and the others go on.

    Raises ServerError where the old version, or all new ones, could not be measured; StoreError, Interrupted.
    """
    with ResultsLock(tried.question.folder):
        outcome = execute(tried.campaign, Results(tried.runs), console)
    failed = {run.key.variant: error for run, error in outcome.failed}
    base, *others = tried.labels
    if base in failed or all(label in failed for label in others):
        label = base if base in failed else others[0]
        raise ServerError(
            f"{label} could not be measured: {failed[label]}",
            f"its run, with the server's log, is below {shown(tried.runs)}; pgstrata runs --results "
            f"{shown(tried.runs)} lists it",
        )
    return replace(tried, failed=failed)


def _written(question: Question) -> tuple[str, ...]:
    return (question.base, *question.targets)


def _load(question: Question) -> CustomOptions:
    """What workload `custom` would load the dumps by."""
    files = tuple(str(dump) for dump in question.dumps)
    contents = {name: digest_of(Path(name)) for name in files}
    return CustomOptions.model_construct(setup=files, contents=contents)


def _captured(question: Question, say: Callable[[str], None], interrupts: Interrupts) -> Path:
    """The captured file: the one that was named, one that was made of the same logs before, or a new one."""
    logs = question.logs
    if question.statements is not None:
        # Statistics change with every second: the same command goes on with those that it began with.
        source = digests.of(without_secrets(question.statements))[:8]
        file = question.folder / f"statements-{source}.traffic"
        if not file.exists():
            capture_statistics(question.statements, file)
        return file.absolute()
    if len(logs) == 1 and _is_captured(logs[0]):
        return logs[0].absolute()
    if any(_is_captured(log) for log in logs):
        raise UsageError("--log names a captured file beside others", "name it alone, or logs only")
    parts = [f"{digest_of(log)}\n".encode() for log in logs]
    parts.append(repr((question.prefix, question.timezone, question.encoding)).encode())
    file = question.folder / f"log-{digests.of_parts(parts)[:8]}.traffic"
    if not file.exists():
        capture(
            logs,
            file,
            prefix=question.prefix,
            timezone=question.timezone,
            encoding=question.encoding,
            say=say,
            check=interrupts.check,
        )
    return file.absolute()


def _is_captured(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _name(question: Question, captured: Path) -> str:
    """Other dumps, logs or options are another measurement."""
    asked = {
        **asdict(question),
        "folder": "",
        "statements": "",
        "dumps": [digest_of(dump) for dump in question.dumps],
        "logs": digest_of(captured),
        "after_load": {v: [digest_of(Path(f)) for f in files] for v, files in question.after_load.items()},
    }
    digest = digests.of(json.dumps(asked, sort_keys=True, default=str))[:8]
    return f"upgrade-{question.base}-to-{'-'.join(question.targets)}-{digest}"


__all__ = ["RUNS", "TriedUpgrade", "carry_out", "prepare"]
