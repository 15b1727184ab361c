"""Which runs belong together, which of several comparisons counts, and what is set aside."""

from __future__ import annotations

import json
from pathlib import Path

from pgstrata.store import Results, RunKey
from pgstrata.store.comparisons import complete, counted, replace_older
from pgstrata.store.record import ComparisonRecord, Host
from support.records import circumstances, comparison_record

KEYS = [RunKey("study", variant, "insert", 1) for variant in "ab"]


def comparison(name: str) -> ComparisonRecord:
    return comparison_record("a", "b", id=name, rounds=3, margin=0.01)


def measured(root: Path, name: str, failed: str = "", variants: str = "ab") -> dict[RunKey, Path]:
    """Runs of one comparison; those of the variants in `failed` ended badly."""
    folders = {}
    for key in KEYS:
        if key.variant in variants:
            status = "failed" if key.variant in failed else "done"
            folder = (
                Results(root).begin(key).finish(circumstances(status=status, comparison=comparison(name)))
            )
            data = json.loads((folder / "run.json").read_text())
            data["started"] = f"2026-01-0{name}T00:00:00.000Z"
            (folder / "run.json").write_text(json.dumps(data))
            folders[key] = folder
    return folders


def replaced(root: Path, folders: dict[RunKey, Path], failed: str = "") -> None:
    replace_older(Results(root), folders, [key for key in KEYS if key.variant in failed])


def visible(root: Path) -> dict[str, set[str]]:
    """Comparison and status of the runs that tables count, by variant."""
    by_variant: dict[str, set[str]] = {}
    for run in Results(root).runs():
        by_variant.setdefault(run.variant, set()).add(f"{run.comparison} {run.record.status}")
    return by_variant


def test_a_failed_run_takes_its_siblings_with_it(tmp_path: Path) -> None:
    for name, failed in (("1", "a"), ("2", "b")):
        replaced(tmp_path, measured(tmp_path, name, failed), failed)
        assert complete(Results(tmp_path), KEYS) is None
    assert visible(tmp_path) == {"a": {"2 done"}, "b": {"2 failed"}}
    folders = measured(tmp_path, "3")
    replaced(tmp_path, folders)
    assert complete(Results(tmp_path), KEYS) == folders
    assert visible(tmp_path) == {"a": {"3 done"}, "b": {"3 done"}}


def test_two_halves_are_no_whole(tmp_path: Path) -> None:
    """As a release that set aside run by run has left it."""
    measured(tmp_path, "1", variants="b")
    measured(tmp_path, "2", variants="a")
    assert complete(Results(tmp_path), KEYS) is None
    assert [run.variant for run in counted(Results(tmp_path).runs())] == ["a"]


def test_a_comparison_measured_anew_that_fails_leaves_the_older_one(tmp_path: Path) -> None:
    old = measured(tmp_path, "1")
    replaced(tmp_path, old)
    replaced(tmp_path, measured(tmp_path, "2", "b"), "b")
    assert complete(Results(tmp_path), KEYS) == old
    assert visible(tmp_path) == {"a": {"1 done"}, "b": {"1 done", "2 failed"}}
    assert {run.folder for run in counted(Results(tmp_path).runs())} == set(old.values())


def test_the_newest_of_several_whole_ones_counts(tmp_path: Path) -> None:
    """As of a process that was killed before it set the older ones aside."""
    measured(tmp_path, "1")
    new = measured(tmp_path, "2")
    measured(tmp_path, "3", variants="a")
    assert complete(Results(tmp_path), KEYS) == new
    assert {run.folder for run in counted(Results(tmp_path).runs())} == set(new.values())


def test_comparisons_of_two_machines_both_count(tmp_path: Path) -> None:
    folders = measured(tmp_path, "1")
    for key in KEYS:
        Results(tmp_path).begin(key).finish(
            circumstances(comparison=comparison("9"), host=Host(hostname="bench2"))
        )
    assert len(counted(Results(tmp_path).runs())) == 2 * len(folders)
