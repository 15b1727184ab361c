"""Which runs somebody means: by a variant's label, a run's id, or a folder."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgstrata.errors import NoRunsError, StoreError, UsageError
from pgstrata.files.user_files import shown
from pgstrata.store.catalogue import Entry
from pgstrata.store.comparisons import counted
from pgstrata.store.imported import IMPORTED
from pgstrata.store.names import RUN_FOLDER
from pgstrata.store.read import BrokenRun, Run, read_run
from pgstrata.store.results_folder import Results
from pgstrata.suggest import meant, nearest

_SERVER = re.compile(r"(?:pg|path|dsn|release|tar|src|git):.")


@dataclass(frozen=True)
class Side:
    """One side of a comparison: what it is called, and its runs, all measured by pgstrata.

    Raises UsageError for a run that was imported: no verdict rests on what another program measured.
    """

    name: str
    runs: tuple[Run, ...]

    def __post_init__(self) -> None:
        if any(run.imported for run in self.runs):
            raise UsageError(
                f"{self.name} was imported, and no verdict rests on what another program measured",
                "pgstrata report shows it",
            )


def campaign_runs(results: Results, campaign: str | None) -> list[Run]:
    """Returns the runs of one campaign, as `campaign_entries` has them. Raises the same errors."""
    return results.read(campaign_entries(results, campaign))


def campaign_entries(results: Results, campaign: str | None) -> list[Entry]:
    """Returns the entries of the runs of one campaign; without a name, of the campaign that was started last.
    Damaged runs are in `results.broken` afterwards.

    Raises NoRunsError without runs, UsageError for a campaign that is not there.
    """
    if not results.root.is_dir():
        raise UsageError(f"there is no results folder {results.root}", "pgstrata run makes one")
    runs = results.entries()
    if not runs:
        raise NoRunsError(f"no runs in {results.root}", damaged_hint(results) or "pgstrata run makes some")
    if campaign is None:
        campaign = max(runs, key=lambda run: run.started).campaign
    entries = counted([run for run in runs if run.campaign == campaign])
    if not entries:
        raise unknown_campaign(campaign, {run.campaign for run in runs}, results.root)
    return entries


def unknown_campaign(name: str, campaigns: Iterable[str], root: Path) -> UsageError:
    """Returns the error for a name that no campaign of a results folder has, with the nearest one."""
    return UsageError(
        f"no campaign {shown(name)!r} in {shown(root)}", meant(name, sorted(campaigns), "there is")
    )


def damaged_hint(results: Results) -> str:
    """Returns a hint that explains why no run is there: the first damaged run. Empty if no run is damaged."""
    if not results.broken:
        return ""
    more = f", with {len(results.broken) - 1} more" if len(results.broken) > 1 else ""
    return f"{results.broken[0]}; it is left out{more}"


def lost_runs(results: Results, sides: Sequence[Side], *, all_variants: bool) -> list[BrokenRun]:
    """Returns the damaged runs for which no sound run of the same variant and workload stands.

    sides: the first one's campaign counts. all_variants: also of variants that are not among the sides.
    """
    runs = [run for side in sides for run in side.runs]
    campaigns = {run.folder.parents[2] for run in sides[0].runs}
    variants = {run.folder.parents[1] for run in runs}
    sound = {run.folder.parent for run in runs}
    return [
        run
        for run in results.broken
        if run.folder.parent not in sound
        and run.folder.parents[2] in campaigns
        and (all_variants or run.folder.parents[1] in variants)
    ]


def choose(text: str, results: Results, campaign: str | None = None) -> Side:
    """Returns the runs that `text` names: the label of a variant or a beginning of it that fits only one, the
    id of a run, the folder of a run, or a folder with the runs of one variant.

    Raises UsageError where nothing or several things fit, StoreError for damaged runs.
    """
    if not text.strip():
        raise UsageError("an empty name stands for no run", "give a variant's label, a run's id or a folder")
    folder = Path(text)
    if _SERVER.match(text) and not folder.exists():
        raise UsageError(
            f"{text} is a server, and no run of it is called so",
            f"pgstrata run {text} OTHER compares servers; here write labels, as pgstrata runs shows them",
        )
    if "/" in text or (folder.is_dir() and not _is_label(text, results)):
        return _folder(folder, results)
    runs = campaign_entries(results, campaign)
    labels = sorted({run.variant for run in runs})
    begins = [label for label in labels if label.startswith(text)]
    if text not in labels and (by_id := [run for run in results.entries() if run.run_id == text]):
        return Side(f"{by_id[0].variant} ({text})", _read(by_id, results))
    if text in labels or len(begins) == 1:
        label = text if text in labels else begins[0]
        return Side(label, _read([run for run in runs if run.variant == label], results))
    if begins:
        raise UsageError(f"{text} fits several variants: {', '.join(begins)}", "write the whole label")
    near = nearest(text, labels)
    meant = f"did you mean {near}? " if near else ""
    here = runs[0].campaign
    elsewhere = [run for run in results.entries() if run.variant.startswith(text) and run.campaign != here]
    newest = max(elsewhere, key=lambda run: run.started, default=None)
    another = f"; or --campaign {shlex.quote(newest.campaign)}, which has {newest.variant}" if newest else ""
    raise UsageError(
        f"no variant, run or folder is called {text}",
        f"{meant}variants of campaign {here}: {', '.join(labels)}{another}",
    )


def _read(entries: Sequence[Entry], results: Results) -> tuple[Run, ...]:
    """Raises StoreError where none of them is sound any more. Imported runs are left out beside others."""
    runs = tuple(results.read([run for run in entries if run.status != IMPORTED] or entries))
    if not runs:
        raise StoreError(f"{results.broken[-1]}", "choose another run")
    return runs


def _is_label(text: str, results: Results) -> bool:
    return results.root.is_dir() and any(run.variant == text for run in results.entries())


def _folder(folder: Path, results: Results) -> Side:
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}")
    if os.path.lexists(folder / "run.json"):
        run = read_run(folder.resolve())
        if isinstance(run, BrokenRun):
            raise StoreError(f"{run}", "choose another run")
        return Side(f"{run.variant} ({run.run_id})", (run,))
    all_runs = _below(folder.resolve())
    results.broken += [run for run in all_runs if isinstance(run, BrokenRun)]
    runs = [run for run in all_runs if isinstance(run, Run)]
    if not runs:
        raise UsageError(f"there are no runs below {folder}", damaged_hint(results))
    variants = sorted({run.variant for run in runs})
    campaigns = sorted({run.campaign for run in runs})
    if len(variants) > 1 or len(campaigns) > 1:
        what = variants if len(variants) > 1 else campaigns
        raise UsageError(
            f"{folder} holds several {'variants' if len(variants) > 1 else 'campaigns'}: {', '.join(what)}",
            "name the folder of one variant: RESULTS/<campaign>/<variant>",
        )
    return Side(f"{variants[0]} in {folder}", tuple(runs))


def _below(folder: Path) -> Sequence[Run | BrokenRun]:
    """Runs at any depth down to a results folder's: it may be one, or a campaign's, variant's, workload's."""
    return [
        read_run(path)
        for depth in range(1, 5)
        for path in sorted(folder.glob("/".join("*" * depth)))
        if RUN_FOLDER.fullmatch(path.name)
        and not any(p.startswith(".") for p in path.relative_to(folder).parts)
    ]
