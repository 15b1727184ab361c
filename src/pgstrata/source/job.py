"""One build while it is made: its folders, compiler, flags, and how far it is."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pgstrata.server.find.progress import BuildProgress
from pgstrata.server.find.recipe import Build
from pgstrata.server.find.sources import Tree
from pgstrata.server.system.account import server_account
from pgstrata.server.system.compiler import Compiler
from pgstrata.server.system.isolation import hand_over_tree
from pgstrata.source.shell import Shell

PREFIX = "/usr/local/pgsql"
"""Where every server believes to be installed. The same for all, so that neither the compiler's cache nor
the layout of the binary knows one build from another; servers find their files from where they lie."""

_COMPILED = re.compile(r"(?:^|\s)-c\s.*?([\w./+-]+\.c)(?:\s|$)|\[(\d+)/(\d+)\] (?:Compiling C object )?(\S+)")


@dataclass
class Job:
    """tree: what is built; folder: of the build, `tree`, `stage` and `cc` below it; final: where the
    server will lie. cflags: all of them, in order. expected: source files to compile, about."""

    tree: Tree
    build: Build
    compiler: Compiler
    folder: Path
    final: Path
    cache: Path
    cflags: list[str]
    shell: Shell
    jobs: int
    say: Callable[[BuildProgress], None]
    expected: int = 0
    compiled: int = 0
    relocatable: bool = True
    """False for 7.4, whose servers look for their files only where configure was told they would be."""
    begun: float = field(default_factory=time.monotonic)
    _stage: str = "source"
    _stage_begun: float = 0.0

    @property
    def source(self) -> Path:
        """The copy of the tree."""
        return self.folder / "tree"

    @property
    def stage(self) -> Path:
        """What stands for / when the server is installed."""
        return self.folder / "stage"

    @property
    def prefix(self) -> str:
        """As configured."""
        return PREFIX if self.relocatable else str(self.final)

    @property
    def installed(self) -> Path:
        """The server within `stage`."""
        return self.stage / self.prefix.lstrip("/")

    @property
    def flags_text(self) -> str:
        return shlex.join(self.cflags)

    def hand_over(self) -> None:
        """Gives the folder to the account that builds; afterwards nothing is written into it as root."""
        hand_over_tree(self.folder, server_account())

    def enter(self, stage: str) -> None:
        """Says that a stage begins."""
        self._stage, self._stage_begun = stage, time.monotonic()
        self.tell()

    def heard(self, line: str) -> None:
        """Reads a line of the build's output and counts the compiled files."""
        match = _COMPILED.search(line)
        if match is None:
            return
        if match[2]:
            self.compiled, self.expected = int(match[2]), int(match[3])
        else:
            self.compiled += 1
        self.tell((match[1] or match[4] or "").rpartition("/")[2])

    def tell(self, now: str = "") -> None:
        left, done, total = None, 0, 0
        if self._stage == "compile":
            done, total = self.compiled, max(self.expected, self.compiled)
            spent = time.monotonic() - self._stage_begun
            if done >= 20 and spent > 2:
                left = spent / done * (total - done)
        self.say(
            BuildProgress(
                f"{self.tree.label} {self.build.name}",
                self._stage,
                done,
                total,
                now,
                time.monotonic() - self.begun,
                left,
            )
        )
