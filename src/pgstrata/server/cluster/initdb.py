"""The options a variant may give to initdb, read as initdb itself reads them.

initdb uses GNU getopt_long: long options may be shortened as far as nothing else begins so, values stand
behind `=` or in the next word, short ones may be bundled (`-kX/elsewhere` is `-k -X /elsewhere`). What
is refused must therefore be found by the same rules and not by how an option usually looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pgstrata.errors import UsageError
from pgstrata.server.config.classes import is_left_out

USER = "postgres"
"""Superuser of a cluster."""

_HINT = "leave it out; options such as --data-checksums, --wal-segsize or --locale can be given"

# All options of 9.6 to 18: initdb.c, `long_options` and the string of short ones. Upper and lower case
# letters stand for their long forms; True: takes a value.
_LONG = {
    "allow-group-access": False,
    "auth": True,
    "auth-host": True,
    "auth-local": True,
    "builtin-locale": True,
    "data-checksums": False,
    "debug": False,
    "discard-caches": False,
    "encoding": True,
    "help": False,
    "icu-locale": True,
    "icu-rules": True,
    "lc-collate": True,
    "lc-ctype": True,
    "lc-messages": True,
    "lc-monetary": True,
    "lc-numeric": True,
    "lc-time": True,
    "locale": True,
    "locale-provider": True,
    "no-clean": False,
    "no-data-checksums": False,
    "no-instructions": False,
    "no-locale": False,
    "no-sync": False,
    "no-sync-data-files": False,
    "noclean": False,
    "nosync": False,
    "pgdata": True,
    "pwfile": True,
    "pwprompt": False,
    "set": True,
    "show": False,
    "sync-method": True,
    "sync-only": False,
    "text-search-config": True,
    "username": True,
    "version": False,
    "wal-segsize": True,
    "waldir": True,
    "xlogdir": True,
}
_SHORT = {
    "?": "help",
    "A": "auth",
    "D": "pgdata",
    "E": "encoding",
    "L": "L",  # the folder of the input files, without a long form
    "N": "no-sync",
    "S": "sync-only",
    "T": "text-search-config",
    "U": "username",
    "V": "version",
    "W": "pwprompt",
    "X": "waldir",
    "c": "set",
    "d": "debug",
    "g": "allow-group-access",
    "k": "data-checksums",
    "n": "no-clean",
    "s": "show",
}
_WITH_VALUE = {name for name, takes in _LONG.items() if takes} | {"L"}

_SET_BY_PGSTRATA = {
    "L",
    "auth",
    "auth-host",
    "auth-local",
    "pgdata",
    "pwfile",
    "pwprompt",
    "username",
    "waldir",
    "xlogdir",
}
_MAKES_NOTHING = {"help", "show", "sync-only", "version"}
_REFUSED = _SET_BY_PGSTRATA | _MAKES_NOTHING


@dataclass(frozen=True)
class Option:
    """One option as initdb understands it. written: the word it stands in; value: None where it has none."""

    name: str
    value: str | None
    written: str


def options(words: Sequence[str]) -> Iterator[Option]:
    """Yields the options in `words`. Raises UsageError for a word that is no option, which initdb would take
    for a folder.

    A name no version knows is given as it is written: initdb says what it thinks of it.
    """
    rest = iter(words)
    for word in rest:
        if "\0" in word:
            raise UsageError(f"initdb option {word!r} holds a NUL", _HINT)
        if word.startswith("--") and word != "--":
            yield _long(word, rest)
        elif word.startswith("-") and word not in ("-", "--"):
            yield from _bundle(word, rest)
        else:
            raise UsageError(f"initdb option {word!r} is no option: initdb would take it for a folder", _HINT)


def _long(word: str, rest: Iterator[str]) -> Option:
    written, equals, value = word[2:].partition("=")
    name = written
    if name not in _LONG:
        meant = sorted(long for long in _LONG if long.startswith(written))
        # What a short form means differs between versions: the one that is refused counts.
        refused = [long for long in meant if long in _REFUSED]
        name = (refused or meant or [written])[0]
    if equals:
        return Option(name, value, word)
    return Option(name, next(rest, None) if name in _WITH_VALUE else None, word)


def _bundle(word: str, rest: Iterator[str]) -> Iterator[Option]:
    letters = word[1:]
    for index, letter in enumerate(letters):
        name = _SHORT.get(letter, letter)
        if name in _WITH_VALUE:
            yield Option(name, letters[index + 1 :] or next(rest, None), word)
            return
        yield Option(name, None, word)


def check_initdb(words: Sequence[str]) -> None:
    """Raises UsageError for options that pgstrata sets itself, that name a place, or that make no cluster."""
    for option in options(words):
        if option.name in _SET_BY_PGSTRATA:
            raise UsageError(
                f"initdb option {option.written}: {_shown(option.name)} is set by pgstrata", _HINT
            )
        if option.name in _MAKES_NOTHING:
            raise UsageError(
                f"initdb option {option.written}: with {_shown(option.name)} initdb makes no cluster", _HINT
            )
        if option.name == "set":
            name, _, value = (option.value or "").partition("=")
            setting = name.strip().lower().replace("-", "_")
            if (chosen := is_left_out(setting, value)) is not None:
                hint = "write it into a config file, and name it with --keep-setting"
                raise UsageError(
                    f"initdb option {option.written}: {setting}: {chosen.reason}",
                    _HINT if chosen.is_fixed else hint,
                )


def decides_checksums(words: Sequence[str]) -> bool:
    """Returns whether the options themselves decide if data pages have checksums."""
    return any(option.name in ("data-checksums", "no-data-checksums") for option in options(words))


def _shown(name: str) -> str:
    return f"-{name}" if len(name) == 1 else f"--{name}"


def initdb_arguments(has_roles: bool, takes: Callable[[str], bool], more: Sequence[str]) -> tuple[str, ...]:
    """Returns the arguments of initdb: locale C, UTF-8, trust; then the user's, whose last value counts.

    has_roles: whether the server has CREATE ROLE; takes: whether this initdb has an option. Where checksums
    can be switched off they are on by default: they are off unless asked for, because a comparison across
    versions should compare the same thing.
    """
    # UTF8 is what 8.1, the first with roles, began to call it; newer servers know the old name, too.
    # 7.4 trusts local connections without being told.
    options = ["--encoding=UTF8" if has_roles else "--encoding=UNICODE", "--locale=C"]
    options.append(f"--username={USER}")
    if takes("--auth"):
        options.append("--auth=trust")
    if takes("-N"):
        options.append("-N")
    if takes("--no-data-checksums") and not decides_checksums(more):
        options.append("--no-data-checksums")
    return (*options, *more)
