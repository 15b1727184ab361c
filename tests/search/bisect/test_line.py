"""The line a search goes along: commits by first parents, releases, configs, and ends that make none."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgstrata.campaign.study import Variant
from pgstrata.errors import UsageError
from pgstrata.search.bisect.line import about_commit, commits, configs, releases
from support.tree import commit, git, repository

pytestmark = pytest.mark.program


def usual(server: str) -> Variant:
    return Variant(server=server, config=["default"])


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Five commits on main, tagged c1 … c5; a branch that left at c2, merged by c5."""
    folder = repository(tmp_path / "repo")
    git(folder, "tag", "c1")
    for number in (2, 3, 4):
        (folder / "file").write_text(f"{number}\n")
        commit(folder, f"change {number}")
        git(folder, "tag", f"c{number}")
        if number == 2:
            git(folder, "branch", "side")
    git(folder, "checkout", "-q", "side")
    (folder / "other").write_text("side\n")
    commit(folder, "on the side")
    git(folder, "checkout", "-q", "main")
    git(folder, "merge", "-q", "--no-ff", "-m", "merge side", "side")
    git(folder, "tag", "c5")
    return folder


def test_commits_come_by_first_parents_the_good_end_first(repo: Path) -> None:
    line = commits(repo, "c1", "c5", usual)
    assert [stop.subject for stop in line.stops] == [
        "the first",
        "change 2",
        "change 3",
        "change 4",
        "merge side",
    ]
    assert line.stops[0].id == git(repo, "rev-parse", "c1")
    assert line.stops[4].variant == usual(f"git:{repo}#{line.stops[4].id}")
    assert line.stops[1].author == "tester" and line.stops[1].date[:2] == "20"
    assert line.notes == []


def test_a_ref_that_does_not_exist_is_told_with_the_nearest(repo: Path) -> None:
    with pytest.raises(UsageError, match="no commit 'sidee'") as error:
        commits(repo, "sidee", "main", usual)
    assert "side" in error.value.hint


def test_ends_that_are_exchanged_are_said_to_be(repo: Path) -> None:
    with pytest.raises(UsageError, match="c1 \\(--bad\\) is older than c4 \\(--good\\)") as error:
        commits(repo, "c4", "c1", usual)
    assert "--good c1 --bad c4" in error.value.hint


def test_the_same_commit_twice_is_no_range(repo: Path) -> None:
    with pytest.raises(UsageError, match="the same commit"):
        commits(repo, "c5", "main", usual)


def test_ends_on_two_branches_are_no_line(repo: Path) -> None:
    with pytest.raises(UsageError, match="different branches") as error:
        commits(repo, "side", "c4", usual)
    assert git(repo, "rev-parse", "--short=10", "c2") in error.value.hint


def test_a_good_end_that_came_by_a_merge_is_no_line(repo: Path) -> None:
    with pytest.raises(UsageError, match="came in by a merge") as error:
        commits(repo, "side", "c5", usual)
    assert git(repo, "rev-parse", "--short=10", "c2") in error.value.hint


def test_histories_that_never_met_are_no_line(repo: Path) -> None:
    git(repo, "checkout", "-q", "--orphan", "alone")
    commit(repo, "alone")
    with pytest.raises(UsageError, match="no commit in common"):
        commits(repo, "c1", "alone", usual)


def test_a_shallow_clone_is_named_as_such(repo: Path, tmp_path: Path) -> None:
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=2", f"file://{repo}", str(shallow))
    with pytest.raises(UsageError, match="no commit 'c1'") as error:
        commits(shallow, "c1", "main", usual)
    assert "--unshallow" in error.value.hint
    git(shallow, "fetch", "-q", "--depth=1", "origin", "tag", "c1")
    with pytest.raises(UsageError, match="shallow clone") as error:
        commits(shallow, "c1", "main", usual)
    assert "--unshallow" in error.value.hint


def test_changes_that_are_not_committed_are_said_to_take_no_part(repo: Path) -> None:
    (repo / "file").write_text("edited\n")
    line = commits(repo, "c1", "c4", usual)
    assert line.n == 3
    assert "not committed" in line.notes[0]
    assert (repo / "file").read_text() == "edited\n"


def test_what_a_page_says_of_a_commit(repo: Path) -> None:
    about = about_commit(repo, git(repo, "rev-parse", "c3"))
    assert about.message == "change 3"
    assert "file | 2 +-" in about.diffstat
    assert len(about.parents) == 1
    assert len(about_commit(repo, git(repo, "rev-parse", "c5")).parents) == 2


def test_a_series_of_releases_or_configs_is_a_line_too() -> None:
    line = releases(["pg:13", "pg:14"], usual)
    assert [stop.variant.server for stop in line.stops] == ["pg:13", "pg:14"]
    line = configs(["./a.conf", "./a.conf+./b.conf"], Variant(server="pg:17"))
    assert [stop.name for stop in line.stops] == ["a", "a+b"]
    assert line.stops[1].variant == Variant(server="pg:17", config=["./a.conf", "./b.conf"])


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        (["pg:13"], "two ends"),
        (["pg:13", "pg:13"], "is there twice"),
        (["pg:13", "postgres"], "does not name a server"),
        (["pg:13", "dsn:host=x"], "running server"),
    ],
)
def test_a_series_that_is_none_is_refused(specs: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        releases(specs, usual)


def test_a_clock_that_jumped_back_and_separators_in_subjects_do_not_part_a_line(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2001-01-01T00:00:00+0000")
    for number in range(20):
        commit(repo, f"late\u2028 {number}\x85")
    line = commits(repo, "c5", "main", usual)
    assert line.n == 20 and line.stops[-1].subject.startswith("late\u2028 19")
