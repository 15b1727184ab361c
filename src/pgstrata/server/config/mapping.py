"""What becomes of a setting in a version that lacks it, or takes other values."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

from pgstrata.errors import UsageError
from pgstrata.server.config.classes import LIBRARIES, LOCALES, is_left_out, may_reach_outside
from pgstrata.server.config.conf_file import SettingLine
from pgstrata.server.config.known import KnownSettings
from pgstrata.server.config.settings import (
    BadValue,
    Setting,
    advice,
    canonical,
    history,
    major_name,
    nearest_name,
    newest_major,
    read_number,
    with_unit,
)


@dataclass(frozen=True)
class MappedSetting:
    """What becomes of an assignment: `to` = `value`, or nothing when it is dropped."""

    kind: Literal["set", "mapped", "dropped"]
    to: str | None = None
    value: str | None = None
    reason: str = ""


def _megabytes_of_segments(factor: int) -> Callable[[str], str]:
    return lambda value: f"{int(value) * factor * 16}MB"


def _segments_of_size(value: str) -> str:
    """Returns a size of the WAL in segments of 16 MB, rounded up."""
    return str(-(-_in_megabytes(value) // 16))


def _checkpoint_segments(value: str) -> str:
    """Returns the size of the WAL ÷ (3 × 16 MB), the formula of the release notes of 9.5 the other way
    round."""
    return str(max(1, round(_in_megabytes(value) / 48)))


def _in_megabytes(text: str) -> int:
    for unit, factor in (("TB", 1024**2), ("GB", 1024), ("MB", 1)):
        if text.endswith(unit):
            return int(text.removesuffix(unit)) * factor
    return int(text)


@dataclass(frozen=True)
class _Successor:
    """In versions without the old name the new one stands for it; `convert` turns the value."""

    to: str
    convert: Callable[[str], str]
    reason: str


_COMPRESSIONS = ("pglz", "lz4", "zstd")

# Old name → new name and the other way round; sources: release notes of the versions named.
_SUCCESSORS: dict[str, tuple[_Successor, ...]] = {
    "checkpoint_segments": (
        _Successor(
            "max_wal_size",
            _megabytes_of_segments(3),
            "became max_wal_size in 9.5: 3 × checkpoint_segments × 16 MB, as its release notes say",
        ),
    ),
    "max_wal_size": (
        _Successor(
            "checkpoint_segments",
            _checkpoint_segments,
            "was checkpoint_segments before 9.5: size ÷ (3 × 16 MB), as the release notes of 9.5 say",
        ),
    ),
    "work_mem": (_Successor("sort_mem", str, "was sort_mem before 8.0"),),
    "sort_mem": (_Successor("work_mem", str, "became work_mem in 8.0"),),
    "maintenance_work_mem": (_Successor("vacuum_mem", str, "was vacuum_mem before 8.0"),),
    "vacuum_mem": (_Successor("maintenance_work_mem", str, "became maintenance_work_mem in 8.0"),),
    "track_counts": (_Successor("stats_row_level", str, "was stats_row_level before 8.3"),),
    "stats_row_level": (_Successor("track_counts", str, "became track_counts in 8.3"),),
    "stats_command_string": (_Successor("track_activities", str, "became track_activities in 8.3"),),
    "wal_keep_segments": (
        _Successor(
            "wal_keep_size", _megabytes_of_segments(1), "became wal_keep_size in 13: segments × 16 MB"
        ),
    ),
    "wal_keep_size": (
        _Successor("wal_keep_segments", _segments_of_size, "was wal_keep_segments before 13: size ÷ 16 MB"),
    ),
    "min_parallel_relation_size": (
        _Successor("min_parallel_table_scan_size", str, "became min_parallel_table_scan_size in 10"),
    ),
    "min_parallel_table_scan_size": (
        _Successor("min_parallel_relation_size", str, "was min_parallel_relation_size in 9.6"),
    ),
    "force_parallel_mode": (_Successor("debug_parallel_query", str, "became debug_parallel_query in 16"),),
    "debug_parallel_query": (_Successor("force_parallel_mode", str, "was force_parallel_mode before 16"),),
    "ssl_ecdh_curve": (_Successor("ssl_groups", str, "became ssl_groups in 18"),),
    "ssl_groups": (_Successor("ssl_ecdh_curve", str, "was ssl_ecdh_curve before 18"),),
}


def fate(
    written: SettingLine, known: KnownSettings, ram_bytes: int, build: str, keep: Collection[str] = ()
) -> MappedSetting:
    """Returns what a server makes of one assignment. Raises UsageError with file and line.

    keep: names that are not left out for what they are (`classes`).
    """
    name, value = written.name, written.value
    if "." in name:
        return MappedSetting("set", name, value)  # an extension's own: only the extension knows
    if (left := is_left_out(name, value, keep)) is not None:
        return MappedSetting("dropped", reason=left.reason)
    if row := known.get(name):
        if name not in keep and (instead := _of_server(written, known)):
            return instead
        return _with_value(written, row, ram_bytes, build, known)
    if not history(name) and name not in _SUCCESSORS:
        return _unlisted(written, known, keep)
    for successor in _SUCCESSORS.get(name, ()):
        if row := known.get(successor.to):
            try:
                turned = successor.convert(_checked(written, ram_bytes) if history(name) else value)
                return _mapped(row, turned, ram_bytes, successor.reason)
            except ValueError as error:
                raise UsageError(f"{written.place}: {name}: {error}") from error
    _checked(written, ram_bytes)
    return MappedSetting("dropped", reason=_where(name, known.major))


def _unlisted(written: SettingLine, known: KnownSettings, keep: Collection[str]) -> MappedSetting:
    """Returns the mapping of a setting that is in no table: of a version newer than the table, or a mistake.
    Raises UsageError for a mistake."""
    name = written.name
    is_there = known.has_unlisted(name)
    if is_there or (is_there is None and known.major > newest_major()):
        if may_reach_outside(name) and written.value.strip() and name not in keep:
            return MappedSetting(
                "dropped", reason="it is called like a setting that reaches outside the cluster"
            )
        return MappedSetting("set", name, written.value)
    near = nearest_name(name, tuple(_SUCCESSORS))
    raise UsageError(
        f"{written.place}: no version of PostgreSQL has a setting {name}",
        f"did you mean {near}?" if near else "",
    )


def _of_server(written: SettingLine, known: KnownSettings) -> MappedSetting | None:
    """Returns the mapping of a value that names libraries or a locale, reduced to those the server has; None
    if the value can stay."""
    name, value, programs = written.name, written.value, known.programs
    if programs is None or not value.strip():
        return None
    if name in LOCALES.names:
        complaints = programs.complaints({name: value})
        return (
            MappedSetting("dropped", reason=f"{LOCALES.reason} ({complaints[name]})")
            if name in complaints
            else None
        )
    if name not in LIBRARIES.names:
        return None
    libraries = [word.strip().strip('"') for word in value.split(",")]
    below = "plugins" if name == "local_preload_libraries" else ""
    there: list[str] = []
    absent: list[str] = []
    for library in filter(None, libraries):
        plain = library.removeprefix("$libdir/").removeprefix("plugins/")
        is_there = "/" not in plain and programs.has_library(plain, below=below) is not False
        (there if is_there else absent).append(library)
    if not absent:
        return None
    reason = f"{LIBRARIES.reason}: {', '.join(absent)}"
    if not there:
        return MappedSetting("dropped", reason=reason)
    return MappedSetting("mapped", name, ", ".join(there), reason)


def _mapped(row: Setting, value: str, ram_bytes: int, reason: str) -> MappedSetting:
    """Returns a value turned into another setting's, or the nearest value that the other setting can hold.
    Raises BadValue."""
    try:
        return MappedSetting("mapped", row.name, canonical(row, value, ram_bytes), reason)
    except BadValue as error:
        if error.beyond is None:
            raise
        return MappedSetting("mapped", row.name, error.beyond, f"{reason}; {row.name} {error}")


def _checked(written: SettingLine, ram_bytes: int) -> str:
    """Returns the value as some version that has the setting takes it: a mistake should be seen whatever the
    version. Raises UsageError."""
    problem = BadValue("")
    for row in reversed(history(written.name)):
        try:
            return canonical(row, written.value, ram_bytes)
        except BadValue as error:
            problem = error
    raise _refused(written, history(written.name)[-1], problem)


def _refused(written: SettingLine, row: Setting, problem: BadValue) -> UsageError:
    return UsageError(f"{written.place}: {written.name} {problem}", advice(row, written.value, problem))


def _where(name: str, major: int) -> str:
    rows = history(name)
    first, last = rows[0].first, rows[-1].last
    if major < first:
        return f"{major_name(major)} does not have it yet, it came in {major_name(first)}"
    if last is not None and major > last:
        return f"{major_name(major)} does not have it any more, it went after {major_name(last)}"
    return f"{major_name(major)} does not have it"


def _with_value(
    written: SettingLine, row: Setting, ram_bytes: int, build: str, known: KnownSettings
) -> MappedSetting:
    """Returns the value for a version that has the setting: as it is, or the nearest value when only other
    versions, or builds with other libraries, take it."""
    name, value = written.name, written.value
    instead = _of_build(row, value, build, known) or _level(row, value) or _rounded(row, value, ram_bytes)
    if instead is not None:
        return instead
    try:
        return MappedSetting("set", name, canonical(row, value, ram_bytes))
    except BadValue as error:
        # Servers take values that they do not list, and a tree in development more than the table knows.
        if row.type == "enum" and known.takes(name, value):
            return MappedSetting("set", name, value.lower())
        others = [other for other in history(name) if other is not row]
        if not _taken_by(others, value, ram_bytes):
            raise _refused(written, row, error) from error
        if error.beyond is not None:
            return MappedSetting("mapped", name, error.beyond, f"in this version it {error}")
        return MappedSetting("dropped", reason=f"in this version it {error}")


def _taken_by(rows: list[Setting], value: str, ram_bytes: int) -> bool:
    for row in rows:
        try:
            canonical(row, value, ram_bytes)
        except BadValue:
            continue
        return True
    return False


def _rounded(row: Setting, value: str, ram_bytes: int) -> MappedSetting | None:
    """Returns the rounded value of a fraction where this version counts in whole units: 500us of a delay in
    ms, before 12. None if nothing is rounded."""
    if row.type != "integer" or all(other.type != "real" for other in history(row.name)):
        return None
    try:
        number = read_number(row, value, ram_bytes)
    except BadValue:
        return None
    if number == int(number):
        return None
    # Not to zero, which switches such a setting off.
    whole = with_unit(row, float(max(1, round(number))))
    return MappedSetting("mapped", row.name, whole, f"this version takes whole {row.unit or 'numbers'} only")


def _of_build(row: Setting, value: str, build: str, known: KnownSettings) -> MappedSetting | None:
    """Returns the replacement of a value that needs a newer version or a build with a library; None if the
    value can stay."""
    text = value.lower()
    if row.name == "io_method" and text == "io_uring" and not _has(known, build, row, text, "liburing"):
        return MappedSetting("mapped", row.name, "worker", "this server was built without liburing")
    if row.name not in ("wal_compression", "default_toast_compression") or text not in _COMPRESSIONS:
        return None
    if row.type == "bool":
        return MappedSetting("mapped", row.name, "on", "before 15 it is on or off, and on means pglz")
    if text != "pglz" and not _has(known, build, row, text, text):
        return MappedSetting("mapped", row.name, "pglz", f"this server was built without {text}")
    return None


def _has(known: KnownSettings, build: str, row: Setting, value: str, library: str) -> bool:
    """Returns whether a build takes a value that needs a library: by its own answer, else by its configure
    flags."""
    if (takes := known.takes(row.name, value)) is not None:
        return takes
    # autoconf says --with-lz4, meson -Dlz4=enabled
    return not build or f"--with-{library}" in build or f"-D{library}=enabled" in build


def _level(row: Setting, value: str) -> MappedSetting | None:
    """Returns the level that replaces a value of wal_level: 9.6 made one level, replica, of archive and
    hot_standby (its release notes). None if the value can stay."""
    text = value.lower()
    if row.name != "wal_level" or text in row.values:
        return None
    if text == "replica":
        return MappedSetting("mapped", row.name, "hot_standby", "before 9.6 replica was called hot_standby")
    if text in ("archive", "hot_standby"):
        return MappedSetting("mapped", row.name, "replica", f"since 9.6 {text} is called replica")
    return None
