"""The digest of a built server: what a server executes and initdb reads, nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pgstrata.files.elf import LOADED, SYMTAB, sections_of
from pgstrata.source.code_digest import code_digest

pytestmark = pytest.mark.program

MAIN = '#include <stdio.h>\nint main(void)\n{\n\tputs("FOLDER");\n\treturn 0;\n}\n'


def built(folder: Path, name: str, source: str = MAIN, conf: str = "a = 1\n") -> Path:
    """A server of one program; returns its folder of programs."""
    root = folder / name
    for part in ("bin", "lib", "share/locale"):
        (root / part).mkdir(parents=True)
    (folder / "main.c").write_text(source.replace("FOLDER", str(root)))
    subprocess.run(["cc", "-g", "-O1", "-o", root / "bin/postgres", "main.c"], cwd=folder, check=True)
    (root / "share/postgresql.conf.sample").write_text(conf)
    (root / "share/locale/de.mo").write_text(name)
    return root / "bin"


def test_comments_and_the_folder_are_no_part(tmp_path: Path) -> None:
    first = code_digest(built(tmp_path, "built-" + "a" * 24))
    two = code_digest(built(tmp_path, "built-" + "b" * 24, MAIN + "/* once more */\n"))
    assert first == two and len(first) == 64


@pytest.mark.parametrize(
    ("source", "conf"),
    [
        (MAIN.replace("return 0", "return getchar()"), "a = 1\n"),
        (MAIN.replace("FOLDER", "FOLDERS"), "a = 1\n"),
        (MAIN, "a = 2\n"),
    ],
)
def test_code_constants_and_catalogs_are(tmp_path: Path, source: str, conf: str) -> None:
    first = code_digest(built(tmp_path, "built-" + "a" * 24))
    assert code_digest(built(tmp_path, "built-" + "b" * 24, source, conf)) != first


def test_a_server_that_cannot_be_read_is_the_same_as_none(tmp_path: Path) -> None:
    assert code_digest(tmp_path / "bin") == ""


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF\x02\x01", b"\x7fELF\x02\x01" + b"\xff" * 90, b"#!/bin/sh\n"]
)
def test_what_is_no_program_has_no_sections(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    assert sections_of(tmp_path / "file") == []


def test_the_sections_of_a_program_are_read(tmp_path: Path) -> None:
    sections = sections_of(built(tmp_path, "built") / "postgres")
    assert any(section.type == SYMTAB for section in sections)
    assert any(section.flags & LOADED for section in sections)
