"""An upgrade as a campaign: its variants, what they are called, and how often the log is replayed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pgstrata.campaign.checked import Campaign
from pgstrata.campaign.file.reading import check_study
from pgstrata.campaign.plan.runs import labels_of_alike
from pgstrata.campaign.study import Study, Variant, Workload
from pgstrata.errors import UsageError
from pgstrata.files.user_files import shown
from pgstrata.server.config.resolve import stack_of
from pgstrata.server.config.settings import major_name, major_of
from pgstrata.server.find.model import Server
from pgstrata.stats.criterion import FIRST
from pgstrata.store import Results
from pgstrata.store.names import RunKey
from pgstrata.store.read import BrokenRun, read_run
from pgstrata.traffic.captured import Header
from pgstrata.traffic.replay.options import ReplayOptions
from pgstrata.traffic.replay.steps import NAME, seconds_of
from pgstrata.traffic.upgrade.question import Question, is_version, server_of, spec_of
from pgstrata.traffic.upgrade.settle import seconds_of_round
from pgstrata.traffic.upgrade.versions import Servers
from pgstrata.turns.model import COPIED_BYTES
from pgstrata.turns.rounds import AROUND_ROUND_SECONDS

LEAST_ROUNDS = 4
"""Fewer prove hardly anything: where they do not fit into the time, the log is cut."""

LEAST_SECONDS = 1.0
"""Of a round: what is shorter says nothing of any load, and costs as much."""

WHY_SHARE, MOST_WHY_SECONDS = 0.25, 120.0
"""Of the time for rounds: what may be spent beside them on why statements are slower, and on what helps."""

USUAL_CONNECTIONS = 90
"""That fit into a server whose max_connections nobody has set."""


@dataclass(frozen=True)
class RoundPlan:
    """How often the log is replayed. keys: of a study; seconds: after which each round is ended, where a
    version is too slow for the pace; cut: whether that is less than the log has."""

    keys: Mapping[str, object]
    seconds: float | None
    cut: bool = False
    #: Of the log that a round holds, where that is less than there is.
    log_seconds: float | None = None


def rounds_in_time(
    question: Question, options: ReplayOptions, header: Header, servers: int, around: float
) -> RoundPlan:
    """Returns as many rounds as the time holds; if it holds enough to look after each, rounds until all is
    known.

    around: seconds between rounds, in which a server starts with a copy of the data.
    """
    if question.rounds is not None:
        plan = RoundPlan({"rounds": question.rounds}, options.seconds)
        return replace(plan, log_seconds=_of_log(options, header, options.seconds))
    budget = question.minutes * 60
    length = max(0.1, seconds_of(options, header))
    rounds = int(budget / servers / (length + around))
    if rounds >= FIRST:
        # As fast as answers come nobody knows how long it takes, but hardly longer than the original: so many
        # rounds there have to be that one may look.
        span = max(LEAST_SECONDS, (header.end - header.begin) / 1e6 / (options.speed or 1.0))
        measured = max(budget * length / (length + around), FIRST * servers * span)
        keys: dict[str, object] = {"until": "verdict", "max_seconds": min(budget, measured)}
        share = budget / servers / LEAST_ROUNDS
    else:
        number = max(LEAST_ROUNDS, rounds - rounds % 2)
        keys = {"rounds": number}
        share = budget / servers / number
    seconds = max(LEAST_SECONDS, share - around)
    cut = seconds < length
    # The last answers of a log that is replayed whole come a little behind its end.
    seconds = seconds if cut else max(seconds, length * 1.1 + 1)
    seconds = min(seconds, options.seconds or seconds)
    return RoundPlan(keys, seconds, cut, _of_log(options, header, seconds))


FITS = 0.97
"""Of the time of a round for the window that is replayed in it: its last answers come behind its end."""


def _of_log(options: ReplayOptions, header: Header, seconds: float | None) -> float | None:
    """Returns the seconds of the log that so many seconds of a round hold; None where they hold all of it."""
    whole = seconds_of(options.model_copy(update={"seconds": None}), header)
    if seconds is None or seconds >= whole:
        return None
    return FITS * seconds / whole * (header.end - header.begin) / 1e6


def labels(question: Question, servers: Servers) -> list[str]:
    """Returns the labels of the variants: those that were written, or their versions as they were written
    where that tells them apart, or the names of folders."""
    written = [question.base, *(text for text, _ in servers.targets)]
    names = [text.removeprefix("pg:") for text in written]
    all_servers = [servers.base, *(server for _, server in servers.targets)]
    usual = [server.label for server in all_servers]
    if len(set(usual)) < len(usual):
        usual = labels_of_alike(all_servers)
    return [
        server_of(text).label or (name if is_version(name) and names.count(name) == 1 else label)
        for text, name, label in zip(written, names, usual, strict=True)
    ]


def campaign(
    question: Question,
    name: str,
    servers: Servers,
    captured: Path,
    header: Header,
    results: Path,
    without: Mapping[str, str] | None = None,
) -> tuple[Campaign, RoundPlan]:
    """Returns the measurement as a campaign, with the plan of its rounds. without: statements of the dump
    that are left out, and why.

    Raises UsageError for options that are not valid.
    """
    options: dict[str, object] = {
        "file": str(captured),
        "setup": [str(dump) for dump in question.dumps],
        "speed": question.speed,
        "after_load": {version: list(files) for version, files in question.after_load.items()},
    }
    if without:
        options["without"] = dict(without)
    if question.database is not None:
        options["database"] = question.database
    if question.seconds is not None:
        options["seconds"] = question.seconds
    all_servers = [servers.base, *(server for _, server in servers.targets)]
    _check_after_load(question, all_servers)
    variant_labels = labels(question, servers)
    study = Study(
        name=name,
        results=str(results),
        order="interleaved",
        margin=question.margin,
        why_seconds=min(MOST_WHY_SECONDS, question.minutes * 60 * WHY_SHARE),
        other_load=question.other_load,
        base=variant_labels[0],
        variants=[
            Variant(server=spec_of(text), label=label, config=_stack(question, header, results))
            for text, label in zip(
                (question.base, *(text for text, _ in servers.targets)), variant_labels, strict=True
            )
        ],
        workloads=[Workload(name=NAME, options=options)],
        keep_settings=list(question.keep_settings),
        data_dir=question.data_dir,
        allow_outside=question.allow_outside,
    )
    (chosen,) = check_study(study, sets=question.sets).workloads
    around = AROUND_ROUND_SECONDS + chosen.cost.disk_bytes / COPIED_BYTES
    taken = rounds_in_time(question, chosen.options, header, len(all_servers), around)
    if taken.seconds is not None:
        options["seconds"] = taken.seconds
    there = _repeats_there(name, variant_labels, chosen.label, results)
    keys = {**taken.keys, "repeats": max(1, there)}
    if question.more is not None and there:
        # What was measured stays; rounds beside it are one more repeat, which may be looked at again and
        # again: all of them are judged so then.
        last = Results(results).find(RunKey(name, variant_labels[0], chosen.label, there))
        share = _measured_share(last, len(all_servers)) if last is not None else 1.0
        seconds = max(1.0, question.more * 60 * share)
        keys = {"until": "verdict", "max_seconds": seconds, "repeats": there + 1}
    study = study.replaced(**keys, workloads=[Workload(name=NAME, options=options)])
    return check_study(study, sets=question.sets), taken


def _measured_share(folder: Path, versions: int) -> float:
    """Returns the measured share of the time by the clock in the rounds of a run."""
    run = read_run(folder)
    steps = run.record.steps if not isinstance(run, BrokenRun) else ()
    whole, measured = seconds_of_round(steps[-1].slices if steps else (), versions)
    return measured / whole if whole else 1.0


def _repeats_there(name: str, variants: Sequence[str], workload: str, results: Path) -> int:
    """Returns how many repeats an earlier command has measured on every version, or on some and failed on
    others."""
    store = Results(results)
    number = 0
    while all(store.find(RunKey(name, v, workload, number + 1), done=v == variants[0]) for v in variants):
        number += 1
    return number


def _stack(question: Question, header: Header, results: Path) -> list[str]:
    """Returns the config's files in their order; below them, if more sessions were open than usual servers
    take, or some prepared transactions, a file with room for all of them."""
    stack = stack_of(question.config)
    most = header.most_sessions
    needs = {}
    if most > USUAL_CONNECTIONS:
        needs["max_connections"] = most + 20
    if any(shape.text[:20].upper().startswith("PREPARE TRANSACTION ") for shape in header.shapes):
        needs["max_prepared_transactions"] = most + 20
    if not needs:
        return stack
    config_file = results.parent / "connections.conf"
    config_file.write_text("".join(f"{name} = {value}\n" for name, value in needs.items()))
    return [str(config_file.absolute()), *stack]


def _check_after_load(question: Question, servers: Sequence[Server]) -> None:
    there = {major_name(major_of(server.version_num)) for server in servers}
    for version in question.after_load:
        if version not in there:
            raise UsageError(
                f"--after-load {shown(version)}: no server here is of that major version",
                f"there are {', '.join(sorted(there))}",
            )


__all__ = ["RoundPlan", "campaign", "labels", "rounds_in_time"]
