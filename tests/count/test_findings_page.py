"""benchmarks/results/findings.md is what its bundles say, and the bundles verify."""

from __future__ import annotations

import importlib.util
import tarfile
from io import BytesIO
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
FILE = ROOT / "benchmarks/findings.py"


@pytest.fixture(scope="module")
def findings() -> ModuleType:
    spec = importlib.util.spec_from_file_location("findings", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_the_page_is_made_of_bundles_that_verify(findings: ModuleType) -> None:
    files = sorted(findings.BUNDLES.glob("*.pgstrata"))
    text, differences = findings.page(files)
    assert files and not differences
    assert (ROOT / "benchmarks/results/findings.md").read_text(encoding="utf-8") == text
    rows = [line for line in text.splitlines() if line.startswith("| ") and "×" in line]
    assert len(rows) >= 20
    assert all(len(row.split(" | ")) == 7 for row in rows)


@pytest.mark.long
def test_a_changed_verdict_is_told(findings: ModuleType, tmp_path: Path) -> None:
    bundle = next(findings.BUNDLES.glob("*.pgstrata"))
    content = BytesIO()
    with tarfile.open(bundle) as old, tarfile.open(fileobj=content, mode="w:xz", preset=0) as new:
        for member in old.getmembers():
            file = old.extractfile(member)
            assert file is not None
            data = file.read()
            if member.name == "bundle.json":
                data = data.replace(b'"fewer"', b'"more"')
            member.size = len(data)
            new.addfile(member, BytesIO(data))
    (changed := tmp_path / "changed.pgstrata").write_bytes(content.getvalue())
    _, differences = findings.page([changed])
    assert differences and all(text.startswith("changed.pgstrata: ") for text in differences)


def test_without_bundles_it_fails(
    findings: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(findings, "BUNDLES", tmp_path)
    monkeypatch.setattr("sys.argv", ["findings.py"])
    assert findings.main() == 1
    assert "no bundle" in capsys.readouterr().err
