"""Digests are SHA-256, as other programs compute it."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

import pgstrata
from pgstrata.files import digests

OTHERS = {
    "report/export_html.py": "in base64, as browsers want it",
}


@pytest.mark.program
def test_a_content_its_parts_and_its_file_have_one_digest(tmp_path: Path) -> None:
    content = "größer\n" * 100_000
    (file := tmp_path / "file").write_text(content, encoding="utf-8")
    printed = subprocess.run(["sha256sum", file], capture_output=True, text=True, check=True).stdout.split()[
        0
    ]
    data = content.encode()
    assert digests.of(content) == digests.of(data) == digests.of(memoryview(data)) == printed
    assert digests.of_parts(data[begin : begin + 77] for begin in range(0, len(data), 77)) == printed
    assert digests.of_file(file) == printed


def test_digests_are_made_in_one_place() -> None:
    root = Path(pgstrata.__file__).parent
    users = {
        str(file.relative_to(root))
        for file in root.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "sha256" and ast.unparse(node.value) == "hashlib"
    }
    assert users == {"files/digests.py", *OTHERS}
