"""The catalogue: runs that are known are not opened again, and nothing in it outlives the folders."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pgstrata.store import Results, RunKey
from pgstrata.store import catalogue as store_catalogue
from pgstrata.store import read as store_read
from pgstrata.store.ask import query
from pgstrata.store.catalogue import NAME
from pgstrata.store.choose import choose
from support.records import circumstances, step_record
from support.runs import sum_anew

RUNS = 6


def add(root: Path, variant: str, repeat: int, rate: float = 1.0) -> Path:
    """A small whole run."""
    run = Results(root).begin(RunKey("c", variant, "w", repeat))
    run.step(
        step_record("s", rate=rate), series=[{"role": "query", "second": 0, "seconds": 1.0, "operations": 3}]
    )
    return run.finish(circumstances())


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six runs, and a catalogue of them."""
    monkeypatch.setattr(store_catalogue, "FEW", 2)
    root = tmp_path / "results"
    for repeat in range(1, RUNS // 2 + 1):
        for variant in ("a", "b"):
            add(root, variant, repeat, rate=float(repeat))
    assert opened(root) == RUNS
    return root


def opened(root: Path) -> int:
    """How many run.json are read to list the runs."""
    return Results(root).survey().read


def folders(root: Path) -> list[str]:
    return [entry.folder for entry in Results(root).entries()]


def test_known_runs_are_not_opened_again_and_new_ones_are_noticed(root: Path) -> None:
    assert opened(root) == 0
    before = folders(root)
    new = add(root, "b", 9)
    assert opened(root) == 1
    assert opened(root) == 0
    assert folders(root) == sorted([*before, str(new.relative_to(root))])
    shutil.rmtree(new)
    assert folders(root) == before


@pytest.mark.long
def test_the_views_say_the_same_with_and_without_it(root: Path) -> None:
    questions = [
        "select * from runs order by path",
        "select * from steps order by run_id",
        "select * from series order by run_id",
        "describe runs",
        "describe steps",
    ]
    kept = [query(root, sql).rows for sql in questions]
    add(root, "c", 1)
    (root / "c" / "c").rename(root / "c" / ".c")  # a run that the catalogue knows and that is gone
    assert [query(root, sql).rows for sql in questions] == kept
    (root / NAME).unlink()
    assert [query(root, sql).rows for sql in questions] == kept
    assert len(kept[0]) == len(kept[1]) == len(kept[2]) == RUNS


def test_a_compare_opens_the_runs_of_its_variant_only(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    real = store_read.read_known

    def noted(folder: Path, checked: int) -> object:
        read.append(folder)
        return real(folder, checked)

    monkeypatch.setattr(store_catalogue, "read_known", noted)
    side = choose("a", Results(root))
    assert [run.folder for run in side.runs] == read
    assert len(read) == RUNS // 2


def test_an_edited_run_is_read_again(root: Path) -> None:
    (folder,) = (root / "c" / "a" / "w").glob("2-*")
    before = (folder / "run.json").stat()
    text = (folder / "run.json").read_text()
    (folder / "run.json").write_text(text.replace('"bench1"', '"bench2"'))
    os.utime(folder / "run.json", ns=(before.st_atime_ns, before.st_mtime_ns))  # of the same size, too
    assert query(root, "select count(*) from runs where host = 'bench2'").rows == [(1,)]


def test_damage_is_named_each_time(root: Path) -> None:
    (folder,) = (root / "c" / "a" / "w").glob("2-*")
    (folder / "run.json").write_text("{")
    for _ in range(2):
        results = Results(root)
        assert len(results.entries()) == RUNS - 1
        assert [run.folder for run in results.broken] == [folder]


def test_a_table_that_was_damaged_in_place_is_named_by_who_reads_it(root: Path) -> None:
    (folder,) = (root / "c" / "a" / "w").glob("2-*")
    data = bytearray((folder / "series.parquet").read_bytes())
    data[len(data) // 3] ^= 0x40
    with (folder / "series.parquet").open("r+b") as file:  # the folder stays as it was
        file.write(data)
    answer = query(root, "select count(distinct run_id) from series")
    assert answer.rows == [(RUNS - 1,)]
    assert [run.folder for run in answer.broken] == [folder]
    results = Results(root)
    assert len(results.runs()) == RUNS - 1
    assert [run.folder for run in results.broken] == [folder]


def test_a_file_that_is_gone_is_missed(root: Path) -> None:
    (folder,) = (root / "c" / "a" / "w").glob("2-*")
    (folder / "host.parquet").unlink()
    assert "host.parquet is missing" in str(query(root, "select 1 from runs").broken[0])


def test_a_copy_counts_once(root: Path) -> None:
    (folder,) = (root / "c" / "a" / "w").glob("2-*")
    shutil.copytree(root / "c", root / "copied")
    for _ in range(2):
        results = Results(root)
        assert len(results.entries()) == RUNS
        assert len(results.broken) == RUNS
        assert query(root, "select count(*), count(distinct run_id) from runs").rows == [(RUNS, RUNS)]
    shutil.move(folder, root / "aside")
    assert query(root, "select count(*), count(distinct run_id) from steps").rows == [(RUNS, RUNS)]


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def _older(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"catalogue ", b"catalogue 0", 1))


def _shared(path: Path) -> None:
    path.chmod(0o666)


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _second_name(path: Path) -> None:
    os.link(path, path.with_name("elsewhere"))


def _gone(path: Path) -> None:
    path.unlink()


def _somebody_elses(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(path, 65534, 65534)


@pytest.mark.parametrize(
    "change",
    [_cut, _flip, _older, _shared, _link, _second_name, _gone, _somebody_elses],
    ids=lambda c: c.__name__,
)
def test_a_catalogue_that_is_not_to_be_believed_is_made_again(
    root: Path, change: Callable[[Path], None]
) -> None:
    change(root / NAME)
    assert opened(root) == RUNS
    assert opened(root) == 0
    assert (root / NAME).lstat().st_uid == os.geteuid()


def test_what_is_in_it_is_checked_and_not_what_it_claims(root: Path) -> None:
    """Rows made to measure, with a right sum: what was foreseen of a run is not said of another."""
    (folder,) = (root / "c" / "a" / "w").glob("2-*")
    data = json.loads((folder / "run.json").read_text())
    data["steps"][0]["rate"] = 77.0
    replacement = folder / "run.json.new"
    replacement.write_text(json.dumps(data))
    replacement.rename(folder / "run.json")
    assert query(root, "select count(*) from steps where rate = 77").rows == [(1,)]


def test_a_folder_that_cannot_be_written_to_is_read_all_the_same(root: Path) -> None:
    (root / NAME).unlink()
    (root / NAME).mkdir()  # also root cannot put a file there
    assert opened(root) == RUNS
    assert query(root, "select count(*) from runs").rows == [(RUNS,)]
    assert [path.name for path in root.iterdir() if path.name.startswith(NAME)] == [NAME]


def test_few_runs_need_none(tmp_path: Path) -> None:
    add(tmp_path, "a", 1)
    assert query(tmp_path, "select count(*) from steps").rows == [(1,)]
    assert not (tmp_path / NAME).exists()


def test_many_at_once_see_the_same(root: Path) -> None:
    (root / NAME).unlink()
    seen: list[int] = []

    def ask() -> None:
        seen.append(len(Results(root).entries()))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [RUNS] * 4
    assert opened(root) == 0


def test_tables_that_a_query_works_out_the_name_of_are_there(root: Path) -> None:
    assert query(root, "select count(*) from query_table('ser' || 'ies')").rows == [(RUNS,)]
    assert query(root, "select * from query('select count(*) from ser' || 'ies')").rows == [(RUNS,)]


def test_sums_that_were_written_again_are_believed(root: Path) -> None:
    (folder,) = (root / "c" / "a" / "w").glob("2-*")
    (folder / "settings.json").write_text("{}")
    sum_anew(folder)
    assert len(Results(root).runs()) == RUNS
