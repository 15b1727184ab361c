"""What `pgstrata patch` compares: patches in their order, a branch, its commits; and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgstrata.campaign.study import Variant
from pgstrata.cli.main import invoke
from pgstrata.errors import UsageError
from pgstrata.search.patch.compare import pairs_of
from pgstrata.search.patch.series import series_of
from pgstrata.source.patch import changed_paths
from support.schemas import check_printed
from support.tree import commit, git, repository

pytestmark = pytest.mark.program


def usual(server: str) -> Variant:
    return Variant(server=server, config=["default"])


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """main with two commits, and a branch `mine` with two more on the first."""
    folder = repository(tmp_path / "repo")
    (folder / "file").write_text("1\n2\n3\n")
    commit(folder, "a file")
    git(folder, "tag", "v1")
    git(folder, "checkout", "-q", "-b", "mine")
    for text, subject in (("1\n2\nthree\n", "three"), ("1\ntwo\nthree\n", "two")):
        (folder / "file").write_text(text)
        commit(folder, subject)
    git(folder, "checkout", "-q", "main")
    (folder / "other").write_text("x\n")
    commit(folder, "goes on")
    return folder


@pytest.fixture
def patches(repo: Path, tmp_path: Path) -> list[str]:
    """The two commits of `mine` as files."""
    return git(repo, "format-patch", "-q", "-o", str(tmp_path), "v1..mine").split() or sorted(
        map(str, tmp_path.glob("*.patch"))
    )


def test_each_patch_is_compared_with_the_one_before_and_the_last_with_the_base(
    repo: Path, patches: list[str]
) -> None:
    series = series_of(repo, "v1", patches, usual)
    names = [(base.name, other.name) for base, other in pairs_of(series)]
    assert names == [("base", "0001-three"), ("0001-three", "0002-two"), ("base", "0002-two")]
    assert [member.variant.patches or [] for member in series.members] == [[], patches[:1], patches]
    assert len({member.variant.server for member in series.members}) == 1


def test_a_branch_is_one_and_with_each_its_commits(repo: Path) -> None:
    assert [m.name for m in series_of(repo, "v1", ["mine"], usual).members] == ["base", "mine"]
    each = series_of(repo, "v1", ["mine"], usual, each=True)
    assert [m.what.partition(" ")[2] for m in each.members[1:]] == ["three", "two"]
    assert len(pairs_of(each)) == 3


def test_a_patch_that_does_not_apply_is_named_with_hunk_and_file(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repo.parent)
    wrong = "--- a/file\n+++ b/file\n@@ -1,3 +1,3 @@\n one\n-nothing like it\n+else\n end\n"
    Path("wrong.patch").write_text(wrong)
    assert invoke(["patch", "wrong.patch", "--repo", "repo", "--base", "v1", "--step", "point-query"]) == 2
    err = capsys.readouterr().err
    assert "the patch wrong.patch does not apply: hunk 1 does not fit file at line 1" in err
    assert not Path("patch").exists()


@pytest.mark.parametrize(
    ("names", "base", "message"),
    [
        (["mine"], "v11", "no commit 'v11'"),
        (["mien"], "v1", "no commit 'mien'"),
        (["v1"], "v1", "is the base itself"),
        (["mine"], "main", "is not made on main"),
        (["none.patch", "mine"], "v1", "there is no patch none.patch"),
    ],
)
def test_what_is_no_series_is_refused(repo: Path, names: list[str], base: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        series_of(repo, base, names, usual)


def test_a_branch_made_elsewhere_is_told_its_base(repo: Path) -> None:
    with pytest.raises(UsageError) as error:
        series_of(repo, "main", ["mine"], usual)
    assert f"--base {git(repo, 'rev-parse', '--short=10', 'v1')}" in error.value.hint


def test_the_same_patch_twice_is_a_slip(repo: Path, patches: list[str]) -> None:
    with pytest.raises(UsageError, match="is there twice"):
        series_of(repo, "v1", [patches[0], patches[0]], usual)


def test_what_comes_is_shown_without_doing_it(
    repo: Path, patches: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repo.parent)
    assert invoke(["patch", *patches, "--repo", "repo", "--base", "v1", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "compare 0002-two against 0001-three" in out
    command = ["patch", *patches, "--repo", "repo", "--base", "v1", "--dry-run", "--format", "json"]
    assert invoke(command) == 0
    out = capsys.readouterr().out
    check_printed(command, out)
    assert {"base": "0001-three", "other": "0002-two"} in json.loads(out)["comparisons"]
    assert invoke(["patch", *patches, "--repo", "repo", "--base", "v1", "--step", "nope", "--dry-run"]) == 2
    assert "no step 'nope'" in capsys.readouterr().err
    assert not (repo.parent / "patch").exists()


def test_what_changes_nothing_that_is_built_is_left_out(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repo.parent)
    git(repo, "checkout", "-q", "-b", "talk", "v1")
    (repo / "src/backend/README").write_text("what it is\n")
    commit(repo, "says what it is")
    git(repo, "format-patch", "-q", "-o", str(repo.parent), "v1..talk")
    (repo / "file").write_text("1\n2\n4\n")
    commit(repo, "counts otherwise")
    git(repo, "format-patch", "-q", "-o", str(repo.parent), "--start-number", "2", "talk~1..talk")
    sentence = "changes nothing that is built (src/backend/README): it is not compared"
    words = ["--repo", "repo", "--base", "v1", "--dry-run"]
    # Alone there is nothing to measure; in a series the next one stands against the base.
    assert invoke(["patch", "0001-says-what-it-is.patch", *words]) == 0
    assert capsys.readouterr().out == f"build base: v1 ({git(repo, 'rev-parse', 'v1')[:10]})\n" + (
        f"0001-says-what-it-is {sentence}\n"
    )
    both = ["0001-says-what-it-is.patch", "0002-counts-otherwise.patch"]
    assert invoke(["patch", *both, *words]) == 0
    out = capsys.readouterr().out
    assert "compare 0002-counts-otherwise against base\n" in out and sentence in out
    assert out.count("compare ") == 1
    assert invoke(["patch", "talk", "--each", *words]) == 0
    out = capsys.readouterr().out
    assert sentence in out and out.count("compare ") == 1
    # Nothing is built for nothing, and nothing is slower.
    assert invoke(["patch", both[0], *words[:-1]]) == 0
    done = capsys.readouterr()
    assert sentence in done.out and sentence in done.err and not (repo.parent / "patch").exists()
    assert invoke(["patch", both[0], *words[:-1], "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["comparisons"] == [] and answer["not_compared"] == [f"0001-says-what-it-is {sentence}"]


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        (b"diff --git a/doc/x b/doc/x\n--- a/doc/x\n+++ b/doc/x\n@@ -1 +1 @@\n", {b"doc/x"}),
        (b"--- old/src/a b.c\t2026-01-01\n+++ new/src/a b.c\t2026-01-02\n", {b"src/a b.c"}),
        (b"diff --git a/doc/x b/src/x.c\nrename from doc/x\nrename to src/x.c\n", {b"doc/x", b"src/x.c"}),
        (b"--- /dev/null\n+++ b/doc/new\n@@ -0,0 +1 @@\n+x\n", {b"doc/new"}),
        (b"--- a/doc/x\n+++ b/doc/x\n@@ -1 +0,0 @@\n--- or/src\n", {b"doc/x", b"src"}),
    ],
)
def test_the_paths_of_a_patch(text: bytes, paths: set[bytes]) -> None:
    assert changed_paths(text) == paths
