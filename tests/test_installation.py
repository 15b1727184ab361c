"""A wheel in systems that have no compiler: fresh Debian systems, and the steps of the container file.

With PGSTRATA_DIST=DIR the wheels there are tested, else one is built (extra `dist`). The systems need root,
mmdebstrap and the network.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import make_dist
import pytest

from support.root_system import PATH, SUITES, RootSystem

ROOT = Path(__file__).parents[1]
CONTAINER = ROOT / "ci/Containerfile"

pytestmark = [pytest.mark.slow, pytest.mark.program, pytest.mark.timeout(5400)]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the artifacts."""
    if folder := os.environ.get("PGSTRATA_DIST"):
        return Path(folder).resolve()
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, str(ROOT / "packaging/make_dist.py"), "--out", str(out)]
    subprocess.run([*command, "--target", f"{platform.machine()}-unknown-linux-gnu"], check=True)
    return out


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    """The wheel for this machine."""
    (path,) = dist.glob(f"*_{platform.machine()}*.whl")
    return path


def test_artifacts_have_their_sums(dist: Path) -> None:
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=dist, check=True)


def test_every_wheel_is_for_any_python_3_and_old_systems(dist: Path, tmp_path: Path) -> None:
    wheels = list(dist.glob("*.whl"))
    assert wheels
    for path in wheels:
        assert re.search(r"-py3-none-.*manylinux_2_17_(x86_64|aarch64)\b", path.name)
        assert path.stat().st_size < 15 << 20
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            programs = [name for name in names if re.search(r"\.data/scripts/pgstrata-\w+$", name)]
            archive.extractall(tmp_path, programs)
        for name in ("man/man1/pgstrata.1", *make_dist.SHELLS.values()):
            assert any(member.endswith(f".data/data/share/{name}") for member in names), name
        assert "pgstrata/share/campaigns/tuning-quick.toml" in names
        assert {Path(name).name for name in programs} == {"pgstrata-driver", "pgstrata-tools"}
        for name in programs:
            read = subprocess.run(
                ["readelf", "--version-info", "--section-headers", "--wide", tmp_path / name],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            needed = {tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_([\d.]+)", read)}
            assert (2, 2) < max(needed) <= (2, 17), (path.name, name)
            assert ".symtab" not in read, f"{name} is not stripped"


def test_a_wheel_is_installed_without_a_home(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    programs = tmp_path / "env/bin"
    subprocess.run([programs / "python", "-m", "pip", "install", "--quiet", wheel], check=True)
    bare = {"PATH": str(programs), "HOME": "/nonexistent", "PGSTRATA_CACHE": str(tmp_path / "cache")}
    for arguments in (["--version"], ["run", "campaigns/tuning-quick.toml", "--dry-run"]):
        done = subprocess.run(
            [programs / "pgstrata", *arguments], env=bare, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


def test_the_source_archive_builds(dist: Path, tmp_path: Path) -> None:
    """What a wheel of it holds is what a wheel of the checkout does."""
    (archive,) = dist.glob("*.tar.gz")
    command = [
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-build-isolation",
        "--no-deps",
        f"--wheel-dir={tmp_path}",
    ]
    env = {**os.environ, "CARGO_TARGET_DIR": str(ROOT / "target")}
    subprocess.run([sys.executable, *command, str(archive)], env=env, check=True)
    contents = []
    for wheel in (*tmp_path.glob("*.whl"), next(dist.glob("*.whl"))):
        with zipfile.ZipFile(wheel) as opened:
            contents.append(set(opened.namelist()))
    assert contents[0] == contents[1]


@pytest.mark.server
@pytest.mark.parametrize("suite", SUITES)
def test_the_demo_runs_in_a_fresh_system(suite: str, wheel: Path, tmp_path: Path) -> None:
    """And nothing in pgstrata is to be removed from Python, which the newest of them says."""
    system = RootSystem(tmp_path / "root", suite, ["ca-certificates", "python3-venv"])
    system.run("useradd", "--create-home", "tester")
    shutil.copy(wheel, system.place / "home/tester")

    def tester(*command: str) -> str:
        env = {"HOME": "/home/tester", "PYTHONWARNINGS": "default"}
        done = system.run(*command, account="tester", folder="/home/tester", env=env)
        assert not re.search(r"Traceback|/pgstrata/.*Warning", done.stderr), done.stderr
        return done.stdout

    assert tester("python3", "--version").startswith(f"Python {SUITES[suite]}.")
    tester("python3", "-m", "venv", "env")
    tester("env/bin/pip", "install", "--only-binary", ":all:", f"./{wheel.name}")
    assert "compare-queries" in tester("env/bin/pgstrata", "--help")
    assert "network of servers" in tester("env/bin/pgstrata", "doctor")
    assert "What next" in tester("env/bin/pgstrata", "demo")
    assert list(system.place.glob("home/tester/**/*.html"))


def test_the_steps_of_the_container_file_work(wheel: Path, tmp_path: Path) -> None:
    """As an engine of containers does them, in a system of the same suite."""
    system = RootSystem(tmp_path / "root", "bookworm", ["ca-certificates"])
    account, folder, env = "root", "/", {"PATH": PATH}
    for step in CONTAINER.read_text().replace("\\\n", "").splitlines():
        word, _, rest = step.partition(" ")
        if word == "COPY":
            assert rest == "dist/*.whl /tmp/wheels/"
            (system.place / "tmp/wheels").mkdir()
            shutil.copy(wheel, system.place / "tmp/wheels")
        elif word == "ENV":
            env |= {name: value.replace("$PATH", PATH) for name, value in re.findall(r"(\w+)=(\S+)", rest)}
        elif word == "USER":
            account = rest
        elif word == "WORKDIR":
            folder = rest
        elif word == "RUN":
            system.run("sh", "-c", rest, account=account, folder=folder, env=env)
        else:
            assert word in {"", "#", "CMD"} or step == "FROM debian:12-slim", step
    for command in ("pgstrata --help", "pgstrata doctor", "dask --version", "valgrind --version"):
        system.run(*command.split(), account=account, folder=folder, env=env)
