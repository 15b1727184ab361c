"""Small source trees with a configure and makefiles of their own: what a build does with good and bad ones
is the same as with PostgreSQL's, and takes a second."""

from __future__ import annotations

import subprocess
from pathlib import Path

from pgstrata.server.find.model import Server

CONFIGURE = """#!/bin/sh
# --with-lz4 --enable-cassert --without-readline
echo "checking build system type... small"
for word in "$@"; do case "$word" in --prefix=*) prefix=${word#--prefix=};; CC=*) cc=${word#CC=};;
CFLAGS=*) cflags=${word#CFLAGS=};; esac; done
printf 'prefix=%s\\nCC=%s\\nCFLAGS=%s\\n' "$prefix" "$cc" "$cflags" > src/Makefile.global
"""

MAKEFILE = """include ../Makefile.global
all: postgres
postgres: main.o
\t$(CC) -o postgres main.o
main.o: main.c
\t$(CC) $(CFLAGS) -c -o main.o main.c
install: all
\tmkdir -p $(DESTDIR)$(prefix)/bin
\tcp postgres $(DESTDIR)$(prefix)/bin/postgres
"""

INSTALL = """include ../Makefile.global
all:
install:
\tmkdir -p $(DESTDIR)$(prefix)
\tcp -r %s/bin %s/lib %s/share $(DESTDIR)$(prefix)/
\tcat ../../extra.conf >>`find $(DESTDIR)$(prefix)/share -name postgresql.conf.sample`
"""

MAIN = """#include <stdio.h>
int main(void) { puts("postgres (PostgreSQL) 17.5"); return 0; }
"""


def small_tree(folder: Path, *, version: str = "17.5", main: str = MAIN, configure: str = CONFIGURE) -> Path:
    """A tree that configures, compiles and installs one program called postgres."""
    (folder / "src/backend/parser").mkdir(parents=True)
    (folder / "configure.ac").write_text(f"AC_INIT([PostgreSQL], [{version}], [nobody])\n")
    (folder / "configure").write_text(configure)
    (folder / "configure").chmod(0o755)
    (folder / "src/backend/Makefile").write_text(MAKEFILE)
    (folder / "src/backend/main.c").write_text(main)
    # As archives of releases have them: nothing has to be generated.
    (folder / "src/backend/parser/gram.c").write_text("")
    (folder / "src/backend/parser/scan.c").write_text("")
    return folder


def git(folder: Path, *arguments: str) -> str:
    """Runs git as somebody whose name does not depend on this machine."""
    who = ["-c", "user.name=tester", "-c", "user.email=tester@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", *who, "-C", str(folder), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def repository(folder: Path, **more: str) -> Path:
    """A git repository with a small tree in one commit."""
    small_tree(folder, **more)
    git(folder, "init", "-q")
    commit(folder, "the first")
    return folder


def commit(folder: Path, subject: str) -> str:
    """Commits everything; the new commit's hash."""
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", subject)
    return git(folder, "rev-parse", "HEAD")


def serving(folder: Path, server: Server, settings: str) -> Path:
    """A git repository with one commit of a tree whose server is `server`, which is copied instead of built,
    with lines of its own, file extra.conf, at the end of the postgresql.conf that initdb makes."""
    assert server.bin_dir is not None
    repository(folder, version=server.version)
    (folder / "src/backend/Makefile").write_text(INSTALL % ((server.bin_dir.parent,) * 3))
    (folder / "extra.conf").write_text(f"{settings}\n")
    commit(folder, "a server of its own")
    return folder
