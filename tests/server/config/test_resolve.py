"""What a version of PostgreSQL makes of a stack of config files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.errors import UsageError
from pgstrata.server.config.resolve import (
    ConfigFile,
    Resolved,
    explain,
    find_config_file,
    resolve,
    shipped_config_files,
    stack_of,
)
from pgstrata.server.config.settings import history, major_of, setting
from pgstrata.server.find.model import Server

GB = 1 << 30
EVERY = [
    70430,
    80026,
    80323,
    90023,
    90426,
    90525,
    90624,
    100023,
    110022,
    120022,
    130023,
    140024,
    150019,
    160015,
    170011,
    180006,
]


def resolve_text(text: str, version: int = 170011, ram: int = 16 * GB, build: str = "") -> Resolved:
    return resolve([ConfigFile("mine", text)], version, ram, build)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("checkpoint_timeout = 1800s", "30min"),
        ("checkpoint_timeout = 1800", "30min"),
        ("checkpoint_timeout = 45", "45s"),
        ("shared_buffers = 16384", "128MB"),
        ("shared_buffers = 1.5GB", "1536MB"),
        ("shared_buffers = '25%RAM'", "4GB"),
        ("shared_buffers = 6.25%ram", "1GB"),
        ("work_mem = '0.0048828125%RAM'", "819kB"),
        ("wal_buffers = -1", "-1"),
        ("autovacuum_vacuum_cost_delay = 0.5ms", "500us"),
        ("autovacuum_vacuum_cost_delay = 2", "2ms"),
        ("random_page_cost = 1.10", "1.1"),
        ("fsync = FALSE", "off"),
        ("jit = t", "on"),
        ("synchronous_commit = no", "off"),
        ("wal_level = Logical", "logical"),
        ("bgwriter_lru_maxpages = 0x10", "16"),
    ],
)
def test_values_are_written_as_show_writes_them(text: str, shown: str) -> None:
    assert list(resolve_text(text).settings.values()) == [shown]


def test_the_last_assignment_counts_and_the_earlier_ones_are_told() -> None:
    stack = [ConfigFile("base", "work_mem = 4MB\nwork_mem = 8MB"), ConfigFile("over", "work_mem = 16MB")]
    assert resolve(stack, 170011, GB).settings == {"work_mem": "16MB"}
    assert resolve(stack, 170011, GB).name == "base+over"
    kinds = [(o.kind, o.reason) for o in explain(stack, 170011, GB)]
    assert kinds == [
        ("overridden", "set again in over.conf:1"),
        ("overridden", "set again in over.conf:1"),
        ("set", ""),
    ]


@pytest.mark.parametrize(
    ("text", "version", "name", "value"),
    [
        ("checkpoint_segments = 32", 90624, "max_wal_size", "1536MB"),
        ("checkpoint_segments = 32", 170011, "max_wal_size", "1536MB"),
        ("wal_keep_segments = 64", 170011, "wal_keep_size", "1GB"),
        ("wal_keep_size = 1GB", 120022, "wal_keep_segments", "64"),
        ("wal_keep_size = 17MB", 120022, "wal_keep_segments", "2"),
        ("force_parallel_mode = on", 160015, "debug_parallel_query", "on"),
        ("debug_parallel_query = on", 150019, "force_parallel_mode", "on"),
        ("min_parallel_table_scan_size = 8MB", 90624, "min_parallel_relation_size", "8MB"),
        ("wal_compression = lz4", 140024, "wal_compression", "on"),
        ("bgwriter_lru_maxpages = 2000", 90624, "bgwriter_lru_maxpages", "1000"),
        ("autovacuum_vacuum_cost_delay = 0.4ms", 110022, "autovacuum_vacuum_cost_delay", "1ms"),
    ],
)
def test_settings_are_mapped_with_a_record(text: str, version: int, name: str, value: str) -> None:
    resolved = resolve_text(f"# first\n{text}", version)
    assert resolved.settings == {name: value}
    (change,) = resolved.mapped
    assert (change.to, change.to_value, change.fragment, change.line) == (name, value, "mine", 2)
    assert change.reason and not resolved.dropped


@pytest.mark.parametrize(
    ("text", "version", "why"),
    [
        ("hash_mem_multiplier = 2", 120022, "came in 13"),
        ("jit = off", 100023, "came in 11"),
        ("max_parallel_workers = 0", 90624, "came in 10"),
        ("vacuum_cleanup_index_scale_factor = 0.1", 140024, "went after 13"),
        ("old_snapshot_threshold = 1h", 170011, "went after 16"),
        ("port = 5433", 170011, "set by pgstrata itself"),
        ("data_directory = '/etc'", 90624, "set by pgstrata itself"),
    ],
)
def test_settings_a_version_lacks_are_dropped_with_a_record(text: str, version: int, why: str) -> None:
    resolved = resolve_text(text, version)
    assert resolved.settings == {} and not resolved.mapped
    (change,) = resolved.dropped
    assert why in change.reason and change.to is None
    assert resolved.record().dropped[0].name == change.name


def test_lz4_needs_a_build_that_has_it() -> None:
    text = "wal_compression = lz4"
    assert resolve_text(text, build="'--prefix=/x' '--with-lz4'").settings == {"wal_compression": "lz4"}
    assert resolve_text(text, build="-Dprefix=/x -Dlz4=enabled").settings == {"wal_compression": "lz4"}
    without = resolve_text(text, build="'--prefix=/x'")
    assert without.settings == {"wal_compression": "pglz"}
    assert "built without lz4" in without.mapped[0].reason


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        ("shared_bufers = 1GB", "no version of PostgreSQL has a setting shared_bufers", "shared_buffers"),
        ("checkpoint_segmants = 1", "no version", "checkpoint_segments"),
        ("shared_buffers = 1gb", "not 'gb'", "write shared_buffers = 1GB"),
        ("shared_buffers = 1min", "units B, kB, MB, GB, TB", "shared_buffers = 1MB"),
        ("shared_buffers = big", "takes a number, or a share of memory", ""),
        ("shared_buffers = '25%'", "takes a number", ""),
        ("checkpoint_timeout = '10%RAM'", "is no size", ""),
        ("checkpoint_timeout = 1s", "at least 30s", "write checkpoint_timeout = 30s"),
        ("checkpoint_timeout = 2d", "at most 1d", ""),
        ("max_connections = 10s", "has no unit", ""),
        ("fsync = maybe", "takes on or off", ""),
        ("wal_level = minimum", "takes logical, minimal, replica", ""),
        ("work_mem = 1e999", "can be stored", ""),
        ("hash_mem_multiplier = much", "takes a number", ""),
    ],
)
@pytest.mark.parametrize("version", [90624, 170011])
def test_mistakes_name_file_and_line(text: str, says: str, hint: str, version: int) -> None:
    with pytest.raises(UsageError) as error:
        resolve_text(f"\n\n{text}\n", version)
    assert error.value.message.startswith("mine.conf:3: ")
    assert says in error.value.message
    assert hint in error.value.hint


def test_settings_of_extensions_pass() -> None:
    text = "pg_stat_statements.max = 10000\nauto_explain.log_analyze = on"
    assert resolve_text(text).settings == {
        "pg_stat_statements.max": "10000",
        "auto_explain.log_analyze": "on",
    }


@given(st.integers(64 << 20, 1 << 44), st.floats(0.01, 400))
def test_a_share_of_memory_is_that_share(ram: int, percent: float) -> None:
    (value,) = resolve_text(f"max_wal_size = '{percent:.2f}%RAM'", ram=max(ram, 400 * GB)).settings.values()
    factor = {"MB": 1 << 20, "GB": GB, "TB": 1 << 40}[value[-2:]]
    size, exact = int(value[:-2]) * factor, float(f"{percent:.2f}") / 100 * max(ram, 400 * GB)
    assert exact - (1 << 20) <= size <= exact


def test_a_value_too_large_for_the_setting_it_became_is_the_largest() -> None:
    resolved = resolve_text("wal_keep_segments = 134217728", 130023)
    assert resolved.settings == {"wal_keep_size": "2147483647MB"}
    (mapped,) = resolved.mapped
    assert "wal_keep_size must be at most 2147483647MB" in str(mapped)


@given(st.sampled_from(EVERY), st.sampled_from(EVERY), st.data())
def test_what_one_version_takes_no_other_refuses(version: int, other: int, data: st.DataObject) -> None:
    """Comparing versions must not end in an error because one of them is older."""
    names = ["max_wal_size", "wal_keep_segments", "jit", "wal_compression", "io_method", "vacuum_cost_delay"]
    name = data.draw(st.sampled_from(names))
    row = setting(name, major_of(version))
    if row is None:
        return
    value = data.draw(
        st.sampled_from(row.values or ("on", "off"))
        if row.type in ("bool", "enum")
        else st.integers(int(row.low or 0), int(row.high or 0)).map(str)
    )
    resolved = resolve_text(f"{name} = {value}", other)
    assert resolved.settings or resolved.dropped


@pytest.mark.parametrize("version", EVERY)
def test_shipped_config_files_fit_every_version(version: int) -> None:
    shipped = {f.name: f for f in shipped_config_files()}
    bases = {"cached-by-pg", "cached-by-os", "io-bound", "default", "safe-defaults"}
    assert bases | {"pg_stat_statements", "a1", "a2", "a3", "a4", "a18"} <= set(shipped)
    for config_file in shipped.values():
        assert config_file.text.startswith(f"# {config_file.name}: ")
        resolve([config_file], version, 8 * GB)


def test_the_base_is_the_published_one_at_its_size() -> None:
    settings = resolve([find_config_file("cached-by-pg", None)], 150019, 16 * GB).settings
    assert settings["shared_buffers"] == "10GB"
    assert (settings["max_wal_size"], settings["min_wal_size"]) == ("40GB", "20GB")
    assert (
        resolve([find_config_file("cached-by-os", None)], 150019, 16 * GB).settings["shared_buffers"] == "1GB"
    )
    overlay = resolve([find_config_file("a18", None)], 150019, 16 * GB).settings
    assert (overlay["autovacuum_work_mem"], overlay["wal_buffers"]) == ("256MB", "64MB")


def test_a4_resolves_to_what_the_base_has() -> None:
    base = find_config_file("cached-by-pg", None)
    plain, over = (resolve(s, 150019, 16 * GB) for s in ([base], [base, find_config_file("a4", None)]))
    assert plain.settings == over.settings


def test_config_files_are_found_by_name_and_by_path(tmp_path: Path) -> None:
    (tmp_path / "mine.conf").write_text("work_mem = 5MB\n")
    (tmp_path / "default.conf").write_text("work_mem = 6MB\n")
    assert find_config_file("mine.conf", tmp_path).name == "mine"
    assert find_config_file("mine", tmp_path).path == tmp_path / "mine.conf"
    assert find_config_file("default.conf", tmp_path).text == "work_mem = 6MB\n"
    assert find_config_file("default", tmp_path).path is None  # the shipped one


def test_a_plus_in_the_path_of_a_file_is_no_end_of_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "c++"
    folder.mkdir()
    (folder / "a+b.conf").touch()
    assert stack_of(f"default+{folder}/a+b.conf+work_mem=5MB") == [
        "default",
        f"{folder}/a+b.conf",
        "work_mem=5MB",
    ]
    assert stack_of("a+b.conf", folder) == ["a+b.conf"]
    assert stack_of("a+b.conf+a4", tmp_path) == ["a", "b.conf", "a4"]


@pytest.mark.parametrize("name", ["cached-by-gp", "../../etc/passwd", "none.conf", "", ".", "a/b.conf"])
def test_a_config_file_that_is_not_there(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        find_config_file(name, tmp_path)


def test_a_config_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "bad.conf").write_bytes(b"work_mem = \xff\n")
    (tmp_path / "folder.conf").mkdir()
    for name in ("bad.conf", "folder.conf"):
        with pytest.raises(UsageError, match=name.partition(".")[0]):
            find_config_file(name, tmp_path)


def test_the_table_reaches_from_the_oldest_version_to_the_newest() -> None:
    rows = history("shared_buffers")
    assert (rows[0].first, rows[-1].last) == (704, None)
    assert {row.unit for row in rows} == {"8kB"}
    assert [r.last for r in history("wal_keep_segments")][-1:] == [1200]
    assert [r.first for r in history("io_method")] == [1800]


def test_a_config_for_18_becomes_what_the_server_has(pg17: Server) -> None:
    """A server that calls itself 18 before it has what 18 has: its number does not decide."""
    early18 = replace(pg17, version="18devel", version_num=180000)
    text = "io_method = worker\nssl_groups = 'X25519'\nwork_mem = 8MB\n"
    config_file = ConfigFile("mine", text)
    resolved = resolve([config_file], 180000, 1 << 30, early18.build, programs=early18.programs)
    assert resolved.settings == {"ssl_ecdh_curve": "X25519", "work_mem": "8MB"}
    (change,) = resolved.dropped
    assert change.name == "io_method" and "does not have it" in change.reason
