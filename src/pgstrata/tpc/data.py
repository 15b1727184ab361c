"""The rows of a benchmark: made once for each scale factor by tpcgen-cli, kept in the cache, read by COPY."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

from pgstrata.errors import ServerError
from pgstrata.files.bounded import json_any
from pgstrata.files.ownership import read_small
from pgstrata.server.find.cache import cache_folder, keeping, use
from pgstrata.server.system.process import start
from pgstrata.tpc.benchmark import Benchmark
from pgstrata.tpc.source import INSTALL, tables

ABOUT = "about.json"
_CHUNK = 1 << 20

Json = dict[str, Any]


def folder(benchmark: Benchmark, scale: float) -> Path:
    """Returns the folder where the rows of a scale factor lie; another release of the generator has a folder
    of its own. Raises ServerError if the generator is not installed."""
    try:
        release = version("tpcgen-cli")
    except PackageNotFoundError as cause:
        raise _no_generator(benchmark) from cause
    return cache_folder(benchmark.name) / f"sf{scale:g}-tpcgen{release}{benchmark.edition}"


def file(benchmark: Benchmark, scale: float, table: str) -> Path:
    """Returns the file with the rows of one table, ready for COPY."""
    return folder(benchmark, scale) / f"{table}.dat"


def about(benchmark: Benchmark, scale: float) -> Json | None:
    """Returns `{scale, raw_bytes, tables: {name: {rows, bytes}}}`; None if the data is not there yet."""
    try:
        data = json_any(read_small(folder(benchmark, scale) / ABOUT))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def make(
    benchmark: Benchmark,
    scale: float,
    say: Callable[[str], None] = lambda text: None,
    check: Callable[[], None] = lambda: None,
) -> Json:
    """Makes the data unless it is there. check: called often, may raise to give up.

    It is built in a hidden folder and renamed when whole. Raises ServerError where the disk is too
    small or the generator fails.
    """
    if there := about(benchmark, scale):
        use(folder(benchmark, scale))
        return there
    final = folder(benchmark, scale)
    with keeping(final, "the data", benchmark.raw_bytes(scale), "take a smaller scale, ") as place:
        say(f"  making the data of scale factor {scale:g} (kept in {final})")
        begun = time.monotonic()
        facts: Json = {"scale": scale, "raw_bytes": 0, "tables": {}}
        for table in tables(benchmark):
            facts["tables"][table] = _generate(benchmark, scale, table, place / f"{table}.dat", check)
        facts["raw_bytes"] = sum(t["bytes"] for t in facts["tables"].values())
        if benchmark.more is not None:
            facts |= benchmark.more(place, facts, check)
        facts["seconds"] = round(time.monotonic() - begun, 3)
        (place / ABOUT).write_text(json.dumps(facts, indent=1) + "\n")
    use(final)
    return facts


def _generate(benchmark: Benchmark, scale: float, table: str, to: Path, check: Callable[[], None]) -> Json:
    """Writes the rows of one table to a file, as they come out of the generator, and returns their number and
    size. Raises ServerError and OSError."""
    command = [_generator(benchmark), benchmark.name, "-s", f"{scale:g}", "-T", table, "--stdout", "-q"]
    with (
        to.open("wb", buffering=0) as out,
        start(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as generator,
    ):
        assert generator.stdout is not None and generator.stderr is not None
        try:
            rows, size = without_last_delimiter(generator.stdout, out.write, check)
            complaint = generator.stderr.read().decode(errors="replace").strip()
        except BaseException:
            generator.kill()
            raise
    if generator.returncode != 0 or rows == 0:
        raise ServerError(
            f"tpcgen-cli failed to make table {table} of scale factor {scale:g}",
            complaint[-500:] or "no output",
        )
    return {"rows": rows, "bytes": size}


def without_last_delimiter(
    source: IO[bytes],
    write: Callable[[bytes], object],
    check: Callable[[], None] = lambda: None,
    chunk_bytes: int = _CHUNK,
) -> tuple[int, int]:
    """Copies rows and leaves out the `|` at each row's end, which COPY takes for one more column.

    Returns rows and bytes written. Never holds more than a chunk.
    """
    rows = size = 0
    held = b""
    while chunk := source.read(chunk_bytes):
        check()
        text = held + chunk
        # A chunk may end between the delimiter and its newline.
        held = b"|" if text.endswith(b"|") else b""
        # Half as much time as `replace` and `count` take.
        parts = text[: len(text) - len(held)].split(b"|\n")
        text = b"\n".join(parts)
        rows += len(parts) - 1
        size += len(text)
        write(text)
    if held:
        write(held)
        size += len(held)
    return rows, size


def _generator(benchmark: Benchmark) -> str:
    beside = Path(sys.executable).parent / "tpcgen-cli"
    program = str(beside) if beside.exists() else shutil.which("tpcgen-cli")
    if program is None:
        raise _no_generator(benchmark)
    return program


def _no_generator(benchmark: Benchmark) -> ServerError:
    return ServerError(f"tpcgen-cli, which makes the data of {benchmark.title}, is not installed", INSTALL)
