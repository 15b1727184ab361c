from __future__ import annotations

import gzip
import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pgstrata.errors import StoreError
from pgstrata.store import BrokenRun, Results, Run, RunKey
from pgstrata.store.histogram import decode, merge
from pgstrata.store.read import read_run
from pgstrata.store.record import Metrics
from support.records import circumstances, step_record
from support.runs import INSERT_STEPS, clone_run, make_run

KEY = RunKey("insert-cached", "pg17.11.x10a", "insert", 1)
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one finished run, not to be written to."""
    return make_run(tmp_path_factory.mktemp("finished"), KEY, seconds=4)


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A finished run of this test's own."""
    return clone_run(tmp_path / "results", finished, KEY)


def start(code: str, *arguments: Path) -> subprocess.Popen[str]:
    """A Python process that says `ready` when it got as far as it should."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENV,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


BUILDING = """
    import sys
    from pathlib import Path
    from pgstrata.store import Results, RunKey
    from support.records import step_record
    run = Results(Path(sys.argv[1])).begin(RunKey("c", "v", "insert", 1))
    run.spec(1, "l.i0", {"version": 1})
    run.step(step_record("l.i0"), host=[{"second": 0, "cpu_user": 1.0}])
    print("ready", flush=True)
    sys.stdin.read()
"""


# --- a whole run ------------------------------------------------------------------------------


def test_a_finished_run_is_found_and_says_what_was_written(finished: Path) -> None:
    results = Results(finished.parents[3])
    assert results.find(KEY) == finished
    (record,) = results.runs()
    assert results.broken == []
    assert record.key == KEY
    assert record.done
    assert [step.name for step in record.steps] == list(INSERT_STEPS)
    assert record.settings()["synchronous_commit"] == "off"
    assert {p.name for p in finished.iterdir()} == {
        "SHA256SUMS",
        "run.json",
        "series.parquet",
        "host.parquet",
        "backends.parquet",
        "pgstat.parquet",
        "histograms.parquet",
        "histograms.json",
        "settings.json",
        "server.log.gz",
        "spec",
    }
    assert json.loads((finished / "spec" / "04-l.i2.json").read_text())["step"] == "l.i2"
    with gzip.open(finished / "server.log.gz", "rt") as log:
        assert log.readline().startswith("LOG:")


def test_seconds_add_up_to_totals_and_their_histograms_to_the_steps(finished: Path) -> None:
    record = read_run(finished)
    assert isinstance(record, Run)
    series = record.table("series")
    for step in record.steps:
        for role, totals in step.roles.items():
            seconds = series.where(step=step.name, role=role)
            assert sum(seconds["operations"]) == totals.operations > 0
            assert sum(seconds["rows"]) == totals.rows
            merged = merge([decode(text) for text in seconds["histogram"]])
            whole = decode(record.histograms[step.name][role])
            assert merged.counts.tolist() == whole.counts.tolist()


def test_nothing_is_visible_before_the_run_is_whole(tmp_path: Path) -> None:
    results = Results(tmp_path)
    run = results.begin(KEY)
    run.step(step_record("l.i0"))
    assert results.runs() == []
    assert results.find(KEY) is None
    folder = run.finish(circumstances())
    assert [r.run_id for r in results.runs()] == [run.run_id]
    assert not run.folder.exists()
    assert folder.parent == KEY.folder(tmp_path)


def test_an_abandoned_run_leaves_nothing(tmp_path: Path) -> None:
    run = Results(tmp_path).begin(KEY)
    run.spec(1, "l.i0", {})
    run.abandon()
    assert list(tmp_path.iterdir()) == []


def test_an_abandoned_run_leaves_its_neighbours(run: Path) -> None:
    root = run.parents[3]
    Results(root).begin(KEY).abandon()
    assert Results(root).find(KEY) == run


def test_failed_runs_do_not_count_as_done(tmp_path: Path) -> None:
    results = Results(tmp_path)
    folder = make_run(tmp_path, KEY, seconds=2, failed_after="l.x")
    assert results.find(KEY) is None
    assert results.find(KEY, done=False) == folder
    (record,) = results.runs()
    assert not record.done
    assert [step.name for step in record.steps] == ["l.i0", "l.x"]


def test_names_and_numbers_json_does_not_know_survive(tmp_path: Path) -> None:
    key = RunKey("../../etc", "<script>\0", "\u2028 ☃", 3)
    run = Results(tmp_path).begin(key)
    figures = Metrics(ips=float("nan"), qps=float("inf"), rps=1.0)
    run.step(step_record("a/../b", metrics=figures))
    run.spec(1, "a/../b", {"x": 1})
    folder = run.finish(circumstances(facts={"share": float("nan")}))
    assert folder.is_relative_to(tmp_path)
    (record,) = Results(tmp_path).runs()
    assert record.key == key
    assert record.steps[0].metrics == Metrics(rps=1.0)
    assert record.record.facts == {"share": None}
    assert "NaN" not in (folder / "run.json").read_text()
    assert Results(tmp_path).find(key) == folder


@pytest.mark.program
def test_runs_of_two_machines_merge_by_copying_folders(finished: Path, tmp_path: Path) -> None:
    for machine in ("a", "b"):
        clone_run(tmp_path / machine, finished, KEY)
    subprocess.run(["cp", "-r", f"{tmp_path}/b/.", f"{tmp_path}/a/"], check=True)
    runs = Results(tmp_path / "a").runs()
    assert len(runs) == 2
    assert {run.key for run in runs} == {KEY}


@pytest.mark.program
def test_the_same_run_twice_counts_once(run: Path) -> None:
    copy = run.parent / run.name.replace("1-", "2-", 1)
    subprocess.run(["cp", "-r", run, copy], check=True)
    results = Results(run.parents[3])
    assert [r.folder for r in results.runs()] == [run]
    (broken,) = results.broken
    assert broken.folder == copy
    assert "copy" in broken.reason


def test_what_reading_would_refuse_is_not_written(tmp_path: Path) -> None:
    run = Results(tmp_path).begin(KEY)
    with pytest.raises(StoreError, match=r"Expected `float`, got `null` - at `\$\.seconds`"):
        run.step(step_record(seconds=float("nan")))
    with pytest.raises(StoreError, match=r"cannot be stored: .*\$\.status"):
        run.finish(circumstances(status="maybe"))
    run.abandon()


def test_a_step_name_is_taken_once(tmp_path: Path) -> None:
    run = Results(tmp_path).begin(KEY)
    run.step(step_record("l.i0"))
    with pytest.raises(ValueError, match=r"l\.i0"):
        run.step(step_record("l.i0"))
    run.abandon()


def test_a_figure_without_a_column_is_not_lost_in_silence(tmp_path: Path) -> None:
    run = Results(tmp_path).begin(KEY)
    with pytest.raises(ValueError, match="cpu_secs"):
        run.step(step_record("l.i0"), backends=[{"role": "query", "cpu_secs": 1.0}])
    run.abandon()


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "", ".owner", "."])
def test_attached_files_stay_inside_the_run(tmp_path: Path, name: str) -> None:
    run = Results(tmp_path).begin(KEY)
    with pytest.raises(ValueError, match="inside a run"):
        run.attach(name, b"x")
    run.abandon()


# --- crashes ----------------------------------------------------------------------------------


@pytest.mark.program
def test_a_killed_run_is_rubbish_and_a_living_one_is_not(tmp_path: Path) -> None:
    results = Results(tmp_path)
    dead, living = start(BUILDING, tmp_path), start(BUILDING, tmp_path)
    builder = results.begin(KEY)
    dead.send_signal(signal.SIGKILL)
    dead.wait()
    try:
        before = set(tmp_path.glob("c/v/insert/.*"))
        assert len(before) == 2
        removed = results.clean()
        assert len(removed) == 1
        assert set(tmp_path.glob("c/v/insert/.*")) == before - set(removed)
        assert builder.folder.exists()
        assert results.runs() == []
    finally:
        living.communicate("")
    assert living.returncode == 0
    # it ended without finishing: what it left is rubbish now
    assert len(results.clean()) == 1
    assert not (tmp_path / "c").exists()
    assert builder.finish(circumstances()).exists()


def test_cleaning_touches_nothing_but_building_folders(run: Path) -> None:
    parent = run.parent
    others = [
        parent / ".cache",
        parent / ".notes.building",
        parent / "x.building",
        parent.parent / ".1-20260101T000000-00000000.building",
    ]
    for other in others:
        other.mkdir()
    victim = run.parents[3].parent / "elsewhere"
    victim.mkdir()
    (victim / "keep").write_text("x")
    link = parent / ".1-20260101T000000-11111111.building"
    link.symlink_to(victim)
    assert Results(run.parents[3]).clean() == []
    assert all(other.exists() for other in others)
    assert (victim / "keep").exists()
    assert run.exists()


def test_a_folder_without_an_owner_is_rubbish_once_it_is_old(tmp_path: Path) -> None:
    folder = KEY.folder(tmp_path) / ".1-20260101T000000-00000000.building"
    folder.mkdir(parents=True)
    assert Results(tmp_path).clean() == []
    os.utime(folder, (0, 0))
    assert Results(tmp_path).clean() == [folder]


@pytest.mark.program
def test_a_full_disk_is_one_clear_sentence(tmp_path: Path) -> None:
    code = """
        import resource, signal, sys
        from pathlib import Path
        from pgstrata.errors import StoreError
        from pgstrata.store import Results, RunKey
        from support.records import circumstances, step_record
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        run = Results(Path(sys.argv[1])).begin(RunKey("c", "v", "insert", 1))
        run.step(step_record("l.i0", notes=("y" * 100_000,)))
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        try:
            run.finish(circumstances())
        except StoreError as error:
            run.abandon()
            print(error.message, error.hint, sep="|")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), tmp_path],
        capture_output=True,
        text=True,
        env=ENV,
        check=True,
    )
    message, hint = done.stdout.strip().split("|")
    assert message.startswith("no space left to store run.json")
    assert str(tmp_path) in message
    assert "--results" in hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.program
def test_a_really_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k,mode=755", "tmpfs", disk], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        run = Results(disk).begin(KEY)
        with pytest.raises(StoreError, match="no space left to store blob"):
            run.attach("blob", os.urandom(200_000))
        run.abandon()
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_folder_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("x")
    with pytest.raises(StoreError, match="cannot begin a run"):
        Results(tmp_path / "results").begin(KEY)
    assert Results(tmp_path / "results").runs() == []


# --- damage -----------------------------------------------------------------------------------


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def put(**values: object) -> object:
    def change(run: Path) -> None:
        data = json.loads((run / "run.json").read_text())
        (run / "run.json").write_text(json.dumps(data | values))

    return change


def in_step(**values: object) -> object:
    def change(run: Path) -> None:
        data = json.loads((run / "run.json").read_text())
        data["steps"][0] |= values
        (run / "run.json").write_text(json.dumps(data))

    return change


def text_of(run: Path, old: str, new: str) -> None:
    text = (run / "run.json").read_text()
    assert old in text
    (run / "run.json").write_text(text.replace(old, new, 1))


def half_a_character(run: Path) -> None:
    data = (run / "run.json").read_bytes()
    assert b'"done"' in data
    (run / "run.json").write_bytes(data.replace(b'"done"', b'"\xed\xa0\x80"', 1))


def flip(name: str) -> object:
    """One bit in the middle of a file is another."""

    def change(run: Path) -> None:
        data = bytearray((run / name).read_bytes())
        data[len(data) // 2] ^= 1
        (run / name).write_bytes(bytes(data))

    return change


def pipe(name: str) -> object:
    def change(run: Path) -> None:
        (run / name).unlink()
        os.mkfifo(run / name)

    return change


def circle(name: str) -> object:
    def change(run: Path) -> None:
        (run / name).unlink()
        (run / name).symlink_to(run / name)

    return change


DAMAGES = [
    (lambda run: cut(run / "run.json"), "run.json is damaged"),
    (lambda run: (run / "run.json").unlink(), "run.json is missing"),
    (lambda run: (run / "run.json").write_text("[]"), "run.json is damaged"),
    (lambda run: (run / "run.json").write_bytes(b"\xff\xfe"), "run.json is damaged"),
    (lambda run: (run / "run.json").write_text("[" * 100_000), "run.json is damaged"),
    (put(format=1), "format 1 of run.json, and this pgstrata reads format 2: measure it again"),
    (put(format=None), "format None"),
    (put(run_id=7), "run_id"),
    (put(steps=None), "steps"),
    (put(steps=["x"]), "steps[0]"),
    (put(repeat=0), "$.repeat"),
    (put(started="yesterday"), "$.started"),
    (put(status="running"), "status"),
    (lambda run: (run / "series.parquet").unlink(), "series.parquet is missing"),
    (lambda run: cut(run / "host.parquet"), "host.parquet is damaged"),
    (lambda run: (run / "host.parquet").write_bytes(b""), "host.parquet"),
    *[
        (flip(name), f"{name} is damaged: it is not what was stored")
        for name in ("series.parquet", "histograms.parquet", "histograms.json", "settings.json")
    ],
    (lambda run: (run / "settings.json").unlink(), "settings.json is missing"),
    (pipe("run.json"), "run.json cannot be read: it is no regular file"),
    (pipe("series.parquet"), "series.parquet is no file"),
    (pipe("settings.json"), "settings.json is no file"),
    (circle("run.json"), "run.json cannot be read: Too many levels of symbolic links"),
    (circle("series.parquet"), "series.parquet"),
    (lambda run: (run / "SHA256SUMS").unlink(), "SHA256SUMS is missing"),
    (lambda run: (run / "SHA256SUMS").write_text("0" * 64 + "  ../../x\n"), "SHA256SUMS is damaged"),
    (in_step(rate="fast"), "got `str` - at `$.steps[0].rate`"),
    (in_step(rate=10**400), "run.json is damaged: not valid JSON"),
    (in_step(operations=2**64), "run.json is damaged: not valid JSON"),
    (in_step(role="nobody"), "role 'nobody' is none of the roles"),
    (in_step(started="2026-99-99T00:00:00Z"), "2026-99-99T00:00:00Z is no time"),
    (lambda run: text_of(run, '"repeat": 1', '"repeat": 1e999'), "run.json is damaged: not valid JSON"),
    (put(facts=[[[0]]]), "facts"),
    (put(status="x" * 100_000), "xxx…"),
    (half_a_character, "run.json is damaged: not valid JSON"),
]


@pytest.mark.parametrize(("damage", "reason"), DAMAGES, ids=[reason for _, reason in DAMAGES])
def test_a_broken_run_is_named_and_left_out(run: Path, finished: Path, damage: object, reason: str) -> None:
    root = run.parents[3]
    sound = clone_run(root, finished, RunKey("insert-cached", "pg12.22.x10a", "insert", 1))
    damage(run)  # type: ignore[operator]
    results = Results(root)
    assert [r.folder for r in results.runs()] == [sound]
    (broken,) = results.broken
    assert isinstance(broken, BrokenRun)
    assert broken.folder == run
    assert reason in str(broken)
    assert str(run) in str(broken)
    assert results.find(KEY) is None


def test_a_link_that_leads_in_a_circle_is_named(run: Path) -> None:
    root = run.parents[3]
    for place in (root, run.parents[2], run.parents[1], run.parents[0]):
        (place / "1-20260131T235959-89abcdef").symlink_to(place / "1-20260131T235959-89abcdef")
    results = Results(root)
    assert [r.folder for r in results.runs()] == [run]
    assert len(results.broken) == 4
    assert all("Too many levels of symbolic links" in str(broken) for broken in results.broken)


@pytest.mark.program
def test_the_check_sums_are_those_of_sha256sum(run: Path) -> None:
    done = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=run, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "series.parquet: OK" in done.stdout
    assert "run.json" not in done.stdout


def test_names_that_no_page_can_hold_are_read_with_what_can_be(run: Path) -> None:
    text_of(run, '"facts": {}', '"facts": {"file": "a\\udcffb\\ud83d\\ude00"}')
    (record,) = Results(run.parents[3]).runs()
    assert record.record.facts["file"] == "a?b\N{GRINNING FACE}"


def test_other_folders_are_no_broken_runs(run: Path) -> None:
    for name in ("report/a/b/c", "insert-cached/pg17.11.x10a/insert/notes", ".git/a/b/1-x"):
        (run.parents[3] / name).mkdir(parents=True)
    results = Results(run.parents[3])
    assert len(results.runs()) == 1
    assert results.broken == []


def test_runs_of_many_campaigns_are_sorted(finished: Path, tmp_path: Path) -> None:
    keys = [RunKey("b", "v2", "insert", 1), RunKey("b", "v1", "insert", 1), RunKey("b", "v1", "insert", 2)]
    keys += [RunKey("a", "v", "pgbench", 1), RunKey("a", "v", "insert", 1)]
    for key in keys:
        clone_run(tmp_path, finished, key)
    assert [run.key for run in Results(tmp_path).runs()] == sorted(keys)


@pytest.mark.long
def test_open_files_do_not_grow_with_runs(finished: Path, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(64, soft), hard))
    try:
        for repeat in range(1, 31):
            clone_run(tmp_path, finished, RunKey("c", "v", "insert", repeat))
        assert len(Results(tmp_path).runs()) == 30
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
