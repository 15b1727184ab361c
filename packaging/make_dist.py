"""Makes the artifacts of a release in dist/: wheels, a source archive, their parts (SBOM) and check sums.

    python packaging/make_dist.py [--target TRIPLE …] [--out DIR]

Everything is built from the commit that is checked out, in a temporary folder: nothing that is not committed
gets in. The version is that of the tag of the commit (`v1.2.3`), else a development version. Needs the extra
`dist` and a Rust toolchain with the targets; wheels link against the oldest glibc that Rust supports.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
COMPATIBILITY = "manylinux2014"
"""glibc 2.17, the oldest for which Rust compiles."""

SUMS = "SHA256SUMS"

SHELLS = {
    "bash": "bash-completion/completions/pgstrata",
    "zsh": "zsh/site-functions/_pgstrata",
    "fish": "fish/vendor_completions.d/pgstrata.fish",
}


def main() -> int:
    """Returns 0; raises CalledProcessError where a step fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", action="append", help=f"of Rust (default: {', '.join(TARGETS)})")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    arguments = parser.parse_args()
    out: Path = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    # The folder may be anybody's: only what an earlier release left goes.
    for path in (*out.glob("pgstrata-*"), out / SUMS):
        path.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="pgstrata-dist-") as temporary:
        tree = Path(temporary)
        check_out(tree)
        version = version_of_commit(ROOT)
        stamp(tree, version)
        add_manual(tree)
        build(tree, out, "--sdist")
        for target in arguments.target or TARGETS:
            options = f"--zig --strip --locked --target {target} --compatibility {COMPATIBILITY}"
            build(tree, out, "--wheel", "--config-setting", f"build-args={options}")
        (out / f"pgstrata-{version}.cdx.json").write_text(json.dumps(parts(tree, version), indent=1) + "\n")
    write_sums(out)
    for path in (*sorted(out.glob("pgstrata-*")), out / SUMS):
        print(f"{path.stat().st_size / 1e6:8.2f} MB  {path}")
    return 0


def check_out(tree: Path) -> None:
    """Unpacks the commit that is checked out."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(tree, filter="data")


def version_of_commit(root: Path) -> str:
    """Returns `1.2.3` at the tag `v1.2.3`, `1.2.4.dev5` five commits after it, and before all tags the
    version of pyproject.toml with the number of commits."""
    describe = ["git", "describe", "--tags", "--long", "--match", "v[0-9]*"]
    described = subprocess.run(describe, cwd=root, capture_output=True, text=True)
    if described.returncode == 0:
        tag, commits, _ = described.stdout.strip().rsplit("-", 2)
        return version_after(tag, int(commits))
    count = subprocess.run(
        ["git", "rev-list", "--count", "HEAD"], cwd=root, check=True, capture_output=True, text=True
    )
    return f"{version_in(root)}.dev{int(count.stdout)}"


def version_after(tag: str, commits: int) -> str:
    """Returns the version `commits` commits after a tag. Raises ValueError for a tag like `v1.2`."""
    match = re.fullmatch(r"v(\d+)\.(\d+)\.(\d+)", tag)
    if match is None:
        raise ValueError(f"the tag {tag} is no version: name it v1.2.3")
    major, minor, patch = map(int, match.groups())
    return f"{major}.{minor}.{patch + 1}.dev{commits}" if commits else f"{major}.{minor}.{patch}"


def version_in(tree: Path) -> str:
    """Returns the version in pyproject.toml."""
    match = re.search(r'^version = "([^"]+)"', (tree / "pyproject.toml").read_text(), re.MULTILINE)
    assert match is not None
    return match[1]


def stamp(tree: Path, version: str) -> None:
    """Writes the version into the four files of a tree that name it, as Python and as Cargo write it."""
    old, of_cargo = version_in(tree), version.replace(".dev", "-dev.")
    for name, before, after in (
        ("pyproject.toml", f'version = "{old}"', f'version = "{version}"'),
        ("src/pgstrata/__init__.py", f'__version__ = "{old}"', f'__version__ = "{version}"'),
        ("Cargo.toml", f'version = "{old}"', f'version = "{of_cargo}"'),
    ):
        text = (tree / name).read_text()
        assert text.count(before) == 1, f"{name} does not have {before} once"
        (tree / name).write_text(text.replace(before, after))
    lock = tree / "Cargo.lock"
    own = re.compile(r'(name = "(?:pgstrata-\w+|pgbench-script)"\nversion = )"[^"]+"')
    lock.write_text(own.sub(rf'\1"{of_cargo}"', lock.read_text()))


def add_manual(tree: Path) -> None:
    """Adds the manual page and the completions to what a wheel installs in share/."""
    share = tree / "launcher/data/share"
    wanted = {"man/man1/pgstrata.1": ["-m", "pgstrata.cli.manual"]}
    for shell, place in SHELLS.items():
        wanted[place] = ["-m", "pgstrata", "completion", shell]
    for place, command in wanted.items():
        (share / place).parent.mkdir(parents=True)
        environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        made = subprocess.run([sys.executable, *command], env=environment, check=True, capture_output=True)
        (share / place).write_bytes(made.stdout)


def build(tree: Path, out: Path, *options: str) -> None:
    """Builds one artifact."""
    environment = {**os.environ, "CARGO_TARGET_DIR": os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))}
    # zig and maturin are found by name.
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = [sys.executable, "-m", "build", "--no-isolation", *options, "--outdir", str(out), str(tree)]
    subprocess.run(command, env=environment, check=True)


def parts(tree: Path, version: str) -> dict[str, object]:
    """Returns what the artifacts are made of as CycloneDX: crates with their check sums, the script of the
    charts, and the packages that pip installs with them."""
    lock = tomllib.loads((tree / "Cargo.lock").read_text())["package"]
    crates = [
        {
            "type": "library",
            "name": crate["name"],
            "version": crate["version"],
            "purl": f"pkg:cargo/{crate['name']}@{crate['version']}",
            "hashes": [{"alg": "SHA-256", "content": crate["checksum"]}],
        }
        for crate in lock
        if "checksum" in crate
    ]
    project = tomllib.loads((tree / "pyproject.toml").read_text())["project"]
    packages = [
        {"type": "library", "name": match[1], "version": match[3] or "", "purl": f"pkg:pypi/{match[1]}"}
        for requirement in project["dependencies"]
        if (match := re.match(r"([\w.-]+)(\[\w+\])?(.*)", requirement))
    ]
    plotly = distribution("plotly").locate_file("plotly/package_data/plotly.min.js")
    head = re.search(r"plotly\.js v([\d.]+)", Path(str(plotly)).read_text(encoding="utf-8")[:2000])
    release = head[1] if head else ""
    script = {
        "type": "library",
        "name": "plotly.js",
        "version": release,
        "purl": f"pkg:npm/plotly.js@{release}",
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "pgstrata", "version": version}},
        "components": [*crates, script, *packages],
    }


def write_sums(out: Path) -> None:
    """Writes SHA256SUMS, as sha256sum checks it."""
    files = sorted(out.glob("pgstrata-*"))
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in files]
    (out / SUMS).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
