"""Takes folders of the machine out of what is shared: where a repository or a file lay is private."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pgstrata.store import Run
from pgstrata.store.record import RunRecord

_SPEC = re.compile(r"(?:git|src|tar|path):(/[^#]+)")
_PATH = re.compile(r"/[^\0\n]+")
_BEFORE = r"(?<![\w.~/-])"
"""What stands before a path is no part of a longer one."""


def shortener(runs: Iterable[Run]) -> Callable[[Any], Any]:
    """Returns a function that puts names instead of paths into what JSON can hold: `git:postgresql#master`
    for a repository, `shop.dump` for a file of a workload, and `~` for the home of who measured. runs: say
    what these are."""
    places = {str(Path(path).parent): "" for run in runs for path in _named(run.record)}
    places.setdefault(str(Path.home()), "~/")
    # the longest first: a repository may lie in the home
    longest = sorted((place for place in places if place != "/"), key=len, reverse=True)
    pattern = re.compile(_BEFORE + f"({'|'.join(map(re.escape, longest))})/") if longest else None

    def shortened(value: Any) -> Any:
        match value:
            case str() if pattern is not None:
                return pattern.sub(lambda match: places[match[1]], value)
            case list() | tuple():
                return [shortened(item) for item in value]
            case dict():
                return {shortened(key): shortened(item) for key, item in value.items()}
        return value

    return shortened


def _named(record: RunRecord) -> Iterator[str]:
    """Yields the paths that a run names: of its server's source or programs, of its campaign, of files of its
    workload."""
    server, built = record.server, record.server.built
    for text in (server.spec, built.origin if built is not None else ""):
        if match := _SPEC.fullmatch(text.partition("#")[0]):
            yield match[1]
    texts = [record.campaign_file or ""]
    if built is not None:
        texts += [str(built.source.get("repository", "")), *(e.folder for e in built.extensions)]
    yield from (text for text in (*texts, *_texts(record.options)) if _PATH.fullmatch(text))


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list() | tuple():
            for item in value:
                yield from _texts(item)
        case dict():
            yield from _texts(list(value.values()))


__all__ = ["shortener"]
