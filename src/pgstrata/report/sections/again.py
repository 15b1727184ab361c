"""The command that measures runs again, or counts them, as far as what they recorded tells it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence

from pgstrata.errors import UsageError
from pgstrata.page.results import RunSet
from pgstrata.server.config.resolve import find_config_file
from pgstrata.store import Run
from pgstrata.workload import catalog
from pgstrata.workload.core.options import Divisible, is_filled_in


def command(results: RunSet, runs: Sequence[Run], more: Sequence[str]) -> str:
    """Returns the command that measures these runs again, with more options, as a campaign of its own."""
    name = ["--name", f"{results.campaign}-verdict"]
    return _command("run", runs, [*more, *name]) or (
        f"the command that measured this, with {shlex.join([*more, *name])}"
    )


def count_command(results: RunSet, runs: Sequence[Run], step: str) -> str:
    """Returns the command that counts the instructions of a step of these runs, into the same campaign; empty
    where no command line says what was measured."""
    more = ["--step", step, "--name", results.campaign]
    if (file := runs[0].record.campaign_file) is not None:
        # A file may call its variants as no command line does.
        return f"pgstrata count {shlex.join([file, *more])}"
    return _command("count", runs, more)


def _command(verb: str, runs: Sequence[Run], more: Sequence[str]) -> str:
    """Returns a command about these runs; empty where neither options nor a file say what was measured."""
    variants = _variants(runs)
    options = _options(runs[0])
    if variants is None or options is None:
        # a variant or workload that only a campaign file, or options that no run has kept, can say
        if (file := runs[0].record.campaign_file) is None:
            return ""
        return f"pgstrata {verb} {shlex.join([file, *_only(runs[0]), *more])}"
    return f"pgstrata {verb} {shlex.join([*variants, *options, *more])}"


def _only(run: Run) -> list[str]:
    """Returns `--workload` for the workload of a run in a file, and `--set` for the steps of a part,
    `sysbench@EPYC`, of a divided workload (`fleet.kinds`); nothing for a workload from outside, whose label
    the file may not say."""
    if run.record.workload_name not in catalog.own_names():
        return []
    workload = catalog.find(run.record.workload_name)
    label, divided, _ = run.record.workload.rpartition("@")
    if not (divided and isinstance(workload, Divisible)):
        return ["--workload", run.record.workload]
    keys = workload.part(())
    sets = [
        f"{label}.{key}={json.dumps(run.record.options[key])}" for key in keys if key in run.record.options
    ]
    return ["--workload", label, *(word for setting in sets for word in ("--set", setting))]


def _variants(runs: Sequence[Run]) -> list[str] | None:
    """Returns `--server` and `--config` that make the variants; None where they cannot be made so."""
    first = {run.variant: run for run in runs}.values()
    servers = list(dict.fromkeys(run.record.server.spec for run in first))
    stacks = list(dict.fromkeys(tuple(f.name for f in run.record.config.fragments) for run in first))
    plain = not any(
        run.record.env
        or run.record.memory
        or run.record.through
        or run.record.storage
        or run.record.replicas
        or run.record.extensions
        or run.record.server.built
        for run in first
    )
    usual = len({tuple(run.record.initdb) for run in first}) == 1
    if not plain or not usual or len(servers) * len(stacks) != len(first):
        return None
    if len(stacks) == 1:
        servers = [_labelled(run) for run in first]
    words = [word for server in servers for word in ("--server", server)]
    if any(stack != ("default",) for stack in stacks):
        if not all(_is_known(name) for stack in stacks for name in stack) or not all(stacks):
            return None
        words += [word for stack in stacks for word in ("--config", "+".join(stack))]
    return words


def _labelled(run: Run) -> str:
    """Returns the server of a variant, with its label where that is not the usual one."""
    server, label = run.record.server, run.variant
    if label in (server.label, f"{server.label}.{run.record.config.name}"):
        return server.spec
    return f"{server.spec}={label}" if server.managed else f"{label}={server.spec}"


def _is_known(name: str) -> bool:
    """True if `--config` takes a name from any folder: a setting, or a file that pgstrata ships."""
    if re.fullmatch(r"\w[\w.]*=[^+]*", name):
        return True
    try:
        find_config_file(name, None)
    except UsageError:
        return False
    return True


def _options(run: Run) -> list[str] | None:
    """Returns `--workload` and `--set` that make the workload of a run; None where a label hides
    which one it is."""
    if run.workload not in catalog.own_names():
        return None
    model = catalog.find(run.workload).Options
    usual = model().model_dump(mode="json")
    options = {
        key: value
        for key, value in run.record.options.items()
        if key in usual and value != usual[key] and value is not None and not is_filled_in(model, key)
    }
    if any(map(_nested, options.values())):
        return None
    sets = [f"{key}={json.dumps(value)}" for key, value in options.items()]
    return ["--workload", run.workload, *(word for setting in sets for word in ("--set", setting))]


def _nested(value: object) -> bool:
    """True if a value is a table, or a list of them, which JSON and TOML write differently."""
    return isinstance(value, dict) or (isinstance(value, list) and any(map(_nested, value)))


__all__ = ["command", "count_command"]
