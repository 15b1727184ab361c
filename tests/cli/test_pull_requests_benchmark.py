"""benchmarks/pull_requests.py: what the pull requests change, and the table of how they ended."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from support.benchmarks import benchmark


@pytest.fixture(scope="module")
def pulls() -> ModuleType:
    return benchmark("pull_requests.py")


@pytest.mark.program
def test_each_adds_one_function_to_one_file_of_the_base(pulls: ModuleType, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    for name in ("access/heap.c", "executor/exec.c", "executor/README"):
        path = repo / "src/backend" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("int x;\n")
    who = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    for arguments in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "Begin"]):
        subprocess.run(["git", "-C", str(repo), *arguments], check=True)
    history = tmp_path / "history"
    paths = pulls.make_pulls(repo, "HEAD", history, 8)
    assert set(paths) == {"src/backend/access/heap.c", "src/backend/executor/exec.c"}
    assert pulls.make_pulls(repo, "HEAD", history, 8) == paths
    for number, path in enumerate(paths, 1):
        changed = pulls.git(history, "diff", "--numstat", "base", f"pull-{number}").decode().split()
        assert changed[1:] == ["0", path] and int(changed[0]) > 5
        text = pulls.git(history, "show", f"pull-{number}:{path}").decode()
        assert text.count(f"pgstrata_unused_{number}(int *x)") == 2
    compiled = subprocess.run(["cc", "-fsyntax-only", "-x", "c", "-"], input=text.encode(), check=False)
    assert compiled.returncode == 0


def test_the_table_counts_how_they_ended(pulls: ModuleType) -> None:
    outcomes = [
        pulls.Outcome(n, by, "a.c", code, 40.0 + n, 2.0 + n)
        for n, (by, code) in enumerate([("instructions", 0), ("instructions", 1), ("rate", 3)])
    ]
    assert pulls.table(outcomes).splitlines()[2:] == [
        "| instructions | 2 | 1 | 1 | 0 | 41 | 2.0 to 3.0 |",
        "| rate | 1 | 0 | 0 | 1 | 42 | 4.0 to 4.0 |",
    ]
