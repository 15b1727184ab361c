"""One commit judged against the good end, for `git bisect run`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from rich.console import Console

from pgstrata.errors import BuildError
from pgstrata.judge.compare import compare_all
from pgstrata.measure.interrupt import Interrupts
from pgstrata.measure.progress import plain_lines
from pgstrata.measure.two_servers import (
    MeasuredWork,
    OtherFailedError,
    TooFewPairsError,
    TwoServers,
)
from pgstrata.search.bisect.hunt import RUNS, build_server, of_machine
from pgstrata.search.bisect.line import VariantOf
from pgstrata.source.git import commit_of, repository, tree_of
from pgstrata.stats.criterion import Criterion
from pgstrata.store.choose import Side

Word = Literal["slower", "faster", "same", "unclear", "broken"]


def judge_head(
    work: MeasuredWork, repo: Path, good: str, variant_of: VariantOf, folder: Path, console: Console
) -> tuple[Word, str]:
    """Returns the verdict on the commit that is checked out, against the good end, and a sentence.
    variant_of: as of `Range`s.

    `broken`: it does not build, or its server does not start. Before anything is built raises UsageError for
    a ref, step or option that is not there; ServerError where the good end cannot be measured or the machine
    lacks something, Interrupted.
    """
    say = plain_lines(console)
    repo = repository(repo)
    first, head = commit_of(repo, good), commit_of(repo, "HEAD")
    if first == head:
        return "same", f"{head[:10]} is the good end itself"
    base, other = (variant_of(f"git:{repo}#{commit}") for commit in (first, head))
    name = f"{work.step}-{first[:10]}-{head[:10]}"
    two = TwoServers(work, base, other, name, folder / RUNS)
    for commit in (first, head):
        tree_of(repo, commit)
    two.campaign()
    with Interrupts(say) as interrupts:
        build_server(work, base, say, interrupts.check)
        try:
            build_server(work, other, say, interrupts.check)
        except BuildError as error:
            if of_machine(error):
                raise
            return "broken", error.message
        try:
            measured = two.measure(console)
        except OtherFailedError as error:
            return "broken", error.message
        except TooFewPairsError as error:
            return "unclear", error.message
    base_side, other_side = (Side(run.variant, (run,)) for run in measured.runs)
    (comparison,) = compare_all(base_side, [other_side], criterion=Criterion(work.margin), steps=[work.step])
    verdict = comparison.steps[0].verdict
    text = f"{head[:10]} at {work.step}: {verdict.ratio - 1:+.1%}, {verdict.reason}".replace("%", " %")
    return verdict.word, text


__all__ = ["judge_head"]
