"""The profiles of a campaign: added up over repeats, and drawn as flame graphs beside the report."""

from __future__ import annotations

import re
import subprocess
import tempfile
import zlib
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from pgstrata.driver.path import find_tools
from pgstrata.errors import PgstrataError
from pgstrata.files.ownership import write_private
from pgstrata.judge.stacks import Stacks, add_up, folded_text, in_samples, recorded_stacks
from pgstrata.page.results import Repeats, RunSet, anchor

FOLDER = "flames"

_DRAWERS = 4


@dataclass(frozen=True)
class Flame:
    """All samples of a variant, step and role. graph, difference: file names beside the page, or None.

    samples: over all repeats. repeats: how many of them had a profile. counted: its stacks are instructions
    per operation, and nothing was sampled.
    """

    stacks: Stacks
    samples: int
    repeats: int
    event: str
    graph: str | None = None
    difference: str | None = None
    counted: bool = False


Key = tuple[str, str, str]  # workload, step, role
Flames = Mapping[Key, Mapping[str, Flame]]  # … → variant → flame


def read_flames(results: RunSet) -> dict[Key, dict[str, Flame]]:
    """Reads every profile of the runs; a damaged file counts as none."""
    flames: dict[Key, dict[str, Flame]] = {}
    for workload in results.workloads:
        for step in workload.steps:
            for variant, repeats in step.by_variant.items():
                for role in step.role_names:
                    if flame := _of_repeats(repeats, role):
                        flames.setdefault((workload.name, step.name, role), {})[variant] = flame
    return flames


def _of_repeats(repeats: Repeats, role: str) -> Flame | None:
    parts: list[Counter[str]] = []
    samples, event = 0, ""
    for measured in repeats.repeats:
        entry = (measured.record.profile or {}).get(role)
        if entry is not None and (part := recorded_stacks(measured.run.folder, entry)):
            # repeats weigh by their samples whatever the period of the event was
            parts.append(in_samples(part, entry.samples * 1000))
            samples += entry.samples
            event = entry.event or event
    return Flame(add_up(parts), samples, len(parts), event) if samples else None


def draw_flames(results: RunSet, flames: Flames, out: Path) -> tuple[Flames, str]:
    """Draws every graph into `out`/flames, each alone and against the base; removes older drawings.

    Returns the flames with the names of their files, and why graphs are missing or nothing.
    Raises OSError where `out` cannot be written.
    """
    folder = out / FOLDER
    for old in folder.glob("*.svg"):
        old.unlink()
    if not flames:
        return flames, ""
    try:
        binary = find_tools()
    except PgstrataError as error:
        return flames, f"The graphs could not be drawn: {error.message}; {error.hint}."
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    drawn: dict[Key, dict[str, Flame]] = {}
    troubles: list[str] = []
    with tempfile.TemporaryDirectory(prefix="pgstrata-flames-") as temporary:
        pens = Path(temporary)
        with ThreadPoolExecutor(_DRAWERS) as pool:
            jobs = {
                (key, variant): pool.submit(
                    _draw, binary, results.base, key, variant, by_variant, folder, pens
                )
                for key, by_variant in flames.items()
                for variant in by_variant
            }
        for (key, variant), job in jobs.items():
            graph, difference, trouble = job.result()
            troubles += [trouble] if trouble else []
            flame = replace(flames[key][variant], graph=graph, difference=difference)
            drawn.setdefault(key, {})[variant] = flame
    return drawn, troubles[0] if troubles else ""


def _draw(
    binary: Path,
    base: str,
    key: Key,
    variant: str,
    flames: Mapping[str, Flame],
    folder: Path,
    pens: Path,
) -> tuple[str | None, str | None, str]:
    name = _file_name(*key, variant)
    folded = _folded(flames[variant], pens / f"{name}.own")
    what = f"{key[0]}, {key[1]}, {key[2]}"
    flame = flames[variant]
    under = f"{flame.samples} samples of {flame.event}"
    if flame.counted:
        under = f"{flame.samples} instructions per operation, from the call graph of what was counted"
    graph, trouble = _svg(binary, [folded], f"{variant}: {what}", under, folder / f"{name}.svg")
    difference = None
    if variant != base and base in flames:
        before = _folded(flames[base], pens / f"{name}.base")
        difference, more = _svg(
            binary,
            [folded, "--base", before],
            f"{variant} against {base}: {what}",
            "red: larger share than the base's, blue: smaller; widths are those of this variant",
            folder / f"{name}.diff.svg",
        )
        trouble = trouble or more
    return graph, difference, trouble


def _folded(flame: Flame, path: Path) -> str:
    path.write_text(folded_text(in_samples(flame.stacks, flame.samples)), encoding="utf-8")
    return str(path)


def _svg(binary: Path, files: list[str], title: str, under: str, out: Path) -> tuple[str | None, str]:
    # XML has no place for control characters, and names may come from anywhere
    title, under = (re.sub(r"[\x00-\x1f\x7f\ud800-\udfff\ufffe\uffff]", "?", t) for t in (title, under))
    command = [str(binary), "flame", "draw", *files, f"--title={title}", f"--subtitle={under}"]
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"A flame graph could not be drawn: {error}"
    if done.returncode != 0:
        stderr = done.stderr.decode("utf-8", "replace").strip()
        return None, f"A flame graph could not be drawn: {stderr}"
    write_private(out, done.stdout)
    return f"{FOLDER}/{out.name}", ""


def _file_name(*names: str) -> str:
    """Returns a file name of letters, digits, dots and dashes, with a digest, so that names share no file."""
    digest = zlib.crc32("\0".join(names).encode("utf-8", "replace"))
    return f"{anchor(*names)[:150]}-{digest:08x}"
