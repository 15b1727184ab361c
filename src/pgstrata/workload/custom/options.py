"""Options of a workload of files. Paths are relative to the campaign file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from pgstrata.step_names import point_name
from pgstrata.workload.core.language import Mode
from pgstrata.workload.core.options import (
    FILLED_IN,
    MOST_RATE,
    ClientCounts,
    Clients,
    CurveOptions,
    OneOrMore,
    Seconds,
    Wait,
)
from pgstrata.workload.core.scripts import Scripts, Variables, beside, stems, weighted
from pgstrata.workload.custom.contents import digest_of

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}", re.ASCII)
ROWS = {".csv": "csv", ".tsv": "text", ".parquet": "parquet"}
"""Files of rows, by their endings, and how COPY is told of them."""

QUERY_STEPS = ("plans", "warm-up", "queries", "streams")
"""Names of the steps that execute a folder of queries."""


def _named(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(f"{value!r} is no name: letters, digits, `_`, `.` and `-`, 63 at most")
    return value


Name = Annotated[str, BeforeValidator(_named)]
Names = Annotated[tuple[str, ...], OneOrMore, Field(max_length=1000)]
RowCount = Annotated[int, Field(ge=0, le=2**63 - 1)]


class OptionTable(BaseModel):
    """A part of the options that is a table of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Rows(OptionTable):
    """Files of rows for one table, or a folder with a file for each table, loaded by COPY."""

    table: str = Field("", max_length=200, description="the table, with its schema where need be")
    files: Names = Field((), description="`.csv`, `.tsv` (COPY's text format) or `.parquet`")
    folder: str | None = Field(
        None,
        description="in place of `table` and `files`: a folder with a file for each table that `setup` makes "
        "before it (`title.csv`); other endings are ignored",
    )
    columns: tuple[str, ...] = Field(
        (), max_length=1600, description="the columns in the files' order; none: all"
    )
    header: bool = Field(True, description="CSV: the first line holds the columns' names, and is left out")
    delimiter: str = Field(",", min_length=1, max_length=1, description="CSV: what stands between columns")
    null: str = Field("", max_length=100, description="CSV: what stands for NULL, unquoted")
    escape: str = Field(
        '"', min_length=1, max_length=1, description="CSV: what stands before a quote within quotes"
    )

    @field_validator("files")
    @classmethod
    def _files(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        for name in value:
            if Path(name).suffix.lower() not in ROWS:
                raise ValueError(f"{name!r} is no file of rows: {', '.join(ROWS)}")
        return tuple(beside(name, info) for name in value)

    @field_validator("folder")
    @classmethod
    def _folder(cls, value: str | None, info: ValidationInfo) -> str | None:
        return value if value is None else beside(value, info)

    @model_validator(mode="after")
    def _table_or_folder(self) -> Rows:
        if self.folder is not None and (self.table or self.files or self.columns):
            raise ValueError("`folder` stands in place of `table`, `files` and `columns`")
        if self.folder is None and not (self.table and self.files):
            raise ValueError("rows have a `table` and its `files`, or a `folder`")
        return self

    @property
    def paths(self) -> tuple[str, ...]:
        """The files, or the folder."""
        return self.files if self.folder is None else (self.folder,)


class ScriptRole(OptionTable):
    """A group of connections that run scripts, beside others in the same step."""

    name: Name = Field(description="what it is called in results")
    scripts: Scripts = Field(
        min_length=1, description="files in pgbench's language, drawn by weight: `mine.sql@3`"
    )
    clients: Clients | None = Field(None, description="connections; null: those of the step")
    rate: float | None = Field(
        None,
        ge=0.001,
        le=MOST_RATE,
        description="transactions/s of all its connections; null: as fast as possible",
    )
    mode: Mode | None = Field(None, description="protocol; null: that of the step")
    reads_only: bool = Field(
        False,
        description="as the step's, of this role alone",
    )


class ScriptStep(OptionTable):
    """A step of scripts: of one role, or of several side by side. What it leaves out the workload says."""

    name: Name | None = Field(None, description="name of the step; null: of its scripts or roles")
    scripts: Scripts = Field(
        (), description="scripts of its one role, `query`, drawn by weight: `mine.sql@3`"
    )
    roles: tuple[ScriptRole, ...] = Field(
        (), max_length=50, description="instead of `scripts`: several roles"
    )
    headline: str | None = Field(
        None, description="the role whose transactions/s it is judged by; null: the first"
    )
    clients: ClientCounts | None = Field(
        None,
        max_length=100,
        description="connections of a role that names none; a list: a step for each number",
    )
    seconds: Seconds | None = Field(None, description="seconds it is measured")
    warmup: Wait | None = Field(None, description="seconds it runs before it is measured")
    rate: float | None = Field(
        None, ge=0.001, le=MOST_RATE, description="transactions/s of `scripts`; null: as fast as possible"
    )
    mode: Mode | None = Field(None, description="protocol of a role that names none")
    reads_only: bool | None = Field(None, description="as the workload's, of this step")

    @model_validator(mode="after")
    def _one_way(self) -> ScriptStep:
        if bool(self.scripts) == bool(self.roles):
            raise ValueError("a step has either `scripts` or `roles`")
        names = [role.name for role in self.roles]
        if len(set(names)) < len(names):
            raise ValueError("two roles have the same name")
        if self.headline is not None and self.headline not in (names or ["query"]):
            raise ValueError(f"`headline` names no role of the step: {', '.join(names) or 'query'}")
        if self.rate is not None and self.roles:
            raise ValueError("`rate` of a step is that of its `scripts`; roles have rates of their own")
        return self

    @property
    def title(self) -> str:
        return self.name or (
            stems(self.scripts) if self.scripts else "+".join(role.name for role in self.roles)
        )


class FilledInOptions(BaseModel):
    """Options of what loads files, as far as pgstrata fills them in."""

    without: Annotated[dict[str, str], FILLED_IN] = Field(
        default_factory=dict,
        description="filled in by `pgstrata upgrade --without-extension`: statements of `setup` that are "
        "left out, by digest, and why",
    )
    contents: Annotated[dict[str, str], FILLED_IN] = Field(
        default_factory=dict,
        description="filled in by pgstrata: digests of all files, so that other content is another "
        "measurement",
    )


class CustomOptions(CurveOptions, FilledInOptions):
    """Options of a workload of files."""

    setup: Annotated[tuple[Rows | str, ...], OneOrMore] = Field(
        (),
        max_length=1000,
        description=(
            "what makes the data, in this order: SQL files, dumps of pg_dump, files of rows "
            "(`orders.csv` for table `orders`; docs/guides/custom.md); empty: the data is there"
        ),
    )
    row_counts: dict[str, RowCount] = Field(
        default_factory=dict,
        max_length=1000,
        description="rows of tables after `setup`; another number ends the run",
    )
    load_connections: int = Field(
        4, ge=1, le=64, description="connections that load rows, and make indexes, at the same time"
    )
    judge_load: bool = Field(
        False, description="load steps are compared: repeated in rounds, each from the data before it"
    )
    allow_outside: bool = Field(
        False,
        description="set by `allow_outside` of the campaign: everything is executed, by a superuser",
    )
    load_limit: Seconds = Field(6 * 3600.0, description="seconds that one statement of `setup` may take")
    extensions: Names = Field(
        (),
        description="extensions that are created first, and looked for in every server",
    )
    tables: Names | None = Field(None, description="whose sizes are recorded; null: those that `setup` makes")

    scripts: Scripts = Field((), description="short for one step: files in pgbench's language, `mine.sql@3`")
    steps: tuple[ScriptStep, ...] = Field(
        (), max_length=1000, description="steps of scripts: docs/guides/custom.md"
    )
    clients: ClientCounts = Field(
        (1,), min_length=1, max_length=100, description="connections; a list: a step for each number"
    )
    seconds: Seconds = Field(60, description="seconds of each step of scripts")
    warmup: Wait = Field(2, description="seconds each of them runs before it is measured")
    rate: float | None = Field(
        None,
        ge=0.001,
        le=MOST_RATE,
        description="transactions/s of `scripts`, even; null: as fast as possible",
    )
    mode: Mode = Field("simple", description="protocol")
    reads_only: bool = Field(
        False,
        description=(
            "scripts leave the data as it is, and the server holds them to it "
            "(`default_transaction_read_only`): variants take turns at them in slices, and they "
            "are kept after a stop"
        ),
    )
    define: Variables = Field(
        default_factory=dict, description="variables of the scripts, as pgbench's -D name=value"
    )
    max_tries: int = Field(
        1,
        ge=1,
        le=1_000_000,
        description="times a transaction is tried when it fails by a serialization failure or deadlock",
    )
    allow_shell: bool = Field(False, description="scripts may start programs on this machine (`\\shell`)")
    overtime: Seconds = Field(
        60, description="seconds that statements under way at a step's end may take; then it has failed"
    )
    settle: Literal["vacuum", "checkpoint", "none"] = Field(
        "checkpoint",
        description=(
            "before each step of scripts: VACUUM (ANALYZE) and a checkpoint, the checkpoint, or "
            "nothing; after `setup` always both, unless `none`"
        ),
    )
    settle_seconds: Wait = Field(0, description="seconds that VACUUM, checkpoint and waiting take at least")

    queries: str | tuple[str, ...] | None = Field(
        None,
        description="folder of .sql files, a query each, in the order of their names, files of `setup` "
        "aside; or a list of files and folders",
    )
    passes: int = Field(
        1, ge=0, le=1000, description="times step `queries` executes each of them; 0: no such step"
    )
    streams: int = Field(
        0,
        ge=0,
        le=1000,
        description="connections of step `streams`, each with its own order of all queries; 0: none",
    )
    query_warmup: int = Field(
        0, ge=0, le=100, description="passes over the queries before those that are measured"
    )
    time_limit: Seconds = Field(
        300,
        description="seconds a query may take; a cancelled query counts twice that",
    )
    plans: Literal["analyze", "estimate", "none"] = Field(
        "estimate",
        description=(
            "keeps the plan of each query: only planned; executed once more with buffers; or not at all"
        ),
    )
    answers: Literal["any-order", "ordered", "exact"] = Field(
        "any-order",
        description=(
            "how answers are compared, by digest: rows in any order or in theirs, both with "
            "fractions to 12 digits; or every letter"
        ),
    )

    @field_validator("setup")
    @classmethod
    def _setup(cls, value: tuple[Rows | str, ...], info: ValidationInfo) -> tuple[Rows | str, ...]:
        entries: list[Rows | str] = []
        for item in value:
            if isinstance(item, str) and Path(item).suffix.lower() in ROWS:
                entries.append(
                    Rows.model_validate({"table": Path(item).stem, "files": [item]}, context=info.context)
                )
            else:
                entries.append(beside(item, info) if isinstance(item, str) else item)
        return tuple(entries)

    @field_validator("queries")
    @classmethod
    def _queries(
        cls, value: str | tuple[str, ...] | None, info: ValidationInfo
    ) -> str | tuple[str, ...] | None:
        if value is None or isinstance(value, str):
            return value if value is None else beside(value, info)
        return tuple(beside(path, info) for path in value)

    @model_validator(mode="after")
    def _one_way(self, info: ValidationInfo) -> CustomOptions:
        if self.scripts and self.steps:
            raise ValueError(
                "`scripts` is short for one step, and there are `steps`: name them in one of those"
            )
        titles = [*QUERY_STEPS, *(title for step in self.script_steps for title in self.titles(step))]
        if load := next((t for t in titles if t.startswith("load.")), None):
            raise ValueError(f"{load!r} is what steps of `setup` are called: give this one another `name`")
        if twice := next((t for t in titles if titles.count(t) > 1), None):
            raise ValueError(f"two steps are called {twice!r}: give one of them another `name`")
        if (info.context or {}).get("folder"):
            digests = {name: digest_of(Path(name)) for name in sorted(set(self.files()))}
            object.__setattr__(self, "contents", digests)
        return self

    @property
    def script_steps(self) -> tuple[ScriptStep, ...]:
        return (ScriptStep.model_construct(scripts=self.scripts),) if self.scripts else self.steps

    def clients_of(self, step: ScriptStep) -> tuple[int, ...]:
        return step.clients or self.clients

    def titles(self, step: ScriptStep) -> list[str]:
        """Returns the names of the steps that a script step makes: one for each number of clients, if there
        are several."""
        return [self.title(step, number) for number in self.clients_of(step)]

    def title(self, step: ScriptStep, clients: int) -> str:
        """Returns the name of the step with this number of clients."""
        return point_name(step.title, clients) if len(self.clients_of(step)) > 1 else step.title

    @property
    def query_paths(self) -> tuple[str, ...]:
        """The files and folders of `queries`."""
        if self.queries is None:
            return ()
        return (self.queries,) if isinstance(self.queries, str) else self.queries

    def files(self) -> Iterator[str]:
        """Yields all files and folders that the options name."""
        for item in self.setup:
            yield from [item] if isinstance(item, str) else item.paths
        for step in self.script_steps:
            lists: Sequence[Sequence[str]] = [step.scripts, *(role.scripts for role in step.roles)]
            yield from (weighted(name)[0] for names in lists for name in names)
        yield from self.query_paths
