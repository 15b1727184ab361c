"""A corpus on disk: made once, kept in the cache, read by COPY."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pgstrata import numbers
from pgstrata.errors import UsageError
from pgstrata.files import digests
from pgstrata.files.bounded import json_any
from pgstrata.files.ownership import read_small
from pgstrata.files.user_files import shown
from pgstrata.fulltext.corpus import rows, sources
from pgstrata.fulltext.corpus.mail import parse
from pgstrata.fulltext.corpus.synthetic import CorpusShape
from pgstrata.fulltext.corpus.synthetic import rows as synthetic_rows
from pgstrata.server.find.cache import cache_folder, keeping, use

FOLDER = "corpus"
"""Of the cache."""

FORMAT = 1
"""Of the rows: another one makes every cached corpus anew."""

MOST_NAMES = 20
"""Of damaged files that are remembered."""

Json = dict[str, Any]
Check = Callable[[], None]


@dataclass(frozen=True)
class Synthetic:
    """What a synthetic corpus is made of."""

    messages: int
    seed: int
    shape: CorpusShape = field(default_factory=CorpusShape)

    @property
    def bytes(self) -> int:
        """About its size: the mean of a Pareto length that is cut off at `longest`, times a word's bytes."""
        s = self.shape
        cut = (s.shortest / s.longest) ** (s.tail - 1) / s.tail
        mean = s.shortest * s.tail / (s.tail - 1) * (1 - cut)
        return int(self.messages * (mean * 4.9 + 90))


@dataclass(frozen=True)
class Corpus:
    """Where a corpus is, or will be. size: bytes of its rows, about. source: what it is made of.

    damaged: whether what could be read of an archive is used where some of its files break off or cannot be
    read. `make` returns the paths of those files.
    """

    folder: Path
    size: int
    make: Callable[[Callable[[bytes], object], Counter[str], Check], list[str]]
    source: str = ""
    damaged: bool = False

    @property
    def file(self) -> Path:
        """Its rows, ready for COPY."""
        return self.folder / "messages.copy"

    def about(self) -> Json | None:
        """Returns the corpus's stored facts, `{messages, bytes, seconds, counts, damaged}`; None if it is not
        made yet."""
        try:
            data = json_any(read_small(self.folder / "about.json"))
        except (OSError, ValueError):
            return None
        return data if isinstance(data, dict) else None

    def build(self, say: Callable[[str], None] = lambda text: None, check: Check = lambda: None) -> Json:
        """Makes it unless it is there. check: called often, may raise to give up.

        Raises UsageError where there is no message in it, or where files of an archive are damaged and
        not wanted so; ServerError where the disk is too small.
        """
        if there := self.about():
            self._check_whole(there)
            use(self.folder)
            return there
        with keeping(self.folder, "the corpus", self.size, "take fewer messages, ") as place:
            say(f"  making the corpus (kept in {self.folder})")
            about = self._write(place, check)
            self._check_whole(about)
        use(self.folder)
        return about

    def _write(self, place: Path, check: Check) -> Json:
        counts: Counter[str] = Counter()
        begun = time.monotonic()
        size = 0
        with (place / "messages.copy").open("wb", buffering=1 << 20) as out:

            def write(data: bytes) -> None:
                nonlocal size
                size += len(data)
                out.write(data)

            damaged = self.make(write, counts, check)
        if not counts["messages"]:
            raise UsageError(
                "there is no message in the corpus: " + (_told(counts) or "nothing was read"),
                "name an mbox file, an .mbox.gz, a maildir or a folder of them",
            )
        about = {
            "messages": counts.pop("messages"),
            "bytes": size,
            "seconds": round(time.monotonic() - begun, 3),
            "counts": dict(sorted(counts.items())),
            "damaged": damaged[:MOST_NAMES],
        }
        (place / "about.json").write_text(json.dumps(about, indent=1) + "\n")
        return about

    def _check_whole(self, about: Json) -> None:
        counts = about["counts"]
        bad = [
            (counts.get("cut_files", 0), "break off"),
            (counts.get("unreadable_files", 0), "cannot be read"),
        ]
        if self.damaged or not any(n for n, _ in bad):
            return
        what = " and ".join(f"{n} of its files {how}" for n, how in bad if n)
        names = ", ".join(map(shown, about.get("damaged", [])[:3]))
        raise UsageError(
            f"the mail archive {shown(self.source)} is not whole: {what}{f' ({names})' if names else ''}; "
            f"{about['messages']:,} messages, {numbers.size(counts.get('read_bytes', 0))}, could be read",
            'repair or fetch it again, or use what could be read with the option damaged = "use"',
        )


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in sorted(counts.items()) if n)


def synthetic(what: Synthetic) -> Corpus:
    """Returns a made-up corpus."""

    def make(write: Callable[[bytes], object], counts: Counter[str], check: Check) -> list[str]:
        for batch in synthetic_rows(what.messages, what.seed, what.shape):
            check()
            write(batch)
            counts["messages"] += batch.count(b"\n")
        return []

    return Corpus(_place(json.dumps(asdict(what), sort_keys=True)), what.bytes, make)


def archive(path: Path, *, damaged: bool = False) -> Corpus:
    """Returns the corpus of a mail archive: a file or a folder. Raises UsageError if there is nothing.

    Files that change make another corpus. damaged: what could be read is used where files break off.
    """
    files = sources.files(path)
    stats = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    # Text compresses to a quarter or so.
    size = sum(n * (4 if name.endswith(".gz") else 1) for name, n, _ in stats)

    def make(write: Callable[[bytes], object], counts: Counter[str], check: Check) -> list[str]:
        bad: list[str] = []
        for line in archive_rows(files, counts, check, bad):
            write(line)
        return bad

    return Corpus(_place(json.dumps(stats)), size, make, str(path), damaged)


def archive_rows(
    files: list[Path], counts: Counter[str], check: Check = lambda: None, bad: list[str] | None = None
) -> Iterator[bytes]:
    """Yields the rows of the messages of these files, one at a time; `bad` gets the names of damaged
    files."""
    for file in files:
        before = counts["cut_files"] + counts["unreadable_files"]
        for raw in sources.messages(file, counts, check):
            mail = parse(raw, counts)
            if mail is not None:
                yield rows.row(mail)
        if bad is not None and counts["cut_files"] + counts["unreadable_files"] > before:
            bad.append(str(file))


def _place(what: str) -> Path:
    digest = digests.of(f"{FORMAT}/{what}")[:16]
    return cache_folder(FOLDER) / digest
