"""Reading the text of a config file, by the grammar of postgresql.conf."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pgstrata.errors import UsageError, cut_long
from pgstrata.files.user_files import read_text, real_path
from pgstrata.files.user_files import shown as visible

MOST_DEPTH = 10
"""Of files that include files, as of the server (guc.h, CONF_FILE_MAX_DEPTH)."""

MOST_FILES = 200
MOST_BYTES = 4 << 20
"""Of all files that one config file includes, and of their text."""

MOST_PROBLEMS = 50
"""Listed in one message."""


@dataclass(frozen=True)
class Problem:
    """What is wrong with one line. message: with its file and line; hint: what to do, may be empty."""

    message: str
    hint: str = ""


@dataclass(frozen=True)
class ConfigFile:
    """A piece of postgresql.conf; `path` is its file, `name` what it is called in results.

    included: by line, from 1, the files that stand in the place of an include directive. problems: of these
    directives.
    """

    name: str
    text: str
    path: Path | None = None
    included: tuple[tuple[int, tuple[ConfigFile, ...]], ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def where(self) -> str:
        """Returns what errors call this file."""
        return str(self.path) if self.path else f"{self.name}.conf"

    @property
    def whole_text(self) -> str:
        """The text with that of included files in the place of the directives."""
        parts = dict(self.included)
        if not parts:
            return self.text
        lines = []
        for number, line in enumerate(self.text.split("\n"), 1):
            if number not in parts:
                lines.append(line)
                continue
            lines.append(f"# {line.strip()}")
            for config_file in parts[number]:
                lines += [f"# {config_file.name}:", *config_file.whole_text.rstrip("\n").split("\n")]
            lines.append(f"# end of {line.strip()}")
        return "\n".join(lines)


@dataclass(frozen=True)
class SettingLine:
    """`name = value` as it stands in a config file; name in lower case, value without its quotes."""

    name: str
    value: str
    config_file: ConfigFile
    line: int

    @property
    def place(self) -> str:
        """File and line; of a setting that stands in the stack itself, the setting."""
        if self.config_file.path is None and "=" in self.config_file.name:
            return self.config_file.name
        return f"{self.config_file.where}:{self.line}"


_LINE = re.compile(
    r"""\s*(?P<name>[^\W\d][\w$]*(?:\.[^\W\d][\w$]*)*)   # letters, digits, _ ; dots for custom classes
        (?:\s*=\s*|\s+|(?='))                            # the equals sign may be left out
        (?P<value>'(?:[^'\\]|\\.|'')*'|[^\s#'"=]+)       # quoted, or a word or number
        \s*(?:\#.*)?$""",
    re.VERBOSE,
)
_INCLUDES = ("include", "include_dir", "include_if_exists")
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)|''")
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def assignments(config_file: ConfigFile) -> list[SettingLine]:
    """Returns the assignments of a config file, in order, those of included files in their place.

    Raises UsageError with file and line of everything that is not a setting.
    """
    problems: list[Problem] = []
    lines = read_assignments(config_file, problems)
    raise_problems(problems)
    return lines


def read_assignments(config_file: ConfigFile, problems: list[Problem]) -> list[SettingLine]:
    """Reads the assignments of a config file as `assignments` does; problems are added to `problems`."""
    problems += config_file.problems
    included, lines = dict(config_file.included), []
    for number, line in _lines(config_file.text):
        if number in included:
            for other in included[number]:
                lines += read_assignments(other, problems)
            continue
        place = f"{config_file.where}:{number}"
        if _directive(line):
            if not config_file.problems:
                problems.append(
                    Problem(f"{place}: include directives are read in files only, and this text is of none")
                )
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            problems.append(
                Problem(
                    f"{place}: not a setting: {visible(line.strip(), 80)}",
                    "write name = value, text in single quotes",
                )
            )
            continue
        value = _value(match)
        if any(ord(letter) < 32 for letter in value):
            problems.append(
                Problem(f"{place}: the value of {visible(match['name'], 80)} holds a control character")
            )
            continue
        lines.append(SettingLine(match["name"].lower(), value, config_file, number))
    return lines


def raise_problems(problems: Sequence[Problem]) -> None:
    """Raises one UsageError with all problems; does nothing where there are none."""
    different = list(dict.fromkeys(problems))
    if not different:
        return
    if len(different) == 1:
        raise UsageError(different[0].message, different[0].hint)
    lines = [f"  {p.message}" + (f" ({p.hint})" if p.hint else "") for p in different[:MOST_PROBLEMS]]
    if len(different) > MOST_PROBLEMS:
        lines.append(f"  and {len(different) - MOST_PROBLEMS} more")
    raise UsageError(f"{len(different)} lines of the config cannot be used:\n" + "\n".join(lines))


# --- files that include files -------------------------------------------------------------------


@dataclass
class _Budget:
    """What may still be read."""

    files: int = MOST_FILES
    size_bytes: int = MOST_BYTES


def with_included(config_file: ConfigFile) -> ConfigFile:
    """Returns a config file with the files it includes, relative to where it lies.

    What cannot be read is among its `problems`.
    """
    if config_file.path is None:
        return config_file
    return _with_included(config_file, (real_path(config_file.path),), _Budget())


def _with_included(config_file: ConfigFile, chain: tuple[Path, ...], budget: _Budget) -> ConfigFile:
    assert config_file.path is not None
    included: list[tuple[int, tuple[ConfigFile, ...]]] = []
    problems: list[Problem] = []
    for number, line in _lines(config_file.text):
        kind = _directive(line)
        if not kind:
            continue
        place = f"{config_file.where}:{number}"
        match = _LINE.fullmatch(line)
        if match is None or not (name := _value(match)) or "\0" in name:
            problems.append(Problem(f"{place}: {kind} without a file", f"write {kind} = 'more.conf'"))
            continue
        try:
            files = _files(kind, config_file.path.parent / name)
            parts = [_included(file, chain, budget) for file in files]
        except UsageError as error:
            problems.append(Problem(f"{place}: {kind}: {error.message}", error.hint))
            continue
        included.append((number, tuple(part for part in parts)))
    return replace(config_file, included=tuple(included), problems=tuple(problems))


def _included(file: Path, chain: tuple[Path, ...], budget: _Budget) -> ConfigFile:
    real = real_path(file)
    if real in chain:
        raise UsageError(f"{cut_long(str(file))} includes itself")
    if len(chain) > MOST_DEPTH:
        raise UsageError(f"{cut_long(str(file))}: files include files more than {MOST_DEPTH} deep")
    text = read_text(file, "included config file")
    budget.files -= 1
    budget.size_bytes -= len(text)
    if budget.files < 0 or budget.size_bytes < 0:
        raise UsageError(
            f"more than {MOST_FILES} files or {MOST_BYTES >> 20} MB are included",
            "write what matters into one file",
        )
    return _with_included(ConfigFile(file.name, text, file), (*chain, real), budget)


def _files(kind: str, path: Path) -> list[Path]:
    """Returns the files of an include directive, in the server's order (guc-file.l)."""
    try:
        if kind == "include":
            return [path]
        if kind == "include_if_exists":
            return [path] if path.exists() else []
        names = [p for p in path.iterdir() if p.name.endswith(".conf") and not p.name.startswith(".")]
    except OSError as error:
        raise UsageError(
            f"the folder {cut_long(str(path))} cannot be read: {error.strerror}",
            "copy it from the server to that place, or write # before the line",
        ) from error
    return sorted((p for p in names if not p.is_dir()), key=lambda p: p.name.encode(errors="surrogateescape"))


# --- lines --------------------------------------------------------------------------------------


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields the lines that hold something but a comment, with their numbers."""
    for number, raw in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        line = raw.rstrip("\r")
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line


def _directive(line: str) -> str:
    """Returns the name of an include directive; empty for any other line."""
    word = re.split(r"[=\s']", line.strip(), maxsplit=1)[0].lower()
    return word if word in _INCLUDES else ""


def _value(match: re.Match[str]) -> str:
    value = match["value"]
    return _ESCAPE.sub(_unescape, value[1:-1]) if value.startswith("'") else value


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if code is None:
        return "'"
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF)
    return _ESCAPED.get(code, code)


def quoted(value: str) -> str:
    """Returns a value quoted as postgresql.conf text."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
