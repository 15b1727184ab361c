"""From a tree and a build to a server."""

from __future__ import annotations

import dataclasses
import json
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pgstrata.errors import BuildError, ServerError, UsageError, is_disk_full
from pgstrata.files import digests
from pgstrata.files.ownership import check_executed, read_small
from pgstrata.files.unpacking import ArchiveError, opened, unpack
from pgstrata.server.config.settings import major_of
from pgstrata.server.find.progress import BuildProgress
from pgstrata.server.find.recipe import Build
from pgstrata.server.find.sources import Tree
from pgstrata.server.system.account import server_account
from pgstrata.server.system.compiler import Compiler, find_compiler
from pgstrata.server.system.isolation import becoming, hand_over_tree
from pgstrata.source import autoconf, build_cache, meson
from pgstrata.source.extension import add_extensions, copy_extensions, tree_hash
from pgstrata.source.failure import FULL
from pgstrata.source.job import Job
from pgstrata.source.mend import Need, apply_edits, needed
from pgstrata.source.patch import apply_patch, read_patch
from pgstrata.source.shell import Shell, build_environment
from pgstrata.source.tools import ccache_command, jobs, machine_for
from pgstrata.source.tree import OWN
from pgstrata.store.record import BuiltRecord, ExtensionRecord, PatchRecord

Json = dict[str, Any]
DEBUG = {"gcc": ("-g",), "clang": ("-g", "-grecord-command-line")}
"""Always among the flags: they change no code, profiles name functions by them, and the binary's debug data
tells the flags it was compiled with, as gcc's does unasked."""
CCACHE_MOST = "5G"


@dataclass(frozen=True)
class BuiltServer:
    """A server in the cache. record: what it was built from and with, as run.json has it."""

    key: str
    folder: Path
    record: BuiltRecord = field(repr=False)

    @property
    def bin_dir(self) -> Path:
        return self.folder / "bin"

    @property
    def version(self) -> str:
        return self.record.version

    @property
    def configured(self) -> str:
        """The options it was configured with, flags included."""
        return self.record.configured


def build(
    tree: Tree,
    recipe: Build,
    *,
    progress: Callable[[BuildProgress], None] = lambda progress: None,
    say: Callable[[str], None] = lambda text: None,
    check: Callable[[], None] = lambda: None,
    again: bool = False,
) -> BuiltServer:
    """Returns the server of a tree, built now unless the cache has it.

    progress gets how far it is, say sentences; check is called several times a second and may raise to end
    the build. again: a build that failed before is tried once more.
    Raises BuildError for a tree that does not build, UsageError for an option or module it does not have,
    ServerError where the cache cannot be written.
    """
    compiler = find_compiler(recipe.cc)
    mends = needed(tree.version_num, compiler)
    inputs = _inputs(tree, recipe, compiler, mends)
    key = build_cache.key_of(inputs)
    if again:
        build_cache.forget_failure(key)
    if server := _there(key):
        return server
    with build_cache.workplace(key, say, check) as folder:
        if server := _there(key):  # made while we waited
            return server
        about = {
            "label": tree.label,
            "origin": tree.origin,
            "version": tree.version,
            "build": recipe.record(),
        }
        try:
            return _build(tree, recipe, compiler, mends, key, folder, progress, say, check)
        except BuildError as error:
            if error.lasting:
                build_cache.remember_failure(key, about, error)
            raise
        except OSError as error:
            if is_disk_full(error) or FULL in str(error):
                raise _full() from error
            raise ServerError(f"{error.filename} cannot be written: {error.strerror}") from error


def find_built(tree: Tree, recipe: Build) -> BuiltServer | None:
    """Returns the server of a tree if the cache has it, else None. Raises BuildError if its build failed
    before."""
    compiler = find_compiler(recipe.cc)
    return _there(build_cache.key_of(_inputs(tree, recipe, compiler, needed(tree.version_num, compiler))))


def _there(key: str) -> BuiltServer | None:
    if record := build_cache.find(key):
        return BuiltServer(key, build_cache.folder_of(key), record)
    if failed := build_cache.failure(key):
        first = failed["errors"][0] if failed["errors"] else ""
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(float(failed["at"])))
        message = str(failed["message"]) + (f" ({first})" if first and first not in failed["message"] else "")
        raise BuildError(
            f"{failed['label']} {failed['build']['name']} did not build on {when}: {message}",
            f"pgstrata servers failed {key[:8]} shows the log's end; servers build --again tries once more",
            errors=failed["errors"],
            log_end=str(failed["log_end"]),
        )
    return None


def _full() -> BuildError:
    return BuildError(
        "no space left on the disk of the cache while building",
        "make room (pgstrata servers list shows sizes), or name another place with PGSTRATA_CACHE",
        lasting=False,
    )


def _inputs(tree: Tree, recipe: Build, compiler: Compiler, mends: list[Need]) -> Json:
    """Returns everything the result of a build depends on."""
    for folder in recipe.extensions:
        check_executed(folder, f"the extension {folder}", advice=OWN)
    return {
        "tree": tree.identity,
        "mends": digests.of(json.dumps([dataclasses.asdict(m) for m in mends])),
        "system": _system(tree, recipe),
        "cc": compiler.text,
        "compiler": compiler.version,
        "machine": machine_for(recipe.cflags),
        "cflags": recipe.cflags,
        "configure": recipe.configure,
        "meson": recipe.meson,
        "patches": [_digest(path) for path in recipe.patches],
        "contrib": recipe.contrib,
        "extensions": [tree_hash(folder) for folder in recipe.extensions],
    }


def _is_relocatable(source: Path) -> bool:
    """Returns True if servers of a tree find their files wherever they are installed, as from 8.0 on."""
    paths = source / "src/port/path.c"
    if (source / "src/backend/utils/init/findbe.c").is_file():  # of 7.4 and before
        return False
    return not paths.is_file() or "make_relative_path" in read_small(paths)


def _system(tree: Tree, recipe: Build) -> str:
    """Returns the build system: autoconf unless meson is asked for, by name or by options only it has. Raises
    UsageError where the tree has no meson.build, as before 16."""
    wanted = recipe.system
    if wanted == "auto":
        wanted = "meson" if recipe.meson and not recipe.configure else "autoconf"
    if wanted == "meson" and not tree.has_file("meson.build"):
        raise UsageError(
            f"{tree.label} cannot be built with meson: it has no meson.build, which came in 16",
            'system = "autoconf"',
        )
    return wanted


def _digest(path: Path) -> str:
    try:
        check_executed(path, f"the patch {path}", advice=OWN)
        return digests.of(read_patch(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


def _build(
    tree: Tree,
    recipe: Build,
    compiler: Compiler,
    mends: list[Need],
    key: str,
    folder: Path,
    progress: Callable[[BuildProgress], None],
    say: Callable[[str], None],
    check: Callable[[], None],
) -> BuiltServer:
    begun = time.monotonic()
    final = build_cache.folder_of(key)
    details = ", ".join([recipe.cflags, *(patch.name for patch in recipe.patches)])
    say(f"building {tree.label} with {recipe.name} ({details}), by {compiler.version.partition(',')[0]}")
    # The log lies beside what the build may write to: root must not follow a link of the build's.
    work = folder / "work"
    work.mkdir(mode=0o755)
    shell = Shell(folder / "log", build_environment(work), check=check)
    job = Job(
        tree,
        recipe,
        compiler,
        work,
        final,
        folder.parents[1],
        [],
        shell,
        jobs(),
        progress,
        expected=_expected(tree),
    )
    shell.heard = job.heard
    job.enter("source")
    job.source.mkdir()
    tree.write(job.source)
    job.relocatable = _is_relocatable(job.source)
    check()
    for patch in recipe.patches:
        apply_patch(job.source, patch)
    mended = apply_edits(job.source, mends)
    job.cflags = [
        *shlex.split(recipe.cflags),
        *DEBUG[compiler.family],
        *(flag for need in mended for flag in need.flags),
    ]
    _with_ccache(job)
    copy_extensions(job)
    system = _system(tree, recipe)
    (meson if system == "meson" else autoconf).build(job)
    if not (job.installed / "bin/postgres").is_file():
        raise BuildError("the build ended well and made no bin/postgres", log_end=shell.text(0)[-4000:])
    compiled = job.compiled
    extensions = add_extensions(job)
    record = BuiltRecord(
        key=key,
        label=tree.label,
        origin=tree.origin,
        version=tree.version,
        version_num=tree.version_num,
        tree=tree.identity,
        source=tree.facts,
        system=system,
        compiler=compiler.version,
        cflags=job.flags_text,
        configured=_configured(job, system),
        patches=tuple(PatchRecord(name=p.name, sha256=_digest(p)) for p in recipe.patches),
        mended=tuple(need.record() for need in mended),
        extensions=extensions,
        create=_to_create(job, extensions),
        build=recipe.record(),
        compiled=compiled,
        seconds=round(time.monotonic() - begun, 1),
    )
    installed = folder / "server"
    _take_out(job.installed, installed)
    place = build_cache.publish(key, installed, record)
    say(f"built {tree.label} {recipe.name} in {record.seconds:.0f} s")
    return BuiltServer(key, place, record)


def _take_out(installed: Path, target: Path) -> None:
    """Copies an installed server out of what the build may write to, following none of its links.

    Raises BuildError where it holds what no installation does.
    """
    target.mkdir(mode=0o755)
    command = ["tar", "--create", "--file=-", f"--directory={installed}", "."]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        cwd="/",
        preexec_fn=becoming(server_account()),
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            with opened("the built server", process.stdout, "r|") as archive:
                unpack("the built server", archive, target)
            while process.stdout.read(1 << 20):  # tar fills its last block
                pass
        except ArchiveError as error:
            process.kill()
            raise BuildError(error.message, lasting=False) from error
        complaint = process.stderr.read(1 << 16).decode(errors="replace").strip()
    if process.returncode != 0:
        raise BuildError(f"the built server cannot be read: {complaint}", lasting=False)


def _configured(job: Job, system: str) -> str:
    """Returns the options of the build, quoted as configure does: two builds are compared by them."""
    flags = [f"CC={job.compiler.text}", f"CFLAGS={job.flags_text}"]
    options = meson.options_of(job.build) if system == "meson" else job.build.configure
    least = [] if system == "meson" else [f"--without-{name}" for name in autoconf.LEAST]
    return " ".join(f"'{option}'" for option in [*least, *options, *flags])


def _to_create(job: Job, extensions: Sequence[ExtensionRecord]) -> tuple[str, ...]:
    """Returns the names to create in the database of a run: modules with an extension or script to install
    there."""
    names = [
        name
        for name in job.build.contrib
        if any(job.installed.glob(f"share/**/extension/{name}.control"))
        or any(job.installed.glob(f"share/**/contrib/{name}.sql"))
    ]
    return (*names, *(name for extension in extensions for name in extension.names))


def _expected(tree: Tree) -> int:
    """Returns the number of files that the last build of the same major version compiled; 0 if there was
    none."""
    same = [
        kept.record.compiled
        for kept in build_cache.built()
        if major_of(kept.record.version_num) == major_of(tree.version_num)
    ]
    return same[-1] if same else 0


def _with_ccache(job: Job) -> None:
    """Puts ccache in front of the compiler, under the compiler's own name: what the server tells of its
    build does not depend on whether this machine has a cache."""
    ccache = ccache_command()
    name = job.compiler.command[0]
    if ccache is None or "/" in name:
        return
    wrappers = job.folder / "cc"
    wrappers.mkdir()
    (wrappers / name).symlink_to(ccache)
    env = job.shell.env
    env["PATH"] = f"{wrappers}:{env['PATH']}"
    # Builds lie in folders of their own, in which names are relative: the same file is the same anywhere.
    env["CCACHE_NOHASHDIR"] = "1"
    if "CCACHE_DIR" not in env:
        env["CCACHE_DIR"] = str(_ccache_folder(job.cache / "ccache"))
    env.setdefault("CCACHE_MAXSIZE", CCACHE_MOST)


def _ccache_folder(folder: Path) -> Path:
    """Makes the compiler's cache, owned by the account that builds, and returns its folder."""
    account = server_account()
    folder.mkdir(parents=True, exist_ok=True)
    if account is not None and folder.stat().st_uid != account.uid:
        hand_over_tree(folder, account)
    return folder


__all__ = ["BuiltServer", "build", "find_built"]
