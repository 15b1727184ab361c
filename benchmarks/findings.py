"""Open questions of published studies, answered by counted instructions: a page made of bundles.

    .venv/bin/python benchmarks/findings.py > benchmarks/results/findings.md

Each bundle in `benchmarks/results/bundles` is verified first: its verdicts are computed anew from what was
counted. The page has a row for each step and version, with the published ratio of rates beside it.
Instructions and rates are columns of their own: one is not the other. Exits 1 where a verdict comes out
otherwise.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pgstrata import numbers
from pgstrata.bundle.packing import Bundle, unpacked, verify
from pgstrata.count.results import Counts, counts_of
from pgstrata.count.verdicts import CountComparison, CountVerdict, changes_of, sentence
from pgstrata.judge.published import Published, read_published, same_version
from pgstrata.store import Run

ROOT = Path(__file__).parents[1]
BUNDLES = ROOT / "benchmarks/results/bundles"
STUDY = "sb-8core"
"""Published with one client on a small machine: what comes nearest to counted instructions."""

HEAD = """\
# What counts say of published questions

<!-- Made of bundles: `python benchmarks/findings.py > benchmarks/results/findings.md` -->

Instructions per operation do not depend on how busy a machine is. Each row is one step of the published suite
on two versions: instructions against the base with their interval over fresh starts, the functions that
account for a difference, and the ratio of rates that was published (study `sb-8core`, one client). A rate is
not a count: where they say different things, it is not the path of one client through the code that changed.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("bundles", nargs="*", type=Path, help=f"default: all in {BUNDLES}")
    files = parser.parse_args().bundles or sorted(BUNDLES.glob("*.pgstrata"))
    if not files:
        print(f"findings: no bundle in {BUNDLES}", file=sys.stderr)
        return 1
    text, differences = page(files)
    print(text, end="")
    for difference in differences:
        print(f"findings: {difference}", file=sys.stderr)
    return 1 if differences else 0


def page(files: Sequence[Path]) -> tuple[str, list[str]]:
    """Returns the page, and which verdicts of the bundles do not come out the same."""
    published = [
        entry for entry in read_published(ROOT / "campaigns/published/published.csv") if entry.study == STUDY
    ]
    parts, differences = [HEAD], []
    for file in files:
        with unpacked(file) as bundle:
            differences += [f"{file.name}: {text}" for text in verify(bundle).differences]
            parts += _section(file, bundle, published)
    return "".join(parts), differences


def _section(file: Path, bundle: Bundle, published: Sequence[Published]) -> Iterator[str]:
    counts = counts_of(bundle.results)
    runs = bundle.results.counted
    dates = sorted(run.record.started[:10] for run in runs)
    tools = sorted({run.record.counted.tool for run in runs if run.record.counted})
    name = file.resolve()
    where = name.relative_to(ROOT).as_posix() if name.is_relative_to(ROOT) else file.name
    yield f"\n## {bundle.manifest.campaign}, against {bundle.results.base}\n\n"
    yield f"    {_command(runs)}\n    pgstrata verify {where} --report page\n\n"
    host = runs[0].record.host
    yield f"Date: {dates[0]}. Machine: {host.cpus} CPUs, {host.cpu_model}. Counted by {', '.join(tools)}.\n\n"
    yield "| step | version | instructions | interval | | functions | published rate |\n"
    yield f"|{'---|' * 7}\n"
    rows = [
        (step.step, _row(counts, bundle, comparison, step, published)) for comparison, step in _steps(counts)
    ]
    yield from (row for _, row in sorted(rows, key=lambda pair: pair[0]))


def _command(runs: Sequence[Run]) -> str:
    """Returns the command that counts the same again, with the newest minor releases of then."""
    servers = sorted(runs, key=lambda run: run.record.variant_order)
    steps = ", ".join(f'"{step}"' for step in runs[0].record.options["steps"])
    return f"pgstrata count {' '.join(run.record.server.spec for run in servers)} --set 'steps=[{steps}]'"


def _steps(counts: Counts) -> Iterator[tuple[CountComparison, CountVerdict]]:
    for comparison in counts.comparisons:
        for step in comparison.steps:
            if step.headline:
                yield comparison, step


def _row(
    counts: Counts,
    bundle: Bundle,
    comparison: CountComparison,
    step: CountVerdict,
    published: Sequence[Published],
) -> str:
    changes = changes_of(
        counts.side(comparison.base), counts.side(comparison.other), step.workload, step.step, step.role
    )
    functions = sentence(step, changes).partition(", of them ")[2] if step.word in ("more", "fewer") else ""
    interval = f"{numbers.significant(step.low, 4)} – {numbers.significant(step.high, 4)}"
    cells = [
        step.step,
        comparison.other,
        "not counted" if step.other is None else f"× {numbers.significant(step.ratio, 4)}",
        interval if step.other is not None else "",
        step.word,
        functions,
        _published(bundle, comparison, step.step, published),
    ]
    return f"| {' | '.join(cells)} |\n"


def _published(bundle: Bundle, comparison: CountComparison, step: str, published: Sequence[Published]) -> str:
    """Returns the published ratio of rates of the same two versions, the version it is of behind it."""
    versions = {run.variant: run.record.server.version for run in bundle.results.counted}
    measured = list(versions.values())
    study = {entry.version for entry in published} | {entry.base for entry in published}
    for entry in published:
        pair = (
            (entry.base, versions[comparison.base]),
            (entry.version, versions[comparison.other]),
        )
        if entry.step == step and all(mine in same_version(theirs, study, measured) for theirs, mine in pair):
            return f"× {numbers.ratio(entry.ratio.value)} ({entry.version})"
    return ""


if __name__ == "__main__":
    sys.exit(main())
