"""The file of a watch: a repository, the steps that are measured of each commit, and acknowledged changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from pgstrata.campaign.file.toml import parse
from pgstrata.campaign.problems import explain
from pgstrata.campaign.study import LONGEST_NAME, LONGEST_TEXT, OF_FILE, Names, Share, Stack, Strict
from pgstrata.errors import UsageError
from pgstrata.files.user_files import in_command, read_text, shown, user_path
from pgstrata.measure.two_servers import MeasuredWork
from pgstrata.store import slug
from pgstrata.suggest import meant
from pgstrata.workload import catalog

By = Literal["instructions", "rate"]

MOST_SERIES = 1000
MOST_ACKNOWLEDGED = 10_000

SMALLEST = {"instructions": 0.002, "rate": 0.01}
"""Smallest change that is looked for, unless the file says another one."""

SCALES = {"instructions": "count", "rate": "quick"}
"""Scale of a workload that has it, unless the file says another one."""


class WatchedSteps(Strict):
    """Steps of a workload and how they are measured."""

    workload: str = Field(default="sysbench", description="A name that `pgstrata workloads` lists.")
    steps: Names = Field(min_length=1, description="Steps, as `pgstrata steps WORKLOAD` lists them.")
    by: By = Field(
        default="instructions",
        description="`instructions`: counted, exact on any machine. `rate`: timed, in turns with the anchor.",
    )
    scale: str | None = Field(
        default=None, description="A named set of options. Default: `count`, of rates `quick`."
    )
    set: Names = Field(default=[], description="Options of the workload as `--set` takes them: `rows=10000`.")
    smallest: Share | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Smallest change that is looked for. Default: 0.2 %, of rates 1 %.",
    )
    seconds: float = Field(
        default=20.0, ge=0.1, le=86_400, description="Measured of each side, where `by` is `rate`."
    )

    @property
    def least(self) -> float:
        """Smallest change that is looked for, as a share."""
        return self.smallest or SMALLEST[self.by]

    def work(self, seed: int, data_dir: str | None, keep_settings: tuple[str, ...]) -> MeasuredWork:
        """Returns the work that is measured of each commit. Raises UsageError for a workload that does not
        exist."""
        if not catalog.is_known(self.workload):
            raise UsageError(
                f"there is no workload {self.workload!r}", meant(self.workload, catalog.names(), "workloads")
            )
        scale = self.scale
        if scale is None and SCALES[self.by] in catalog.find(self.workload).scales:
            scale = SCALES[self.by]
        return MeasuredWork(
            tuple(self.steps),
            self.workload,
            scale,
            tuple(self.set),
            seconds=self.seconds,
            seed=seed,
            data_dir=data_dir,
            keep_settings=keep_settings,
        )


class Acknowledged(Strict):
    """A change that is known, and why it is accepted."""

    commit: str = Field(pattern=r"^[0-9a-f]{7,64}$", description="Hash of the commit, seven digits at least.")
    note: str = Field(min_length=1, max_length=LONGEST_TEXT, description="What is known of it.")


class WatchFile(Strict):
    """What is watched."""

    name: str | None = Field(
        default=None, min_length=1, max_length=LONGEST_NAME, description="Default: the name of the file."
    )
    repository: str = Field(
        min_length=1,
        max_length=LONGEST_TEXT,
        description="Folder of a git repository of PostgreSQL, or an address, whose copy is kept up to date.",
    )
    branch: str = Field(default="HEAD", description="Branch that is watched, by first parents.")
    since: str = Field(description="Oldest commit: the anchor, with which every other one is compared.")
    every: int = Field(
        default=1,
        ge=1,
        le=100_000,
        description="Of the past one commit in so many is measured; of new ones every one.",
    )
    config: Stack = Field(default=["default"], description="Config files of all servers, as in a campaign.")
    build: str | None = Field(default=None, description="Build of all servers, as in a campaign.")
    keep_settings: Names = Field(
        default=[], description="Settings that pgstrata would leave out, as in a campaign."
    )
    data_dir: str | None = Field(
        default=None,
        min_length=1,
        max_length=LONGEST_TEXT,
        description="Existing folder below which clusters live.",
    )
    results: str | None = Field(
        default=None,
        min_length=1,
        max_length=LONGEST_TEXT,
        description="Folder of the history. Default: `watch/NAME`.",
    )
    false_alarm: int = Field(
        default=1000,
        ge=10,
        le=10_000_000,
        description="Commits in which one false alarm may come, of all steps together.",
    )
    builds: int = Field(
        default=10,
        ge=1,
        le=100_000,
        description="Newest built servers that are kept; older ones are removed.",
    )
    seed: int = Field(default=1, ge=0, le=2**31 - 1, description="Seed of all random streams.")
    series: list[WatchedSteps] = Field(
        min_length=1, max_length=MOST_SERIES, description="Steps and how they are measured: `[[series]]`."
    )
    acknowledged: list[Acknowledged] = Field(
        default=[], max_length=MOST_ACKNOWLEDGED, description="Changes that raise no alarm any more."
    )


@dataclass(frozen=True)
class Watch:
    """A checked file. folder: of the history; path: where the file is."""

    name: str
    file: WatchFile
    folder: Path
    path: Path

    @contextmanager
    def naming(self, what: str = "") -> Iterator[None]:
        """Puts the file, and `what` in it, before the message of every UsageError from inside."""
        try:
            yield
        except UsageError as error:
            where = f"{shown(self.path)}: {what}"
            raise UsageError(where + error.message.removeprefix("command line: "), error.hint) from error


def read_watch(path: Path, folder: Path | None = None) -> Watch:
    """Reads and checks the file of a watch. folder: of its history, where it is not the usual one. Raises
    UsageError."""
    text = read_text(path, "watch file", missing="docs/guides/watch.md shows one to start from")
    document = parse(text, str(path))
    if "series" not in document and ("servers" in document or "workloads" in document):
        raise UsageError(
            f"{shown(path)} is a campaign file, not one of a watch", f"pgstrata run {in_command(path)}"
        )
    try:
        file = WatchFile.model_validate(document, context=OF_FILE)
    except ValidationError as error:
        raise explain(error, WatchFile, str(path)) from error
    names = [(s.workload, step, s.by) for s in file.series for step in s.steps]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(
            f"{path}: {twice[0]}, step {twice[1]}, by {twice[2]}, is there twice", "name it once"
        )
    name = file.name or path.stem
    usual = user_path(file.results) if file.results else Path("watch") / slug(name)
    return Watch(name, file, folder or usual, path)


__all__ = ["By", "Watch", "WatchFile", "WatchedSteps", "read_watch"]
