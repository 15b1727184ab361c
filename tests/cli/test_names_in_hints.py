"""Commands that messages show are ones that a shell understands, also with names that it would take apart."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pgstrata.cli import main
from pgstrata.files.user_files import in_command

NAMES = ("plain", "sp ace", "quo'te", 'dou"ble', "-x", "a;b", "$(x)", "\x1b[31m", "ünï", "a\\b'c\n")

COMMANDS = {
    "toml": ["watch {}"],
    "sql": ["run {}", "bench {}"],
    "conf": ["run {}"],
    "dump": ["run {}"],
    "csv": ["count {}"],
    "patch": ["run {}"],
    "traffic": ["capture {} -o x.traffic"],
    "lz4": ["capture {} -o x.traffic"],
    "zip": ["capture {} -o x.traffic"],
}
"""By ending, commands for which such a file is not meant; each names another command for it."""

CONTENTS = {
    "toml": b'servers = ["pg:17"]\n',
    "traffic": b"pgstrata traffic 1\n",
    "lz4": b"\x04\x22\x4d\x18 packed",
    "zip": b"PK\x03\x04 packed",
}


@pytest.mark.program
@pytest.mark.parametrize("name", NAMES)
def test_a_shell_reads_a_name_as_it_is(name: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {in_command(name)}"], capture_output=True, check=True
    )
    assert done.stdout.decode() == (f"./{name}" if name.startswith("-") else name) + "\0"
    assert in_command(name).isprintable()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ending", COMMANDS)
def test_a_command_in_a_message_names_the_file_as_it_lies(
    name: str,
    ending: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "sub folder"
    folder.mkdir()
    (folder / f"{name}.{ending}").write_bytes(CONTENTS.get(ending, b"SELECT 1;\n"))
    monkeypatch.chdir(tmp_path)
    file = f"sub folder/{name}.{ending}"
    for command in COMMANDS[ending]:
        assert main.invoke([file if word == "{}" else word for word in command.split()]) == 2
        hint = capsys.readouterr().err.splitlines()[-1]
        assert f" {in_command(file)}" in hint
