"""What commits change is told by git: paths, functions, views and words."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgstrata.errors import ServerError
from pgstrata.source.touched import Touched, defined_in, touched_by
from support.tree import commit, git, repository

pytestmark = pytest.mark.program

SOURCE = """static int
quick(int a)
{
\treturn a;
}

int
slow(int a)
{
\treturn quick(a);
}
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = repository(tmp_path / "repo")
    (folder / "src/backend/work.c").write_text(SOURCE)
    (folder / "src/backend/catalog").mkdir()
    (folder / "src/backend/catalog/system_views.sql").write_text("CREATE VIEW pg_work AS\n    SELECT 1;\n")
    commit(folder, "work")
    return folder


def last(repo: Path, subject: str) -> Touched:
    """What the commit of everything that was edited changes."""
    commit_id = commit(repo, subject)
    return touched_by(repo, [git(repo, "rev-parse", "HEAD^"), commit_id])[commit_id]


def edit(repo: Path, path: str, before: str, after: str) -> None:
    file = repo / path
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after))


def test_the_function_of_a_change_is_named(repo: Path) -> None:
    edit(repo, "src/backend/work.c", "return quick(a);", "return quick(a) + 1;")
    touched = last(repo, "Speed up Work")
    assert (
        touched == Touched({"src/backend/work.c"}, {"src/backend/work.c"}, {"slow"}, touched.message)
        and touched.message.strip() == "speed up work"
    )


def test_functions_that_come_and_go_are_named(repo: Path) -> None:
    edit(
        repo,
        "src/backend/work.c",
        "int\nslow(int a)",
        "int\nother(void)\n{\n\treturn 1;\n}\n\nint\nrenamed(int a)",
    )
    assert {"slow", "renamed", "other"} <= last(repo, "rename").names


def test_a_view_is_named(repo: Path) -> None:
    edit(repo, "src/backend/catalog/system_views.sql", "SELECT 1", "SELECT 2")
    assert last(repo, "view").names == {"pg_work"}


def test_comments_and_tests_touch_no_code(repo: Path) -> None:
    edit(repo, "src/backend/work.c", "\treturn a;", "\t/* once more */\n\treturn a;")
    (repo / "src/test/regress").mkdir(parents=True)
    (repo / "src/test/regress/regress.c").write_text(SOURCE)
    touched = last(repo, "tidy")
    assert touched.paths == {"src/backend/work.c", "src/test/regress/regress.c"}
    assert not touched.code and not touched.names


def test_lines_that_look_like_headers_of_a_diff_are_lines(repo: Path) -> None:
    edit(repo, "src/backend/work.c", "\treturn a;", "\treturn a\n-- a / b;\n+++ b;\ndiff --git a/x b/x;\n")
    touched = last(repo, "odd")
    assert touched.code == {"src/backend/work.c"} and touched.names == {"quick"}


def test_hostile_names_and_separators_do_no_harm(repo: Path) -> None:
    (repo / "src/backend/a \x02b'\".c").write_text(SOURCE)
    (repo / "src/backend/bin.c").write_bytes(b"\x00\xff\x01" * 100)
    touched = last(repo, "subject \x01 with a mark")
    assert len(touched.paths) == 2


def test_many_commits_are_read_in_blocks(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgstrata.source.touched.AT_ONCE", 2)
    ids = [git(repo, "rev-parse", "HEAD")]
    for number in range(5):
        edit(repo, "src/backend/work.c", "\treturn quick(a)", "\ta++;\n\treturn quick(a)")
        ids.append(commit(repo, f"number {number}"))
    touched = touched_by(repo, ids)
    assert list(touched) == ids[1:]
    assert all(change.names == {"slow"} for change in touched.values())
    assert [change.message.strip() for change in touched.values()] == [f"number {n}" for n in range(5)]


def test_paths_are_known_where_there_is_no_time_for_diffs(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgstrata.source.touched.MOST_SECONDS", 0.0)
    edit(repo, "src/backend/work.c", "return quick(a)", "return 2 * quick(a)")
    touched = last(repo, "late")
    assert touched.paths == {"src/backend/work.c"} and not touched.names


def test_definitions_are_found_by_their_style(repo: Path) -> None:
    assert defined_in(repo, "HEAD") == dict.fromkeys(("quick", "slow"), "src/backend/work.c")


def test_an_end_that_is_asked_for_ends_the_reading(repo: Path) -> None:
    def end() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        touched_by(repo, [git(repo, "rev-parse", ref) for ref in ("HEAD^", "HEAD")], end)


def test_commits_that_git_does_not_know_are_an_error_of_one_sentence(repo: Path) -> None:
    with pytest.raises(ServerError, match="git log failed"):
        touched_by(repo, ["0" * 40, "1" * 40])
