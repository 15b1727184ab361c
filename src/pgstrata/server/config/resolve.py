"""Configurations: stacks of config files, and what a version of PostgreSQL makes of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pgstrata.errors import UsageError
from pgstrata.files.user_files import in_command, is_file, is_there, read_text, shown, user_path
from pgstrata.server.capabilities import Programs
from pgstrata.server.config.conf_file import (
    ConfigFile,
    Problem,
    SettingLine,
    quoted,
    raise_problems,
    read_assignments,
    with_included,
)
from pgstrata.server.config.known import KnownSettings
from pgstrata.server.config.mapping import MappedSetting, fate
from pgstrata.server.config.settings import plain_number
from pgstrata.store.record import Change, ConfigFileRecord, ConfigRecord
from pgstrata.suggest import nearest

__all__ = [
    "Change",
    "ConfigFile",
    "MappedSetting",
    "Resolved",
    "SettingOutcome",
    "config_file_of_setting",
    "explain",
    "find_config_file",
    "is_setting",
    "quoted",
    "resolve",
    "shipped_config_files",
    "stack_of",
]

_SHIPPED = Path(__file__).parent / "shipped"
_SETTING = re.compile(r"(?P<name>[A-Za-z_][\w$]*(?:\.[A-Za-z_][\w$]*)*)\s*=\s*(?P<value>[^\n\r]*)", re.ASCII)


@dataclass(frozen=True)
class Resolved:
    """What a version makes of a stack of config files.

    settings: name → value as SHOW writes it, shares of memory turned into sizes, in the order of
    their last assignment.
    """

    name: str
    config_files: tuple[ConfigFile, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    dropped: tuple[Change, ...] = ()
    mapped: tuple[Change, ...] = ()
    keep: tuple[str, ...] = ()
    """Settings that were not to be left out for what they are."""

    def text(self, known: KnownSettings | None = None) -> str:
        """Returns the settings as postgresql.conf text of a server, with the changes as comments."""
        lines = [f"# config {self.name or 'of the server itself, nothing changed'}"]
        for change in self.dropped:
            lines.append(f"# left out ({change.fragment}:{change.line}): {change.name}: {change.reason}")
        for change in self.mapped:
            written = f"{change.name} = {change.value}"
            lines.append(f"# changed ({change.fragment}:{change.line}): {written}: {change.reason}")
        for name, value in self.settings.items():
            row = None if known is None or known.takes_units else known.get(name)
            lines.append(f"{name} = {quoted(plain_number(row, value) if row else value)}")
        return "\n".join(line.replace("\n", " ") for line in lines) + "\n"

    def record(self) -> ConfigRecord:
        """Returns the config in the form stored in run.json under `config`."""
        return ConfigRecord(
            name=self.name,
            fragments=tuple(ConfigFileRecord(name=f.name, text=f.whole_text) for f in self.config_files),
            settings=dict(self.settings),
            dropped=self.dropped,
            mapped=self.mapped,
            keep=self.keep,
        )


@dataclass(frozen=True)
class SettingOutcome:
    """What became of one assignment: for `pgstrata config explain`.

    kind: `set`, `mapped` (name or value changed), `dropped`, or `overridden` by a later one.
    """

    kind: Literal["set", "mapped", "dropped", "overridden"]
    assignment: SettingLine
    to: str | None
    to_value: str | None
    reason: str


def shipped_config_files() -> list[ConfigFile]:
    """Returns the config files that come with pgstrata: bases first, then overlays, each by name."""
    bases = sorted(_SHIPPED.glob("*.conf"))
    overlays = sorted((_SHIPPED / "overlays").glob("*.conf"), key=lambda p: (len(p.stem), p.stem))
    return [_read(path, path.stem, None) for path in [*bases, *overlays]]


def is_setting(text: str) -> bool:
    """Returns whether a part of a config stack is a single setting, `work_mem=64MB`."""
    return _SETTING.fullmatch(text) is not None and not text.endswith(".conf")


def config_file_of_setting(text: str) -> ConfigFile:
    """Returns `NAME=VALUE` as a config file of one line; the value needs no quotes. Raises UsageError."""
    match = _SETTING.fullmatch(text)
    if match is None:
        raise UsageError(f"{shown(text)} is no setting", "write NAME=VALUE, say work_mem=64MB")
    name, value = match["name"], match["value"]
    if len(value) > 1 and value[0] == value[-1] == "'":
        value = value[1:-1].replace("''", "'")
    return ConfigFile(f"{name}={match['value']}", f"{name} = {quoted(value)}\n")


def stack_of(text: str, beside: Path | None = None) -> list[str]:
    """Returns the parts of a config stack as options take it, `base+a1`, in their order.

    A plus in the path of a file that is there, relative to the folder `beside`, is a part of its name.
    """
    words = text.split("+")
    parts = []
    while words:
        number = next((n for n in range(len(words), 1, -1) if _is_path("+".join(words[:n]), beside)), 1)
        parts.append("+".join(words[:number]))
        words = words[number:]
    return parts


def _is_path(name: str, beside: Path | None) -> bool:
    return name.endswith(".conf") and "\0" not in name and is_file(Path(beside or ".") / user_path(name))


def find_config_file(name: str, beside: Path | None) -> ConfigFile:
    """Returns a shipped config file by its name, or a file named by a path, relative to the folder `beside`.

    A name with a slash or ending in .conf is a path, `NAME=VALUE` a config file of one setting. Raises
    UsageError when there is none.
    """
    if is_setting(name):
        return config_file_of_setting(name)
    written_as_path = name.endswith(".conf") or "/" in name
    shipped = next((p for p in _shipped_paths(name) if is_file(p)), None)
    if shipped and not written_as_path:
        return _read(shipped, shipped.stem, None)
    file = Path(beside or ".") / user_path(name)
    candidates = [file] if written_as_path else [file.with_name(f"{file.name}.conf")]
    for path in candidates:
        if is_there(path):
            return _read(path, path.stem, path)
    names = [
        config_file.stem
        for config_file in [*_SHIPPED.glob("*.conf"), *(_SHIPPED / "overlays").glob("*.conf")]
    ]
    near = nearest(name, names)
    if not written_as_path and is_file(file):
        raise UsageError(
            f"{shown(name)} is not a config file: its name does not end with .conf", _instead(name)
        )
    if written_as_path:
        raise UsageError(
            f"there is no config file {shown(candidates[0])}", "paths are relative to the campaign file"
        )
    raise UsageError(
        f"there is no config file called '{shown(name)}'",
        f"did you mean {near}?" if near else f"shipped are {', '.join(sorted(names))}; or name a .conf file",
    )


def _instead(name: str) -> str:
    """Returns what a file that is no config file is named by."""
    if name.endswith(".toml"):
        return f"a campaign file stands alone: pgstrata run {in_command(name)}"
    return "a script stands behind --script, a file of postgresql.conf's form may be called NAME.conf"


def _shipped_paths(name: str) -> Iterator[Path]:
    if name and name == Path(name).name and name not in (".", ".."):
        yield _SHIPPED / f"{name}.conf"
        yield _SHIPPED / "overlays" / f"{name}.conf"


def _read(file: Path, name: str, path: Path | None) -> ConfigFile:
    return with_included(ConfigFile(name, read_text(file, "config file"), path))


def explain(
    config_files: Sequence[ConfigFile],
    version_num: int,
    ram_bytes: int,
    build: str = "",
    *,
    programs: Programs | None = None,
    keep: Collection[str] = (),
) -> list[SettingOutcome]:
    """Returns what a version makes of every assignment, in the order they were written.

    version_num: as the server counts (170011); ram_bytes: what shares of memory refer to; build: configure
    flags, which decide about optional values such as lz4; programs: the server's, which are asked what they
    take; None: the table of versions decides alone. keep: settings that are not left out for what they are.
    Raises one UsageError with file and line of everything that is wrong: lines that are no settings, names
    that no version has, values that the setting does not take.
    """
    known = KnownSettings(version_num, programs)
    problems: list[Problem] = []
    lines = [line for config_file in config_files for line in read_assignments(config_file, problems)]
    results: list[tuple[SettingLine, MappedSetting]] = []
    for line in lines:
        try:
            results.append((line, fate(line, known, ram_bytes, build, keep)))
        except UsageError as error:
            problems.append(Problem(error.message, error.hint))
    last = {result.to: index for index, (_, result) in enumerate(results) if result.to}
    if programs is not None:
        problems += _refused(programs, [results[index] for index in last.values()])
    raise_problems(problems)
    outcomes = []
    for index, (assignment, result) in enumerate(results):
        if result.to and last[result.to] != index:
            reason = f"set again in {results[last[result.to]][0].place}"
            outcomes.append(SettingOutcome("overridden", assignment, result.to, result.value, reason))
        else:
            outcomes.append(SettingOutcome(result.kind, assignment, result.to, result.value, result.reason))
    return outcomes


def _refused(programs: Programs, results: Sequence[tuple[SettingLine, MappedSetting]]) -> Iterator[Problem]:
    """Yields the server's own complaints about the settings that would be set."""
    lines = {result.to: (line, result.value) for line, result in results if result.to}
    settings = {name: value for name, (_, value) in lines.items() if value is not None}
    for name, words in programs.complaints(settings).items():
        line, value = lines[name]
        yield Problem(f"{line.place}: {name} = {value}: the server says: {words}")


def resolve(
    config_files: Sequence[ConfigFile],
    version_num: int,
    ram_bytes: int,
    build: str = "",
    *,
    programs: Programs | None = None,
    keep: Collection[str] = (),
) -> Resolved:
    """Returns the settings a version gets from a stack of config files, the last assignment of each counting.

    Arguments and errors as for `explain`.
    """
    settings: dict[str, str] = {}
    changes: dict[str, list[Change]] = {"mapped": [], "dropped": []}
    for outcome in explain(config_files, version_num, ram_bytes, build, programs=programs, keep=keep):
        if outcome.kind in ("set", "mapped") and outcome.to and outcome.to_value is not None:
            settings[outcome.to] = outcome.to_value
        if outcome.kind in changes:
            written = outcome.assignment
            changes[outcome.kind].append(
                Change(
                    name=written.name,
                    value=written.value,
                    to=outcome.to,
                    to_value=outcome.to_value,
                    fragment=written.config_file.name,
                    line=written.line,
                    reason=outcome.reason,
                )
            )
    return Resolved(
        "+".join(config_file.name for config_file in config_files),
        tuple(config_files),
        settings,
        tuple(changes["dropped"]),
        tuple(changes["mapped"]),
        tuple(sorted(set(keep))),
    )
