"""What a release is made of: version, package data, manual page, completions, list of parts."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import make_dist
import pgstrata_build
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.campaign.file.reading import read_campaign
from pgstrata.cli import manual
from pgstrata.cli.commands import offered
from pgstrata.cli.completion import Shell, script
from pgstrata.errors import UsageError
from pgstrata.files.shipped import chart_script, shipped
from support.program import Program
from support.root_system import SUITES

ROOT = Path(__file__).parents[1]
STAMPED = ("pyproject.toml", "Cargo.toml", "Cargo.lock", "src/pgstrata/__init__.py")


@pytest.mark.program
def test_the_repository_holds_text_and_bundles_of_results_alone() -> None:
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("this is no checkout")
    paths = [ROOT / os.fsdecode(path) for path in listed.stdout.split(b"\0") if path]
    binary = [path for path in paths if path.is_file() and b"\0" in path.read_bytes()[:8000]]
    assert [path for path in binary if path.suffix != ".pgstrata"] == []


@given(st.tuples(*[st.integers(0, 999)] * 3), st.integers(1, 9999))
def test_the_version_is_that_of_the_tag(numbers: tuple[int, int, int], commits: int) -> None:
    tag = "v" + ".".join(map(str, numbers))
    assert make_dist.version_after(tag, 0) == tag[1:]
    assert make_dist.version_after(tag, commits).endswith(f".dev{commits}")


def test_a_tag_that_is_no_version_is_refused() -> None:
    with pytest.raises(ValueError, match="name it v1"):
        make_dist.version_after("v1.2", 0)


@pytest.mark.parametrize(("version", "of_cargo"), [("3.4.5", "3.4.5"), ("3.4.5.dev6", "3.4.5-dev.6")])
def test_all_files_get_the_same_version(tmp_path: Path, version: str, of_cargo: str) -> None:
    for name in STAMPED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    make_dist.stamp(tmp_path, version)
    assert make_dist.version_in(tmp_path) == version
    assert f'__version__ = "{version}"' in (tmp_path / STAMPED[3]).read_text()
    cargo = tomllib.loads((tmp_path / "Cargo.toml").read_text())
    assert cargo["workspace"]["package"]["version"] == of_cargo
    lock = tomllib.loads((tmp_path / "Cargo.lock").read_text())["package"]
    crates = {crate["name"]: crate["version"] for crate in lock if "source" not in crate}
    members = [tomllib.loads(path.read_text()) for path in ROOT.glob("crates/*/Cargo.toml")]
    assert crates == dict.fromkeys((member["package"]["name"] for member in members), of_cargo)


def test_a_wheel_has_campaigns_docs_and_the_script_of_the_charts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pgstrata_build, "SHARE", tmp_path / "share")
    pgstrata_build.fill_share()
    for folder in ("campaigns", "docs"):
        expected = {path.relative_to(ROOT) for path in (ROOT / folder).rglob("*") if path.is_file()}
        paths = (tmp_path / "share" / folder).rglob("*")
        assert {path.relative_to(tmp_path / "share") for path in paths if path.is_file()} == expected
    assert (tmp_path / "share/plotly.min.js").read_bytes() == chart_script().read_bytes()
    included = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["maturin"]["include"]
    assert {"path": "src/pgstrata/share/**/*", "format": "wheel"} in included


def test_the_source_archive_has_what_a_wheel_is_built_from() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["maturin"]["include"]
    folders = {part["path"].partition("/")[0] for part in included if part["format"] == "sdist"}
    needed = {project["tool"]["maturin"]["data"], *project["build-system"]["backend-path"]}
    # What the GitLab component runs from the sources that it is given.
    assert folders == needed | set(pgstrata_build.FOLDERS) | {"ci"}


def test_campaigns_that_come_with_it_are_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = Path("campaigns/tuning-quick.toml")
    assert read_campaign(name).name == "tuning-quick"
    for missing in ("campaigns/none.toml", "../campaigns/tuning-quick.toml"):
        with pytest.raises(UsageError):
            read_campaign(Path(missing))
    assert shipped("campaigns/../pyproject.toml") is None and shipped("/etc/passwd") is None
    (tmp_path / "campaigns").mkdir()
    name.write_text('name = "mine"\nservers = ["pg:17"]\n[[workloads]]\nname = "sysbench"\n')
    assert read_campaign(name).name == "mine"


def test_the_manual_page_has_every_command_and_nothing_that_roff_would_obey() -> None:
    lines = manual.page().splitlines()
    commands = [line for line in lines if line.startswith(".SS ")]
    for name in offered():
        begin = ".SS pgstrata " + name.replace("-", "\\-")
        assert any(f"{line} ".startswith(f"{begin} ") for line in commands), name
    requests = {line.split()[0] for line in lines if line.startswith((".", "'"))}
    assert requests == {".TH", ".SH", ".B", ".SS", ".PP", ".nf", ".fi", ".TP"}


@pytest.mark.program
@pytest.mark.parametrize("shell", Shell)
def test_shells_complete_by_asking_the_program(shell: Shell, tmp_path: Path, pgstrata: Program) -> None:
    assert "_PGSTRATA_COMPLETE=complete_" in script(shell)
    if program := shutil.which(shell.value):
        (tmp_path / "script").write_text(script(shell))
        subprocess.run([program, "-n", str(tmp_path / "script")], check=True)
    assert pgstrata("completion", shell.value).stdout.strip() == script(shell).strip()


@pytest.mark.program
@pytest.mark.parametrize(
    ("words", "expected"), [("pgstrata comp", "compare"), ("pgstrata run --marg", "--margin")]
)
def test_a_word_is_completed(words: str, expected: str) -> None:
    asked = {"_PGSTRATA_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(
        [sys.executable, "-m", "pgstrata"], env={**os.environ, **asked}, capture_output=True, text=True
    )
    assert expected in done.stdout.split(), done.stderr


def test_the_list_of_parts_names_all_crates_and_packages() -> None:
    bom = json.loads(json.dumps(make_dist.parts(ROOT, "1.2.3")))
    assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.5")
    urls = [part["purl"] for part in bom["components"]]
    assert len(set(urls)) == len(urls)
    assert "pkg:pypi/duckdb" in urls and any(url.startswith("pkg:cargo/rustls@") for url in urls)
    assert any(re.fullmatch(r"pkg:npm/plotly\.js@\d+\.\d+\.\d+", url) for url in urls)
    sums = [part["hashes"][0]["content"] for part in bom["components"] if "hashes" in part]
    assert len(sums) > 100 and all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in sums)


def test_a_python_is_named_where_it_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: "
    named = [line.removeprefix(prefix) for line in project["classifiers"] if line.startswith(prefix)]
    assert named == sorted(SUITES.values(), key=lambda version: int(version.partition(".")[2]))
    assert project["requires-python"] == f">={named[0]}"
