"""Archives of others: nothing outside the folder is changed, and honest ones unpack as tar does."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgstrata.files import unpacking
from pgstrata.files.unpacking import ArchiveError, opened, unpack

FILE, FOLDER, SYMBOLIC, HARD = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE

ARCHIVES = int(os.environ.get("PGSTRATA_ARCHIVES", "10000"))
"""Archives with chains of links that the slow test makes."""

Member = tuple[bytes, str, str]
"""Type, path, and the content of a file or the target of a link."""


def archive_of(members: list[Member]) -> io.BytesIO:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for kind, name, text in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            data = text.encode() if kind == FILE else b""
            info.size, info.mode = len(data), 0o644
            info.linkname = text if kind in (SYMBOLIC, HARD) else ""
            tar.addfile(info, io.BytesIO(data))
    content.seek(0)
    return content


def unpack_into(folder: Path, members: list[Member]) -> None:
    with opened("it", archive_of(members)) as archive:
        unpack("it", archive, folder)


State = dict[str, tuple[object, ...]]


def state(folder: Path, *, inodes: bool = False) -> State:
    """All that lies below a folder, links not followed. inodes: what tells a change of a file, too."""
    entries: State = {}
    for path in sorted([folder, *folder.rglob("*")]):
        about = path.lstat()
        name = str(path.relative_to(folder))
        if path.is_symlink():
            entries[name] = ("link", os.readlink(path))  # noqa: PTH115
        elif path.is_dir():
            entries[name] = ("folder",)
        else:
            entries[name] = ("file", path.read_bytes(), bool(about.st_mode & 0o100))
        if inodes:
            entries[name] += (about.st_mode, about.st_nlink, about.st_ino, about.st_mtime_ns)
    return entries


@contextlib.contextmanager
def beside_a_victim() -> Iterator[tuple[Path, Path]]:
    """An empty folder two levels deep, and a folder beside it of which nothing may change."""
    place = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        target, victim = place / "deep" / "target", place / "victim"
        target.mkdir(parents=True)
        (victim / "sub").mkdir(parents=True)
        (victim / "file").write_text("precious")
        (victim / "sub" / "file").write_text("precious, too")
        yield target, victim
    finally:
        shutil.rmtree(place)


def unchanged_outside(members: list[Member]) -> None:
    with beside_a_victim() as (target, victim):
        place = target.parent.parent
        (place / "v").symlink_to(victim)  # a link that was there before

        def outside() -> State:
            entries = state(place, inodes=True)
            return {
                name: about for name, about in entries.items() if not f"{name}/".startswith("deep/target/")
            }

        before = outside()
        with contextlib.suppress(ArchiveError):
            unpack_into(target, members)
        assert outside() == before
        root = target.resolve()
        for path in target.rglob("*"):
            if path.is_symlink():
                reached = Path(os.path.realpath(path))
                assert reached == root or root in reached.parents, path


NAMES = st.sampled_from(
    ["a", "b", "up", "esc", "victim", "file", "..", ".", "", "deep", "target", "v", "sub"]
)
PATHS = st.lists(NAMES, min_size=1, max_size=6).map("/".join)
TARGETS = PATHS | st.sampled_from(
    ["/tmp", "../..", "../../victim", "../../victim/file", "up/../victim", "../../v/file", "/"]
)
MEMBERS = st.lists(
    st.tuples(st.just(FILE), PATHS, st.just("stolen"))
    | st.tuples(st.just(FOLDER), PATHS, st.just(""))
    | st.tuples(st.sampled_from([SYMBOLIC, HARD]), PATHS, TARGETS),
    max_size=12,
)


@pytest.mark.long
@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(MEMBERS)
def test_nothing_outside_is_created_or_changed(members: list[Member]) -> None:
    unchanged_outside(members)


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
@settings(max_examples=ARCHIVES, deadline=None, suppress_health_check=list(HealthCheck))
@given(MEMBERS)
def test_nothing_outside_is_created_or_changed_by_many(members: list[Member]) -> None:
    unchanged_outside(members)


@pytest.mark.parametrize(
    "members",
    [
        [(SYMBOLIC, "up", ".."), (FILE, "up/stolen", "x")],
        [(SYMBOLIC, "a", "."), (SYMBOLIC, "up", "a/.."), (SYMBOLIC, "esc", "up/../victim")],
        [(SYMBOLIC, "up", "../.."), (SYMBOLIC, "esc", "up/victim"), (FILE, "esc/file", "x")],
        [(SYMBOLIC, "b/up", "../.."), (SYMBOLIC, "esc", "b/up/victim"), (FILE, "esc/file", "x")],
        [(SYMBOLIC, "up", "../../victim"), (HARD, "copy", "up/file"), (FILE, "copy", "x")],
        [(SYMBOLIC, "up", "../../victim/file"), (HARD, "copy", "up"), (FILE, "copy", "x")],
        [(FOLDER, "a", ""), (SYMBOLIC, "a", "../../victim"), (FILE, "a/file", "x")],
        [(FILE, "a", ""), (SYMBOLIC, "a", "../../victim"), (FILE, "a/file", "x")],
        # `b` is a folder while `link` is judged by its text, and a link afterwards.
        [(FOLDER, "d/e/b", ""), (SYMBOLIC, "link", "d/e/b/../../.."), (SYMBOLIC, "c", "link/../victim")],
        [(SYMBOLIC, "a", "a/../../victim")],
    ],
)
def test_chains_of_links_are_refused(members: list[Member]) -> None:
    unchanged_outside(members)
    with beside_a_victim() as (target, _), pytest.raises(ArchiveError, match="is not unpacked"):
        unpack_into(target, members)


@pytest.mark.parametrize("source", ["nowhere", "", ".", "folder"])
def test_a_hard_link_to_no_file_is_said(tmp_path: Path, source: str) -> None:
    with pytest.raises(ArchiveError, match="leads to no earlier file"):
        unpack_into(tmp_path, [(FOLDER, "folder", ""), (HARD, "copy", source)])


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ([(tarfile.FIFOTYPE, "pipe", "")], "neither a file"),
        ([(tarfile.CHRTYPE, "device", "")], "neither a file"),
        ([(FILE, "/".join("d" * 101) + "/f", "")], "deeper than"),
        ([(FILE, "n" * 256, "")], "a name in it is longer"),
        ([(SYMBOLIC, "a", "x/" * 2100)], "a path in it is longer"),
        ([(SYMBOLIC, "a", "b"), (SYMBOLIC, "b", "a")], "have no end"),
        ([(FILE, "a", ""), (FILE, "a/b", "")], "below a file"),
        ([(FOLDER, "a", ""), (FILE, "a", "")], "would replace a folder"),
    ],
)
def test_what_no_honest_archive_holds(tmp_path: Path, members: list[Member], why: str) -> None:
    with pytest.raises(ArchiveError, match=why):
        unpack_into(tmp_path, members)


def test_there_is_a_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    members: list[Member] = [(FILE, f"f{number}", "x" * 1000) for number in range(20)]
    with pytest.raises(ArchiveError, match="more than 0 MB"), opened("it", archive_of(members)) as archive:
        unpack("it", archive, tmp_path, most_bytes=10_000)
    monkeypatch.setattr(unpacking, "MEMBERS", 10)
    with pytest.raises(ArchiveError, match="more than 10 members"):
        unpack_into(tmp_path, members)


def test_a_header_without_end_is_not_read(tmp_path: Path) -> None:
    """A long name of 1 GB: tarfile would read it into memory."""
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1 << 30
    content = io.BytesIO(info.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20))
    with pytest.raises(ArchiveError, match="a header of"), opened("it", content) as archive:
        unpack("it", archive, tmp_path)


def test_a_negative_size_ends(tmp_path: Path) -> None:
    info = tarfile.TarInfo("back")
    block = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    block[124:136] = b"\xff" * 10 + (-512).to_bytes(2, "big", signed=True)  # base 256, negative
    block[148:156] = b" " * 8
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    first = tarfile.TarInfo("first").tobuf()
    content = io.BytesIO(first + bytes(block) + bytes(1024))
    with pytest.raises(ArchiveError, match="cannot be read"), opened("it", content) as archive:
        unpack("it", archive, tmp_path)


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=2000), st.integers(0, 5000), st.integers(0, 255))
def test_damage_is_one_error(junk: bytes, position: int, value: int) -> None:
    """Junk, and a sound archive with one byte changed."""
    for kind in ("w", "w:gz", "w:bz2", "w:xz"):
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode=kind) as tar:
            info = tarfile.TarInfo("file")
            info.size = 1000
            tar.addfile(info, io.BytesIO(os.urandom(1000)))
        sound = bytearray(content.getvalue())
        sound[position % len(sound)] = value
        for data in (junk, bytes(sound)):
            with (
                tempfile.TemporaryDirectory() as folder,
                contextlib.suppress(ArchiveError),
                opened("it", io.BytesIO(data)) as archive,
            ):
                unpack("it", archive, Path(folder))


@st.composite
def honest_trees(draw: st.DrawFn) -> list[Member]:
    """What a folder may hold: files, folders, further names of files, links that stay within."""
    names = st.sampled_from(["a", "b", "c", "d"])
    folders = draw(st.lists(st.lists(names, min_size=1, max_size=3).map("/".join), unique=True, max_size=4))
    members: list[Member] = [(FOLDER, folder, "") for folder in sorted(folders)]
    taken = set(folders)
    below = ["", *(f"{folder}/" for folder in sorted(folders))]
    for number in range(draw(st.integers(0, 6))):
        path = draw(st.sampled_from(below)) + f"f{number}"
        files = [name for kind, name, _ in members if kind in (FILE, HARD)]
        kind = draw(st.sampled_from([FILE, SYMBOLIC, *([HARD] if files else [])]))
        if kind == FILE:
            text = draw(st.text("xyz", max_size=5))
        elif kind == HARD:
            text = draw(st.sampled_from(files))
        else:
            there = draw(st.sampled_from([*files, *folders, "dangling"]))
            text = os.path.relpath(there, str(Path(path).parent))
        members.append((kind, path, text))
        taken.add(path)
    return members


@pytest.mark.program
@settings(max_examples=100, deadline=None)
@given(honest_trees())
def test_honest_archives_unpack_as_with_tar(members: list[Member]) -> None:
    with tempfile.TemporaryDirectory() as name:
        source, ours, theirs = (Path(name, part) for part in ("source", "ours", "theirs"))
        for folder in (source, ours, theirs):
            folder.mkdir()
        for kind, path, text in members:
            place = source / path
            place.parent.mkdir(parents=True, exist_ok=True)
            if kind == FOLDER:
                place.mkdir(exist_ok=True)
            elif kind == FILE:
                place.write_text(text)
            elif kind == HARD:
                place.hardlink_to(source / text)
            else:
                place.symlink_to(text)
        file = Path(name, "it.tar")
        subprocess.run(["tar", "-cf", file, "-C", source, "."], check=True)
        subprocess.run(["tar", "-xf", file, "-C", theirs], check=True)
        with file.open("rb") as content, opened("it", content) as archive:
            unpack("it", archive, ours)
        assert state(ours) == state(theirs)
        for kind, path, text in members:
            if kind == HARD:
                assert (ours / path).samefile(ours / text)
