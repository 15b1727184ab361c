"""A folder in which nothing can be written is refused before anything is done, also by what only plans."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgstrata.cli.main import invoke
from pgstrata.errors import OwnershipError, StoreError, UsageError
from pgstrata.store.lock import check_results
from support.tree import commit, repository

NOWHERE = "/proc/self/pgstrata"
"""Not even root makes a folder there."""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a query, a watch and a repository, where commands are given."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow.sql").write_text("SELECT 1;\n")
    repo = repository(tmp_path / "repo")
    (repo / "src/backend/main.c").write_text("int main(void) { return 0; }\n")
    commit(repo, "the second")
    (tmp_path / "watch.toml").write_text(
        'repository = "repo"\nsince = "HEAD~1"\n[[series]]\nworkload = "pgbench"\n'
        'steps = ["select-only-prepared-c1"]\n'
    )
    return tmp_path


@pytest.mark.program
@pytest.mark.parametrize(
    "words",
    [
        ("run", "pg:16", "pg:17", "--results", NOWHERE),
        ("run", "pg:16", "pg:17", "--fleet", "local:2", "--results", NOWHERE),
        ("compare-queries", "--server", "pg:16,pg:17", "slow.sql", "--results", NOWHERE),
        ("patch", "main", "--repo", "repo", "--base", "main~1", "--results", NOWHERE),
        (
            *("bisect", "--repo", "repo", "--good", "main~1", "--bad", "main", "--step", "point-query"),
            *("--results", NOWHERE),
        ),
        ("watch", "watch.toml", "--results", NOWHERE),
        ("watch", "watch.toml", "--site", NOWHERE),
    ],
    ids=lambda words: " ".join(words[:1] + words[-2:-1]),
)
def test_a_dry_run_refuses_what_the_measurement_would(
    files: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke([*words, "--dry-run"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"error: cannot store results in {NOWHERE}: ") and "--results" in error, error


@pytest.mark.program
@pytest.mark.parametrize(
    ("folder", "why"), [("/proc/self/data", "cannot be written to"), ("/proc/no/data", "there is no folder")]
)
def test_a_dry_run_refuses_a_data_folder_that_takes_nothing(
    files: Path, folder: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["run", "pg:16", "--data-dir", folder, "--dry-run"]) == 2
    assert why in capsys.readouterr().err
    assert not (files / "results").exists()


@pytest.mark.program
def test_a_dry_run_makes_no_data_folder(files: Path) -> None:
    assert invoke(["run", "pg:17", "--data-dir", "data", "--dry-run"]) == 0
    assert not (files / "data").exists()


def test_what_is_looked_at_is_left_as_it_is(tmp_path: Path) -> None:
    for folder in (tmp_path / "a/b/c", tmp_path):
        before = sorted(tmp_path.iterdir())
        check_results(folder)
        assert sorted(tmp_path.iterdir()) == before


def test_files_and_folders_of_others_are_no_results_folders(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is a file"):
        check_results(tmp_path / "file")
    with pytest.raises(StoreError, match="Not a directory"):
        check_results(tmp_path / "file/below")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(OwnershipError, match="can be written by other users"):
        check_results(tmp_path / "open")
