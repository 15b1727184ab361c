"""Where the data of a variant lies and what delays its disk, in campaigns: measured, recorded, reported."""

from __future__ import annotations

import os
import signal
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgstrata.numbers import milliseconds
from pgstrata.server.find.model import Server
from pgstrata.store import Results, Run
from support.program import Program, Running

OPTIONS = 'scale = 1, seconds = 2, warmup = 0, clients = 1, builtin = "select-only", modes = ["prepared"]'


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder on a file system in memory."""
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("there is no /dev/shm")
    with tempfile.TemporaryDirectory(prefix="pgs", dir="/dev/shm") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def campaign(place: Path, *variants: str, options: str = OPTIONS, keys: str = "") -> Path:
    (place / "few.conf").write_text("shared_buffers = 1MB\nautovacuum = off\nmax_wal_size = 256MB\n")
    tables = "".join(f'[[variants]]\nserver = "pg:17"\nconfig = "few.conf"\n{v}\n' for v in variants)
    file = place / "campaign.toml"
    file.write_text(
        f'{keys}\n{tables}[[workloads]]\nname = "pgbench"\noptions = {{ {options} }}\n', encoding="utf-8"
    )
    return file


def reads_per_operation(run: Run) -> float:
    """Pages that a transaction of the last step has read from outside the buffers."""
    step = run.steps[-1]
    counters = run.table("pgstat").where(
        step=step.name, view="pg_stat_database", counter="blks_read", object="pgstrata"
    )
    return float(sum(row["after"] - row["before"] for row in counters)) / step.operations


def length_of_sleep(seconds: float) -> float:
    """What a sleep takes here and now, in the middle of many, seconds."""
    lengths = []
    for _ in range(101):
        begun = time.monotonic()
        time.sleep(seconds)
        lengths.append(time.monotonic() - begun)
    return statistics.median(lengths)


def test_a_delay_of_two_milliseconds_is_found_again(place: Path, pgstrata: Program, pg17: Server) -> None:
    file = campaign(place, "", 'io_delay = "2ms"')
    done = pgstrata("run", file)
    assert done.returncode == 0, done.stdout + done.stderr
    plain, delayed = Results(place / "results").runs()
    assert [run.variant.partition(".few")[2] for run in (plain, delayed)] == ["", ".delay-2ms"]
    pages = reads_per_operation(delayed)
    assert pages > 1, "the step is bound by its reads"
    latency = delayed.steps[-1].headline.latency
    usual = plain.steps[-1].headline.latency
    assert latency.mean is not None and latency.p50 is not None and usual.p50 is not None
    assert latency.mean >= 0.002 * pages * 0.98, "a sleep never ends early"
    assert latency.p50 - usual.p50 < 1.5 * length_of_sleep(0.002) * pages, "each read is delayed once"
    assert abs(reads_per_operation(plain) - pages) < 0.5, "a delay changes nothing but the time"
    assert plain.record.storage is None
    storage = delayed.record.storage
    assert storage and storage.delay and storage.delay.seconds == 0.002
    assert storage.delay.by == "a preloaded library" and storage.data is storage.wal is None
    page = next((place / "results").rglob("*.html")).read_text()
    assert f"every wait for the disk {milliseconds(0.002)} ms longer, by a preloaded library" in page
    # What was measured elsewhere does not stand for what is planned now.
    file.write_text(file.read_text().replace('"2ms"', '"3ms"\nlabel = "pg17.11.few.delay-2ms"'))
    again = pgstrata("run", file)
    assert again.returncode == 2 and "another `io_delay`" in again.stderr


@pytest.mark.parametrize(
    ("variant", "sentence"),
    [
        ('wal_dir = "nowhere"', "`wal_dir`: there is no folder"),
        ('io_delay = "soon"', "io_delay = 'soon' is no delay"),
        ('io_delay = "500us"\nio_delay_by = "device"', "unknown key `variants[1].io_delay_by`"),
        ('server = "dsn:host=h"\nio_delay = "2ms"', "`io_delay` cannot be set for a dsn: server"),
        ('server = "dsn:host=h"\nwal_dir = "/tmp"', "`wal_dir` cannot be set for a dsn: server"),
    ],
)
def test_what_cannot_be_is_said_before_anything_starts(
    place: Path, pgstrata: Program, pg17: Server, variant: str, sentence: str
) -> None:
    file = campaign(place, variant)
    if "server" in variant:
        file.write_text(file.read_text().replace('server = "pg:17"\nconfig = "few.conf"\n', ""))
    done = pgstrata("run", file)
    assert done.returncode == 2 and sentence in done.stderr, done.stderr
    assert not (place / "results").exists() or not Results(place / "results").runs()


def test_a_full_disk_of_the_log_is_said_in_words_of_its_own(
    place: Path, small_disk: Path, pgstrata: Program, pg17: Server
) -> None:
    # Checkpoints are far apart, so the log grows beyond what its disk holds.
    file = campaign(place, f'wal_dir = "{small_disk}"', options="scale = 30, seconds = 1, clients = 1")
    (place / "few.conf").write_text("max_wal_size = 4GB\nwal_level = replica\nmax_wal_senders = 4\n")
    done = pgstrata("run", file)
    assert done.returncode == 1
    assert "the disk of the write-ahead log is full" in done.stdout + done.stderr
    (run,) = Results(place / "results").runs()
    assert run.record.status == "failed" and run.record.error
    assert "another wal_dir" in run.record.error.hint
    assert list(small_disk.iterdir()) == []


def test_folders_of_a_variant_are_told_and_cleared_after_a_kill(
    place: Path, place_on_disk: Path, memory: Path, pgstrata: Program, pg17: Server
) -> None:
    (place_on_disk / "wal").mkdir(0o755)
    file = campaign(place, f'data_dir = "{memory}"\nwal_dir = "{place_on_disk}/wal"')
    file.write_text(file.read_text().replace("seconds = 2", "seconds = 60"))
    running = Running(place, ["run", str(file)])
    running.wait_for(lambda: running.child("pgstrata-driver") and any(memory.glob("*/run/.s.PGSQL.*")))
    os.kill(running.process.pid, signal.SIGKILL)
    running.end()
    assert any(memory.iterdir()) and any((place_on_disk / "wal").iterdir())
    file.write_text(file.read_text().replace("seconds = 60", "seconds = 1"))
    done = pgstrata("run", file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count("cleared what an earlier pgstrata left") >= 2
    assert not any(memory.iterdir()) and not any((place_on_disk / "wal").iterdir())
    (run,) = Results(place / "results").runs()
    assert run.variant.endswith(f".few.{memory.name}.wal-wal")
    storage = run.record.storage
    assert storage and storage.data and storage.wal and storage.delay is None
    assert (storage.data.folder, storage.data.fs) == (str(memory), "tmpfs")
    assert storage.wal.folder == f"{place_on_disk}/wal" and storage.wal.fs != "tmpfs"
    page = next((place / "results").rglob("*.html")).read_text()
    assert f"data in {memory} (tmpfs)" in page and f"write-ahead log in {place_on_disk}/wal (" in page


@pytest.mark.slow
def test_variants_on_different_disks_take_turns(
    place: Path, memory: Path, pgstrata: Program, pg17: Server
) -> None:
    options = 'scale = 1, seconds = 1, warmup = 0, clients = 1, builtin = "simple-update"'
    keys = 'order = "interleaved"\nplacement = "free"\nrounds = 2'
    file = campaign(place, "", f'wal_dir = "{memory}"', options=options, keys=keys)
    done = pgstrata("run", file)
    assert done.returncode == 0, done.stdout + done.stderr
    for run in Results(place / "results").runs():
        assert run.done and run.steps[-1].slices
    assert list(memory.iterdir()) == []
