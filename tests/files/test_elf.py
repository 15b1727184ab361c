"""Source files of functions, from the symbols of a program."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pgstrata.files.elf import source_files

_SOURCES = {
    "one.c": """
static __attribute__((noinline)) int first(int a) { return a * 3; }
__attribute__((noinline)) int between(int a) { return first(a) + 1; }
static __attribute__((noinline)) int twice(int a) { return between(a) * 5; }
int one(int a) { return twice(a) + twice(a + 1); }
""",
    "two.c": """
int one(int a);
static __attribute__((noinline)) int twice(int a) { return a * 7; }
static __attribute__((noinline)) int other(int a) { return twice(a) + 2; }
int main(int argc, char **argv) { (void)argv; return one(argc) + other(argc) + twice(argc); }
""",
}


@pytest.mark.program
def test_what_lies_between_functions_of_a_file_is_of_it(tmp_path: Path) -> None:
    for name, text in _SOURCES.items():
        (tmp_path / name).write_text(text)
    # In the order in which they stand.
    command = ["cc", "-O1", "-fno-toplevel-reorder", "-fno-ipa-icf", "-o", "program", *_SOURCES]
    subprocess.run(command, cwd=tmp_path, check=True)
    files = source_files(tmp_path / "program")
    assert files["first"] == files["between"] == "one.c"
    assert files["other"] == "two.c"
    assert files["twice"] is None, "both files have one"
    assert files["one"] in (None, "one.c"), "nothing of its file comes after it"
    subprocess.run(["strip", "program"], cwd=tmp_path, check=True)
    assert source_files(tmp_path / "program") == {}


@pytest.mark.parametrize("content", [b"", b"\x7fELF\x02\x01" + b"\xff" * 90, b"#!/bin/sh\n"])
def test_other_files_tell_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    assert source_files(tmp_path / "file") == {}
