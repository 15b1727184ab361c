"""Folders on their way: whole and sound, or not at all; and nothing outside the folder they are for."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from pgstrata.errors import ServerError
from pgstrata.fleet.parcel import pack, unpack
from pgstrata.fleet.tasks import Parcel


def parcel_of(*members: tuple[tarfile.TarInfo, bytes]) -> Parcel:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for member, data in members:
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return Parcel(digest=hashlib.sha256(content.getvalue()).hexdigest(), content=content.getvalue())


def test_there_and_back(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "bin").mkdir(parents=True)
    target.mkdir()
    (source / "bin" / "postgres").write_bytes(b"\0" * 100_000)
    (source / "bin" / "postgres").chmod(0o755)
    (source / "bin" / "postmaster").symlink_to("postgres")
    unpack(pack(tmp_path, ["source"]), target)
    assert (target / "source/bin/postgres").read_bytes() == b"\0" * 100_000
    assert (target / "source/bin/postgres").stat().st_mode & 0o777 == 0o755
    assert (target / "source/bin/postmaster").readlink() == Path("postgres")


def test_through_a_shared_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    sent = pack(tmp_path, ["file"], tmp_path / "shared.tar")
    assert sent.content == b"" and Path(sent.shared).is_file()
    (tmp_path / "there").mkdir()
    unpack(sent, tmp_path / "there")
    assert (tmp_path / "there/file").read_text() == "x"


def test_a_flipped_byte_is_found(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    sent = pack(tmp_path, ["file"])
    damaged = bytearray(sent.content)
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / "there").mkdir()
    with pytest.raises(ServerError, match="damaged on its way"):
        unpack(Parcel(digest=sent.digest, content=bytes(damaged)), tmp_path / "there")
    assert list((tmp_path / "there").iterdir()) == []


@pytest.mark.parametrize("name", ["../outside", "a/../../outside"])
def test_nothing_is_written_outside(tmp_path: Path, name: str) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(ServerError, match="is not unpacked"):
        unpack(parcel_of((tarfile.TarInfo(name), b"x")), tmp_path / "there")
    assert not (tmp_path / "outside").exists()


def test_a_path_from_the_root_is_refused(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(ServerError, match="is not unpacked"):
        unpack(parcel_of((tarfile.TarInfo(f"{tmp_path}/outside"), b"x")), tmp_path / "there")
    assert not (tmp_path / "outside").exists()


def test_no_link_leads_outside(tmp_path: Path) -> None:
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, "../.."
    (tmp_path / "there").mkdir()
    with pytest.raises(ServerError, match="is not unpacked"):
        unpack(parcel_of((link, b"")), tmp_path / "there")


def test_no_bits_and_owners_of_others(tmp_path: Path) -> None:
    member = tarfile.TarInfo("tool")
    member.mode, member.uid = 0o6777, 12345
    (tmp_path / "there").mkdir()
    unpack(parcel_of((member, b"x")), tmp_path / "there")
    about = (tmp_path / "there" / "tool").stat()
    assert about.st_mode & 0o7022 == 0 and about.st_uid != 12345
