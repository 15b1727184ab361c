"""Open questions of published studies, answered by counted instructions: a page made of bundles.

    .venv/bin/python benchmarks/findings.py > benchmarks/results/findings.md

Each bundle in `benchmarks/results/bundles` is verified first: its verdicts are computed anew from what was
counted. Then each question of `benchmarks/questions.csv` gets an answer from its bundle (`answers.py`).
Exits 1 where a verdict comes out otherwise, or a question has no bundle.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import answers

from pgstrata import numbers
from pgstrata.bundle.packing import Bundle, unpacked, verify
from pgstrata.count.results import Counts, counts_of
from pgstrata.count.verdicts import CountVerdict
from pgstrata.judge.published import read_published
from pgstrata.store import Run

ROOT = Path(__file__).parents[1]
BUNDLES = ROOT / "benchmarks/results/bundles"
QUESTIONS = ROOT / "benchmarks/questions.csv"
PUBLISHED = ROOT / "campaigns/published/published.csv"

HEAD = """\
# What counts say to published questions

<!-- Made of bundles: `python benchmarks/findings.py > benchmarks/results/findings.md` -->

Instructions per operation do not depend on how busy a machine is. Each row is a question that a published
study leaves open, or one that it did not ask. The answer names the versions in which instructions change
against the version before, with their interval over fresh starts and the functions that account for it; then,
whether the published change of the rate is what the instructions say. A rate is not a count: where they say
different things, it is not the path of one client through the code that changed (caches, locks, waiting), or
not only.

| step | study | question | answer | bundle |
|---|---|---|---|---|
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
    """Returns the page, and what is wrong: verdicts that come out otherwise, questions without a bundle."""
    questions, published = answers.read_questions(QUESTIONS), read_published(PUBLISHED)
    with ExitStack() as stack:
        bundles = {file.stem: stack.enter_context(unpacked(file)) for file in files}
        problems = [
            f"{name}: {text}" for name, bundle in bundles.items() for text in verify(bundle).differences
        ]
        problems += [
            f"{q.bundle}: not here, asked for {q.step}" for q in questions if q.bundle not in bundles
        ]
        rows = [
            f"| {q.step} | {q.study} | {q.question} | {answers.answer(q, bundles[q.bundle], published)} "
            f"| [{q.bundle}](#{q.bundle}) |\n"
            for q in questions
            if q.bundle in bundles
        ]
        parts = [HEAD, *rows]
        for file in files:
            parts += _section(file, bundles[file.stem])
    return "".join(parts), problems


def _section(file: Path, bundle: Bundle) -> Iterator[str]:
    counts = counts_of(bundle.results)
    runs = bundle.results.counted
    dates = sorted(run.record.started[:10] for run in runs)
    tools = sorted({run.record.counted.tool for run in runs if run.record.counted})
    name = file.resolve()
    where = name.relative_to(ROOT).as_posix() if name.is_relative_to(ROOT) else file.name
    yield f"\n## {file.stem}\n\n"
    yield f"    {_command(runs)}\n    pgstrata verify {where} --report page\n\n"
    host = runs[0].record.host
    yield f"Date: {dates[0]}. Machine: {host.cpus} CPUs, {host.cpu_model}. Counted by {', '.join(tools)}.\n"
    yield f"Instructions against {bundle.results.base}; = where they are the same within the margin.\n\n"
    others = bundle.results.others
    yield f"| step | {' | '.join(others)} |\n|{'---|' * (1 + len(others))}\n"
    yield from _matrix(counts, others)


def _command(runs: Sequence[Run]) -> str:
    """Returns the command that counts the same again."""
    servers = sorted(runs, key=lambda run: run.record.variant_order)
    specs = dict.fromkeys(run.record.server.spec for run in servers)
    workload = servers[0].record.workload.partition(".")[0]
    steps = dict.fromkeys(
        step.name for run in servers if run.record.counted for step in run.record.counted.steps
    )
    return f"pgstrata count {' '.join(specs)} --workload {workload} " + " ".join(f"--step {s}" for s in steps)


def _matrix(counts: Counts, others: Sequence[str]) -> Iterator[str]:
    """Yields a row for each step: its instructions on each version."""
    cells: dict[str, dict[str, str]] = {}
    for comparison in counts.comparisons:
        for step in comparison.steps:
            if step.headline:
                cells.setdefault(step.step, {})[comparison.other] = _cell(step)
    for name in sorted(cells):
        yield f"| {name} | {' | '.join(cells[name].get(other, '') for other in others)} |\n"


def _cell(step: CountVerdict) -> str:
    if step.other is None:
        return "not counted"
    if step.word == "same":
        return "="
    return f"× {numbers.significant(step.ratio, 4)}" + (", unclear" if step.word == "unclear" else "")


if __name__ == "__main__":
    sys.exit(main())
