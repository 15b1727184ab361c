"""What a pipeline runs: ci/compare.sh on real servers, and the files of GitHub and GitLab that call it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import yaml

from pgstrata.server.find.model import Server
from support.commands import spec
from support.program import Program, environment
from support.tree import commit, repository

CI = Path(__file__).parents[2] / "ci"
SCRIPT = (CI / "compare.sh").read_text()
OPTIONS = "--workload pgbench --set scale=1 --set builtin=select-only --set modes=prepared --data-dir data"


def compare(place: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the script in a clean folder as a runner does, with nothing but `pgstrata` installed."""
    programs = place / "bin"
    programs.mkdir(exist_ok=True)
    (place / "data").mkdir(exist_ok=True)
    program = programs / "pgstrata"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pgstrata "$@"\n')
    program.chmod(0o755)
    env = environment(PATH=f"{programs}:{os.environ['PATH']}", **variables)
    return subprocess.run(
        ["bash", CI / "compare.sh"], cwd=place, env=env, capture_output=True, text=True, timeout=600
    )


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_equal_servers_pass_and_leave_what_pipelines_show(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    done = compare(
        place,
        PGSTRATA_BASE=spec(pg17),
        PGSTRATA_NEW=spec(pg17),
        PGSTRATA_STEPS="select-only-prepared-c1",
        PGSTRATA_OPTIONS=f"{OPTIONS} --engine valgrind --starts 2 --most-starts 3",
        GITHUB_STEP_SUMMARY=str(place / "summary.md"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "::notice title=select-only-prepared-c1" in done.stdout
    assert "none needs more instructions" in done.stderr
    assert "select-only-prepared-c1" in (place / "verdicts.md").read_text()
    assert (place / "summary.md").read_text() == (place / "verdicts.md").read_text()
    cases = ElementTree.parse(place / "verdicts.xml").getroot().iter("testcase")
    assert [case.get("name") for case in cases] == ["select-only-prepared-c1"]
    (comparison,) = json.loads(
        pgstrata("compare", "base", "new", "--by", "instructions", "--format", "json").stdout
    )
    # Three starts of each may be too few for the word.
    assert [step["word"] for step in comparison["steps"]] in (["same"], ["unclear"])


def test_rates_fail_where_a_server_is_slower_and_unclear_is_a_choice(place: Path, pg17: Server) -> None:
    (place / "slow.sql").write_text("select pg_sleep(0.002)\n")
    variables = {
        "PGSTRATA_BASE": spec(pg17),
        "PGSTRATA_NEW": spec(pg17),
        "PGSTRATA_BY": "rate",
        "PGSTRATA_STEPS": "",
        "PGSTRATA_MAX_SECONDS": "2",
        "PGSTRATA_OPTIONS": "--workload pgbench --script slow.sql --set builtin=[] --set modes=simple "
        "--set clients=1 --set initialise=false --set vacuum=false --set reads_only=true --data-dir data",
    }
    failed = compare(place, **variables)
    assert failed.returncode == 3, failed.stdout + failed.stderr
    assert "unclear" in failed.stderr
    passed = compare(place, **variables, PGSTRATA_UNCLEAR="pass")
    assert passed.returncode == 0, passed.stdout + passed.stderr


@pytest.mark.program
@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({}, "PGSTRATA_BASE names no server"),
        ({"PGSTRATA_BASE": "pg:17"}, "PGSTRATA_NEW names no server"),
        ({"PGSTRATA_BASE": "pg:17", "PGSTRATA_NEW": "pg:17", "PGSTRATA_BY": "time"}, "instructions or rate"),
        ({"PGSTRATA_BASE": "pg:17", "PGSTRATA_NEW": "pg:17", "PGSTRATA_UNCLEAR": "no"}, "fail or pass"),
        ({"PGSTRATA_BASE": "path:nowhere", "PGSTRATA_NEW": "pg:17"}, "nowhere"),
    ],
)
def test_what_is_wrong_is_one_sentence(place: Path, variables: dict[str, str], words: str) -> None:
    done = compare(place, **variables)
    assert done.returncode in (1, 2)
    assert words in done.stderr and "Traceback" not in done.stderr


def variables_of_script() -> set[str]:
    return set(re.findall(r"\$\{?(PGSTRATA_\w+)", SCRIPT))


def test_the_script_says_what_it_reads() -> None:
    head = SCRIPT.partition("set -uo")[0]
    assert variables_of_script() == set(re.findall(r"PGSTRATA_\w+", head))


@pytest.mark.program
def test_the_action_gives_the_script_all_that_it_reads() -> None:
    action = yaml.safe_load((CI / "action.yml").read_text())
    (step,) = (s for s in action["runs"]["steps"] if s["name"] == "Compare")
    assert variables_of_script() <= step["env"].keys()
    used = set(re.findall(r"inputs\.([\w-]+)", (CI / "action.yml").read_text()))
    assert used == action["inputs"].keys()
    for step in action["runs"]["steps"]:
        if "run" in step:
            assert step["shell"] == "bash"
            subprocess.run(["bash", "-n"], input=step["run"], text=True, check=True)


def test_the_component_of_gitlab_uses_its_inputs() -> None:
    head, body = yaml.safe_load_all((CI / "gitlab.yml").read_text())
    used = set(re.findall(r"\$\[\[ inputs\.([\w-]+) \]\]", (CI / "gitlab.yml").read_text()))
    assert used == head["spec"]["inputs"].keys()
    assert variables_of_script() <= body["pgstrata"]["variables"].keys()


@pytest.mark.program
@pytest.mark.parametrize("kind", ["folder", "archive", "repository"])
def test_the_component_of_gitlab_finds_its_script_in_all_kinds_of_sources(tmp_path: Path, kind: str) -> None:
    """Run with programs that only note what they are asked: nothing is installed."""
    _, body = yaml.safe_load_all((CI / "gitlab.yml").read_text())
    programs, log = tmp_path / "bin", tmp_path / "log"
    folder = repository(tmp_path / "pgstrata-1.0")
    (folder / "ci").mkdir()
    (folder / "ci/compare.sh").write_text("pgstrata compared\n")
    commit(folder, "a script")
    source = str(folder)
    if kind == "archive":
        source = str(tmp_path / "pgstrata.tar.gz")
        with tarfile.open(source, "w:gz") as archive:
            archive.add(folder, folder.name)
    if kind == "repository":
        source = f"file://{folder}"
    notes = f'#!/bin/sh\necho "${{0##*/}} $*" >>"{log}"\n'
    copies = "".join(f'cp "{programs}/notes" "$3/bin/{name}"\n' for name in ("python", "pgstrata"))
    venv = f'#!/bin/sh\n[ "$2" = venv ] && mkdir -p "$3/bin"\n{copies}'
    programs.mkdir()
    for name, text in (("notes", notes), ("apt-get", notes), ("python3", venv)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    lines = [*body["pgstrata"]["before_script"], *body["pgstrata"]["script"]]
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
        env={"PATH": f"{programs}:{os.environ['PATH']}", "TMPDIR": str(tmp_path), "PGSTRATA_SOURCE": source},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    *_, installed, compared = log.read_text().splitlines()
    where = folder if kind == "folder" else tmp_path / "pgstrata-source"
    assert installed == f"python -m pip install --quiet {where}"
    assert compared == "pgstrata compared"
