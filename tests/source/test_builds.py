"""Building: the cache, failures that are remembered, and what goes wrong while a build runs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pgstrata.errors import BuildError, PgstrataError, UsageError
from pgstrata.server.find.acquire import acquire
from pgstrata.server.find.progress import BuildProgress
from pgstrata.server.find.recipe import SHIPPED, Build
from pgstrata.source.build import build
from pgstrata.source.build_cache import built, clear_builds, failures, folder_of
from pgstrata.source.tree import tree_of_folder
from support.program import environment, living_in
from support.tree import CONFIGURE, MAIN, small_tree

pytestmark = pytest.mark.program


@pytest.fixture(autouse=True)
def cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own for each test."""
    monkeypatch.setenv("PGSTRATA_CACHE", str(place / "cache"))
    return place / "cache"


def test_a_tree_becomes_a_server_once(place: Path) -> None:
    tree = tree_of_folder(small_tree(place / "pg"))
    messages: list[str] = []
    seen: list[BuildProgress] = []
    first = build(tree, SHIPPED["o2"], say=messages.append, progress=seen.append)
    assert (first.bin_dir / "postgres").is_file()
    assert [p.stage for p in seen][:3] == ["source", "configure", "compile"]
    assert any(p.now == "main.c" and p.done == 1 for p in seen)
    assert build(tree, SHIPPED["o2"], say=messages.append) == first
    assert len([text for text in messages if text.startswith("building")]) == 1
    (kept,) = built()
    assert kept.record == first.record and kept.record.cflags == "-O2 -g"
    assert not list((place / "cache/building").iterdir())


def test_a_part_that_takes_the_folder_of_libraries_for_granted_finds_it(place: Path) -> None:
    tree = small_tree(place / "pg")
    makefile = tree / "src/backend/Makefile"
    makefile.write_text(makefile.read_text() + "\tcp main.o $(DESTDIR)$(prefix)/lib\n")
    assert (build(tree_of_folder(tree), SHIPPED["o2"]).folder / "lib/main.o").is_file()


def test_what_is_built_otherwise_is_another_server(place: Path) -> None:
    tree = tree_of_folder(small_tree(place / "pg"))
    folders = {build(tree, SHIPPED[name]).folder for name in ("o2", "o2_nofp", "o3_native")}
    folders.add(build(tree, Build("lz4", configure=("--with-lz4",))).folder)
    assert len(folders) == 4


def test_two_trees_are_configured_by_the_same_words(place: Path) -> None:
    """configure writes them into a header that nearly every file includes: the compiler's cache would know
    none of them again."""
    asked = CONFIGURE + """printf '#define OPTIONS "%s"\\n' "$*" > src/backend/options.h\n"""
    prints = '#include <stdio.h>\n#include "options.h"\nint main(void) { puts(OPTIONS); return %d; }\n'
    first, second = (
        build(tree_of_folder(small_tree(place / f"pg{n}", configure=asked, main=prints % n)), SHIPPED["o2"])
        for n in (0, 1)
    )
    assert first.folder != second.folder
    outputs = [subprocess.run([s.bin_dir / "postgres"], capture_output=True).stdout for s in (first, second)]
    assert b"--prefix=" in outputs[0] and outputs[0] == outputs[1]


def test_headers_are_generated_once(place: Path) -> None:
    """As in src/Makefile.global from 11 on: every make of a part looks for all of them again."""
    folder = small_tree(place / "pg")
    makefile = folder / "src/backend/Makefile"
    rules = (
        "all install: submake-generated-headers\n"
        "submake-generated-headers:\n"
        "ifndef NO_GENERATED_HEADERS\nifeq ($(MAKELEVEL),0)\n\t$(MAKE) generated-headers\nendif\nendif\n"
        "generated-headers:\n\techo generated >>generated\n"
    )
    installs = "\tcp generated $(DESTDIR)$(prefix)/bin\n"
    text = makefile.read_text()
    makefile.write_text(text.replace("all: postgres\n", f"all: postgres\n{rules}") + installs)
    assert (build(tree_of_folder(folder), SHIPPED["o2"]).bin_dir / "generated").read_text() == "generated\n"


def test_the_users_tree_is_never_written_to(place: Path) -> None:
    folder = small_tree(place / "pg")
    before = {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in folder.rglob("*")}
    build(tree_of_folder(folder), SHIPPED["o2"])
    assert {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in folder.rglob("*")} == before


def test_a_patch_is_applied_to_the_copy(place: Path) -> None:
    folder = small_tree(place / "pg")
    patch = place / "better.patch"
    patch.write_text(
        "--- a/src/backend/main.c\n+++ b/src/backend/main.c\n@@ -1,2 +1,2 @@\n #include <stdio.h>\n"
        '-int main(void) { puts("postgres (PostgreSQL) 17.5"); return 0; }\n'
        '+int main(void) { puts("postgres (PostgreSQL) 17.5 patched"); return 0; }\n'
    )
    tree = tree_of_folder(folder)
    plain, patched = build(tree, SHIPPED["o2"]), build(tree, Build(patches=(patch,)))
    says = [subprocess.run([s.bin_dir / "postgres"], capture_output=True).stdout for s in (plain, patched)]
    assert says[1] == says[0].replace(b"17.5", b"17.5 patched")
    assert (folder / "src/backend/main.c").read_text() == MAIN
    assert patched.record.patches[0].name == "better.patch"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "--- a/src/backend/main.c\n+++ b/src/backend/main.c\n@@ -1 +1 @@\n-int other;\n+int another;\n",
            "hunk 1 does not fit src/backend/main.c at line 1",
        ),
        ("--- a/src/nowhere.c\n+++ b/src/nowhere.c\n@@ -1 +1 @@\n-a\n+b\n", "there is no file src/nowhere.c"),
        ("hello, this is a mail\n", "it holds no unified diff"),
    ],
)
def test_a_patch_that_does_not_apply_says_where(place: Path, text: str, what: str) -> None:
    (place / "bad.patch").write_text(text)
    with pytest.raises(BuildError) as caught:
        build(tree_of_folder(small_tree(place / "pg")), Build(patches=(place / "bad.patch",)))
    assert f"the patch bad.patch does not apply: {what}" in caught.value.message


def test_a_failed_build_is_remembered_until_it_is_asked_for_again(place: Path) -> None:
    folder = small_tree(place / "pg", main="int main(void) { return missing; }\n")
    tree = tree_of_folder(folder)
    messages: list[str] = []
    with pytest.raises(BuildError) as caught:
        build(tree, SHIPPED["o2"], say=messages.append)
    assert "main.c:1" in caught.value.message and "missing" in caught.value.log_end
    with pytest.raises(BuildError, match="did not build on") as again:
        build(tree, SHIPPED["o2"], say=messages.append)
    assert "main.c:1" in again.value.message and "missing" in again.value.log_end
    assert len(messages) == 1
    with pytest.raises(BuildError, match="make all"):
        build(tree, SHIPPED["o2"], say=messages.append, again=True)
    assert len(messages) == 2
    (failed,) = failures()
    assert failed["version"] == "17.5"


def test_an_option_that_nobody_has_names_the_nearest(place: Path) -> None:
    tree = tree_of_folder(small_tree(place / "pg"))
    with pytest.raises(UsageError) as caught:
        build(tree, Build(configure=("--with-lz5",)))
    assert "--with-lz5" in caught.value.message and "--with-lz4" in caught.value.hint
    with pytest.raises(UsageError, match="is set by pgstrata"):
        build(tree, Build(configure=("--prefix=/usr",)))
    with pytest.raises(UsageError, match="no module nothing"):
        build(tree, Build(contrib=("nothing",)))
    assert failures() == []


def test_a_compiler_that_is_not_there_is_a_users_mistake(place: Path) -> None:
    tree = tree_of_folder(small_tree(place / "pg"))
    with pytest.raises(UsageError, match="there is no program gcc-99"):
        build(tree, Build(cc="gcc-99"))
    with pytest.raises(UsageError, match="is no C compiler"):
        build(tree, Build(cc="true"))


def test_what_is_missing_on_the_machine_is_named_with_its_package(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = small_tree(place / "pg")
    (folder / "src/backend/parser/gram.c").unlink()
    (programs := place / "programs").mkdir()
    for name in ("cc", "make", "ar", "sh", "nice"):
        (programs / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(BuildError) as caught:
        build(tree_of_folder(folder), SHIPPED["o2"])
    assert "no bison" in caught.value.message and caught.value.hint == "apt-get install bison"
    assert failures() == []  # it is not the tree's fault
    (programs / "cc").unlink()
    with pytest.raises(BuildError, match="no C compiler"):
        build(tree_of_folder(folder), SHIPPED["o2"])


def test_a_build_that_hangs_is_ended(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSTRATA_BUILD_SECONDS", "1")
    folder = small_tree(place / "pg", configure="#!/bin/sh\nsleep 1000 & wait\n")
    with pytest.raises(BuildError, match="did not end within 1 s"):
        build(tree_of_folder(folder), SHIPPED["o2"])
    assert not living_in(place / "cache")


def test_a_full_disk_is_said_and_not_remembered(place: Path) -> None:
    full = "#!/bin/sh\necho 'cc1: fatal error: error writing to main.s: No space left on device'; exit 1\n"
    with pytest.raises(BuildError) as caught:
        build(tree_of_folder(small_tree(place / "pg", configure=full)), SHIPPED["o2"])
    assert "no space left" in caught.value.message and "PGSTRATA_CACHE" in caught.value.hint
    assert failures() == []


def test_a_disk_that_fills_while_the_tree_is_copied_is_said(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tree_of_folder(small_tree(place / "pg"))
    (place / "pg/large").write_bytes(os.urandom(2 << 20))
    (small := place / "small").mkdir()
    if (
        os.geteuid()
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "none", small]).returncode
    ):
        pytest.skip("only root can mount a disk that is small")
    monkeypatch.setenv("PGSTRATA_CACHE", str(small))
    try:
        with pytest.raises(BuildError) as caught:
            build(tree_of_folder(place / "pg"), SHIPPED["o2"])
        assert "no space left" in caught.value.message and "PGSTRATA_CACHE" in caught.value.hint
        assert failures() == [] and not list((small / "building").iterdir())
    finally:
        subprocess.run(["umount", small], check=True)
    assert build(tree, SHIPPED["o2"]).bin_dir.is_dir()


def test_interrupting_a_build_leaves_nothing(place: Path) -> None:
    folder = small_tree(place / "pg", configure="#!/bin/sh\nsleep 1000\n")

    class Stopped(Exception):
        pass

    def check() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        build(tree_of_folder(folder), SHIPPED["o2"], check=check)
    assert not living_in(place / "cache")
    assert not list((place / "cache/building").iterdir())


BUILDS = """
import sys
from pathlib import Path
from pgstrata.server.find.recipe import SHIPPED
from pgstrata.source.build import build
from pgstrata.source.tree import tree_of_folder
made = build(tree_of_folder(Path(sys.argv[1])), SHIPPED["o2"], say=lambda text: print(text, flush=True))
print(made.folder)
"""


def in_another(place: Path) -> subprocess.Popen[str]:
    (place / "tmp").mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-c", BUILDS, str(place / "pg")],
        env=environment(PGSTRATA_CACHE=str(place / "cache"), TMPDIR=str(place / "tmp")),
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("next_one", ["build", "run"])
def test_after_kill_9_nothing_runs_and_the_next_one_clears_up(place: Path, next_one: str) -> None:
    waits = f"#!/bin/sh\nmktemp\n[ -e {place}/go ] || sleep 1000\n"
    folder = small_tree(place / "pg", configure=waits + CONFIGURE[10:])
    process = in_another(place)
    (place / "cache/building").mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + 60
    while not living_in(place / "cache") and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    while living_in(place / "cache") and time.monotonic() < until:
        time.sleep(0.05)
    assert not living_in(place / "cache")
    assert list((place / "cache/building").iterdir())
    assert not list((place / "tmp").iterdir()), "a compiler's files are in the folder of the build"
    (place / "go").touch()
    if next_one == "build":
        build(tree_of_folder(folder), SHIPPED["o2"])
    else:
        (message,) = clear_builds()
        assert message.startswith("an unfinished build, ")
    assert not list((place / "cache/building").iterdir())


def test_two_builds_of_the_same_thing_at_once_are_one(place: Path) -> None:
    small_tree(place / "pg", configure="#!/bin/sh\nsleep 1\n" + CONFIGURE[10:])
    both = [in_another(place) for _ in range(2)]
    outputs = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert len({text.splitlines()[-1] for text in outputs}) == 1
    assert sum("building src17.5" in text for text in outputs) == 1


def test_a_folder_to_build_in_that_others_can_write_to_is_refused(place: Path) -> None:
    tree = tree_of_folder(small_tree(place / "pg"))
    (place / "cache/building").mkdir(parents=True)
    (place / "cache/building").chmod(0o777)
    with pytest.raises(PgstrataError, match="can be written by other users"):
        build(tree, SHIPPED["o2"])
    (place / "cache/building").rmdir()
    (place / "cache/building").symlink_to(place)
    with pytest.raises(PgstrataError, match="is a symbolic link"):
        build(tree, SHIPPED["o2"])


def test_an_extension_is_hashed_with_the_build(place: Path) -> None:
    from pgstrata.source.extension import tree_hash

    (place / "ext").mkdir()
    (place / "ext/Makefile").write_text("EXTENSION = ext\n")
    before = tree_hash(place / "ext")
    (place / "ext/ext.o").write_text("machine code")
    assert tree_hash(place / "ext") == before
    (place / "ext/ext.c").write_text("int x;")
    assert tree_hash(place / "ext") != before


def test_a_spec_of_a_tree_is_a_server_like_any_other(place: Path) -> None:
    small_tree(place / "pg")
    server = acquire("src:pg", SHIPPED["o3_native"], folder=place)
    assert server.label == "src17.5.o3_native" and server.version_num == 170005 and server.managed
    assert "CFLAGS=-O3 -march=native -g" in server.build
    assert server.built is not None and server.built.source["folder"] == str(place / "pg")
    assert server.bin_dir == folder_of(server.built.key) / "bin"


def test_the_cache_belongs_to_this_account(place: Path) -> None:
    build(tree_of_folder(small_tree(place / "pg")), SHIPPED["o2"])
    assert (place / "cache/building").stat().st_uid == os.geteuid()


@pytest.mark.skipif(shutil.which("ccache") is None, reason="apt-get install ccache")
def test_what_was_compiled_once_is_not_compiled_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CCACHE_DIR", raising=False)
    folder = small_tree(place / "pg")
    first = build(tree_of_folder(folder), SHIPPED["o2"])
    (folder / "README").write_text("another tree, the same program\n")
    second = build(tree_of_folder(folder), SHIPPED["o2"])
    words = subprocess.run(
        ["ccache", "--print-stats"],
        env={**os.environ, "CCACHE_DIR": str(place / "cache/ccache")},
        capture_output=True,
        text=True,
    ).stdout.split()
    counted = dict(zip(words[::2], words[1::2], strict=True))
    hits = int(counted["direct_cache_hit"]) + int(counted["preprocessed_cache_hit"])
    assert second.key != first.key and hits == int(counted["cache_miss"]) == 1
    assert first.configured == second.configured and "ccache" not in first.configured


def test_a_long_build_says_how_much_time_is_left(place: Path) -> None:
    seen: list[BuildProgress] = []
    compiles = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do echo cc -c part$$i.c; done"
    folder = small_tree(place / "pg")
    makefile = folder / "src/backend/Makefile"
    makefile.write_text(
        makefile.read_text().replace("main.o: main.c\n", f"main.o: main.c\n\t@sleep 2; {compiles}\n")
    )
    build(tree_of_folder(folder), SHIPPED["o2"], progress=seen.append)
    last = seen[[p.stage for p in seen].index("install") - 1]
    assert last.left is not None and last.done >= 20 and "s left" in str(last)
