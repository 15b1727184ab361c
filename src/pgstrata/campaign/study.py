"""What is asked, typed: variants, workloads, and how they are compared.

A campaign file, the command line and a program all make a `Study`. The descriptions of the fields are the
reference: `docs/reference/campaign.md` is made from them (`python -m pgstrata.campaign.file.reference`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from pgstrata import numbers
from pgstrata.campaign.named_servers import named_server
from pgstrata.campaign.problems import explain
from pgstrata.driver.spec import EngineChoice
from pgstrata.files.user_files import shown
from pgstrata.server.config.resolve import is_setting
from pgstrata.server.connect.poolers import KINDS
from pgstrata.server.find.recipe import DEFAULT
from pgstrata.server.find.sources import is_source
from pgstrata.store.record import OTHER_LOAD
from pgstrata.workload.core.options import LONGEST_SECONDS, MOST_SEED

Order = Literal["sequential", "shuffled", "interleaved"]


def _stack(value: object) -> object:
    """Returns a list of config files: a single one may be written without the brackets of a list."""
    return [value] if isinstance(value, str) else value


def _share(value: object) -> object:
    """Parses a share that is written as text with a per cent sign; other values are returned as they are."""
    share = numbers.parse_share(value) if isinstance(value, str) else None
    return value if share is None else share


Share = Annotated[float, BeforeValidator(_share)]
JudgedTime = Literal["rate", "p50", "p90", "p95", "p99", "p99.9", "max"]
Stack = Annotated[list[str], BeforeValidator(_stack), Field(max_length=100)]
Names = Annotated[list[str], BeforeValidator(_stack), Field(max_length=100)]


MOST_VARIANTS = 1000
MOST_WORKLOADS = 1000
MOST_RUNS = 100_000
"""Variants × workloads × repeats of one campaign."""

VERDICT_SLICE_SECONDS = 0.02
"""Of a slice where steps end with their verdicts: what else a shared machine does hits both sides alike."""

LONGEST_NAME = 200
LONGEST_TEXT = 4096

Cpu = Annotated[int, Field(ge=0, le=65_535)]


def _hertz(value: float) -> float:
    if 0 < value < SLOWEST_HERTZ:
        raise ValueError(f"it is 0 or at least {SLOWEST_HERTZ}")
    return value


SLOWEST_HERTZ = 0.01
"""Less often than every hundred seconds is never, in most steps."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def _environment(value: dict[str, str]) -> dict[str, str]:
    for name in value:
        if not _VARIABLE.fullmatch(name):
            raise ValueError(f"{shown(name)!r} is no name of a variable: letters, digits and _ only")
    return value


S = TypeVar("S", bound="Strict")

OF_FILE = {"names": "places in a file"}
"""Context of a validation whose errors the reader of a file explains, all of them at once."""


class Strict(BaseModel):
    """Unknown keys are errors, and text is not taken for a number. A program may give tuples and paths, and
    reads what is wrong as a UsageError."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    @model_validator(mode="wrap")
    @classmethod
    def _of_program(cls, given: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        if info.context is OF_FILE:
            return handler(given)
        if isinstance(given, dict):
            given = {key: _plain(value) for key, value in given.items()}
        try:
            return handler(given)
        except ValidationError as error:
            raise explain(error, cls, cls.__name__) from error

    def replaced(self: S, **keys: Any) -> S:
        """Returns the same with other values of these keys, checked again. Raises UsageError."""
        given = {key: getattr(self, key) for key in self.model_fields_set}
        return type(self).model_validate(given | keys)


def _plain(value: object) -> object:
    """Returns a value of a program as a file would have it."""
    match value:
        case tuple():
            return [_plain(item) for item in value]
        case Path():
            return str(value)
    return value


class BuildKeys(Strict):
    """How a server is built from source."""

    cc: str | None = Field(
        default=None,
        min_length=1,
        description="The compiler, for example `clang`. Default: the first of cc, gcc, clang.",
    )
    cflags: str | None = Field(
        default=None,
        description="Flags of the compiler instead of `-O2`. `-g` is always added; it changes no code.",
    )
    system: Literal["auto", "autoconf", "meson"] | None = Field(
        default=None,
        description=(
            "The build system. `auto`: autoconf; meson (16 and later) where only `meson` has options."
        ),
    )
    configure: list[str] | None = Field(
        default=None,
        description="Options of configure, for example `--with-lz4`. Readline, zlib and ICU are left out.",
    )
    meson: list[str] | None = Field(
        default=None, description="Options of meson, for example `-Dlz4=enabled`."
    )
    patches: list[str] | None = Field(
        default=None,
        description="Patches, applied in this order to a copy of the tree (`patch -p1`).",
    )
    contrib: list[str] | None = Field(
        default=None,
        description="Modules of contrib/ that are built and created in the database.",
    )
    extensions: list[str] | None = Field(
        default=None,
        description=(
            "Folders of extensions with a Makefile for PGXS, built against this server and "
            "created in the database. In a variant also names of extensions that its server has, "
            "for example `pgvector`."
        ),
    )

    def build_keys(self) -> dict[str, Any]:
        """Returns the build keys that are set, with their values."""
        return {k: v for k in BuildKeys.model_fields if (v := getattr(self, k)) is not None}


class Variant(BuildKeys):
    """One thing to compare: a server with a configuration."""

    server: str = Field(
        min_length=1,
        max_length=LONGEST_TEXT,
        description=(
            "`pg:17`, `pg:17.11`, `pg:latest`, `path:DIR` of an installation, `dsn:URL` of a "
            "running server; or a source tree: `release:9.0.23`, `tar:FILE-or-URL`, `src:DIR`, "
            "`git:DIR-or-URL#REF`."
        ),
    )
    build: str | None = Field(
        default=None,
        description=(
            "Build of a source tree: a table under `[builds]`, or `o2` (default), `o2_nofp`, "
            "`o3_native`, `debug-asserts`. Keys of a build beside it win."
        ),
    )
    config: Stack = Field(
        default=["default"],
        description=(
            "Config files, later ones win: names of `pgstrata config list`, .conf files relative "
            "to the campaign file, or settings (`work_mem=64MB`). `[]`: the server's defaults. A "
            "`dsn:` server keeps its settings."
        ),
    )
    label: str | None = Field(
        default=None,
        min_length=1,
        max_length=LONGEST_NAME,
        description=(
            "Name in results. Default: label of the server and names of the config files with "
            "dots between, for example `pg17.11.cached-by-pg`; without `default`."
        ),
    )
    env: Annotated[dict[str, str], AfterValidator(_environment)] = Field(
        default={},
        description=(
            "Environment of the server's processes, for example `LD_PRELOAD` of another malloc; a"
            " library that cannot be loaded ends the run."
        ),
    )
    initdb: list[str] = Field(
        default=[],
        description=(
            "Further options of initdb, for example `--data-checksums`. Default: locale C and UTF-8."
        ),
    )
    memory: str | None = Field(
        default=None,
        description=(
            "Most memory of the server's processes, page cache included: `2GB`. Needs root or a "
            "control group that is yours."
        ),
    )
    data_dir: str | None = Field(
        default=None,
        min_length=1,
        max_length=LONGEST_TEXT,
        description=(
            "Existing folder below which this variant's clusters live, instead of that of the "
            "campaign (docs/guides/storage.md)."
        ),
    )
    wal_dir: str | None = Field(
        default=None,
        min_length=1,
        max_length=LONGEST_TEXT,
        description="Existing folder for the write-ahead logs of this variant's clusters.",
    )
    io_delay: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description=(
            'Additional time of each wait for the disk, for example `"2ms"` (docs/guides/storage.md).'
        ),
    )
    replicas: int = Field(
        default=0,
        ge=0,
        le=1,
        description=(
            "Standbys that follow this variant's server by streaming, on the same machine: 0 or "
            "1, from 9.6 on (docs/guides/replicas.md)."
        ),
    )
    replication: Literal["async", "sync"] = Field(
        default="async",
        description="`sync`: commits wait for the replica.",
    )
    reads: Literal["primary", "replica"] = Field(
        default="primary",
        description="Server that steps which only read use.",
    )
    through: str | None = Field(
        default=None,
        min_length=1,
        max_length=LONGEST_TEXT,
        description="What stands between driver and server: "
        + " or ".join(f"`{name}`" for name in KINDS)
        + " (or `pgbouncer:PROGRAM`), which is started before it; of a `dsn:` server the address of its "
        "pooler. Only the driver goes through it.",
    )
    pooler: dict[str, str | int | float] = Field(
        default={},
        max_length=100,
        description=(
            "Settings of that pooler, for example "
            '`{ pool_mode = "transaction", default_pool_size = 8 }`. Default: the pooler\'s; '
            "pgbouncer's with room for 10,000 clients."
        ),
    )

    @property
    def pooler_settings(self) -> dict[str, str]:
        """`pooler` as it is written into the configuration."""
        return {name: str(value) for name, value in self.pooler.items()}


class Workload(Strict):
    """One benchmark and its options."""

    name: str = Field(description="A name that `pgstrata workloads` lists, or `FILE.py:CLASS`.")
    label: str | None = Field(
        default=None,
        min_length=1,
        max_length=LONGEST_NAME,
        description="Name in results, needed where a workload is listed twice. Default: its name.",
    )
    scale: str | None = Field(
        default=None,
        description="A named set of options to start from: `pgstrata workloads NAME` lists them.",
    )
    options: dict[str, Any] = Field(
        default={},
        description="Options of the workload; they win over those of `scale`.",
    )


class ProfileSpec(Strict):
    """How the backends of a step are profiled."""

    seconds: float = Field(
        default=10.0,
        ge=0.1,
        le=3600,
        description=(
            "Seconds of each variant in the middle of each step. In `interleaved` equal pieces of up to 16 "
            "batches, slices or rounds."
        ),
    )
    frequency: int = Field(
        default=99, ge=1, le=10_000, description="Samples per second of CPU that a backend uses."
    )
    event: str = Field(
        default="auto",
        min_length=1,
        description=(
            "Event by perf's name. `auto`: `cycles` where the hardware counts them, else `cpu-clock`."
        ),
    )
    call_graph: Literal["dwarf", "fp"] = Field(
        default="dwarf",
        description="`fp` is cheaper, and right only for servers built with frame pointers.",
    )
    stack_bytes: int = Field(
        default=16384, ge=1024, le=65528, multiple_of=8, description="Stack copied per sample for `dwarf`."
    )


class CountSpec(Strict):
    """How instructions are counted."""

    engine: Literal["auto", "valgrind", "perf"] = Field(
        default="auto",
        description=(
            "`perf`: the hardware's counters; `valgrind`: any machine. `auto`: perf where there are counters."
        ),
    )
    margin: Share = Field(
        default=0.002,
        ge=0.0001,
        lt=1,
        description=(
            'Smallest difference that counts (also "0.1%"). Starts are added until intervals '
            "reach half of it to either side."
        ),
    )
    starts: int = Field(default=2, ge=2, le=100, description="Fewest fresh starts of each variant.")
    most_starts: int = Field(default=8, ge=2, le=100, description="Most fresh starts of each variant.")
    steps: list[str] = Field(
        default=[],
        max_length=1000,
        description="Names or globs of the only steps that are counted. `[]`: all.",
    )
    simulate: bool = Field(
        default=False,
        description="Simulate caches and branches too (valgrind); twice as long, and marked as simulated.",
    )


class FleetSpec(Strict):
    """What `pgstrata run --fleet` does with the campaign; a local run ignores it."""

    attempts: int = Field(
        default=3,
        ge=1,
        le=100,
        description=(
            "How often a comparison begins at most; after a lost machine it begins again on another."
        ),
    )
    machines: Names = Field(
        default=[],
        description=(
            "Names or globs of the machines that take part. `[]`: all. A campaign with `dsn:` "
            "servers names a single machine."
        ),
    )
    kinds: dict[str, str | dict[str, str]] = Field(
        default={},
        max_length=MOST_WORKLOADS,
        description=(
            "By label of a workload the kind of machine it is measured on, a glob: "
            '`{ sysbench = "*EPYC*" }`; or by its steps: '
            '`{ sysbench = { point-query = "*EPYC*" } }`. `pgstrata fleet status` shows the '
            "kinds."
        ),
    )
    qualify_hours: float = Field(
        default=12.0,
        gt=0,
        le=8760,
        description="How long a machine's qualification holds.",
    )
    qualify_seconds: float = Field(
        default=8.0,
        ge=2,
        le=3600,
        description="Measured seconds of each of the two clusters that qualify a machine.",
    )
    silent_seconds: float = Field(
        default=60.0,
        ge=5,
        le=3600,
        description=(
            "Seconds without a sign after which a machine is lost, and its comparison begins again."
        ),
    )


def _switched(value: object) -> object:
    """Returns the table that a switch stands for: `profile = true` means the defaults, `false` means no
    profile."""
    if isinstance(value, bool):
        return {} if value else None
    return value


class Study(Strict):
    """Variants × workloads × repeats, and how they are compared."""

    name: str | None = Field(
        default=None,
        min_length=1,
        max_length=LONGEST_NAME,
        description="Name of the campaign. Default: the file's name without `.toml`.",
    )
    results: str = Field(
        default="results",
        min_length=1,
        max_length=LONGEST_TEXT,
        description="Folder for the runs, relative to the current folder.",
    )
    data_dir: str | None = Field(
        default=None,
        min_length=1,
        max_length=LONGEST_TEXT,
        description=(
            "Folder on the disk to be measured; clusters live below it while they run. Default: "
            "`pgstrata-<user>` in `$TMPDIR` or `/var/tmp`."
        ),
    )
    keep_data: bool = Field(
        default=False,
        description="Leave the stopped data folder of each run behind, to look at it.",
    )
    allow_outside: bool = Field(
        default=False,
        description=(
            "Let servers under test reach beyond their sockets: they keep the network, and "
            "foreign servers, programs, files and untrusted languages of workloads `custom` and "
            "`replay` are executed, by a superuser (docs/explanation/security.md)."
        ),
    )
    keep_loaded: bool = Field(
        default=False,
        description=(
            "Keep loaded data in the cache, and begin from a copy of it wherever the same data is"
            " needed (docs/guides/loaded-data.md). Steps of a load are measured only in the runs "
            "that load."
        ),
    )
    keep_settings: list[str] = Field(
        default_factory=list,
        max_length=100,
        description=(
            "Settings of configs to keep although they reach outside, name a place or need "
            "another server, for example `archive_command` (docs/guides/config.md)."
        ),
    )
    repeats: int = Field(default=1, ge=1, le=1000, description="Runs of every variant × workload.")
    order: Order = Field(
        default="sequential",
        description=(
            "`sequential`: a variant after the other. `shuffled`: one repeat of everything after "
            "the other, variants in a random order within each. `interleaved`: variants take "
            "turns, A B B A … (docs/explanation/verdicts.md); the default with "
            '`until = "verdict"`.'
        ),
    )
    slice_seconds: float = Field(
        default=2.0,
        ge=0.005,
        le=600,
        description=(
            'Length of a slice in `interleaved`; with `until = "verdict"` 0.02. Below 0.25 '
            "connections stay open from slice to slice."
        ),
    )
    rounds: int = Field(
        default=4,
        ge=1,
        le=1000,
        description=(
            "Rounds in `interleaved` of steps that cannot be cut into slices, and pairs of each "
            "recorded query."
        ),
    )
    turns: Literal["rounds", "frozen"] = Field(
        default="frozen",
        description=(
            "How steps that write take turns in `interleaved`. `frozen`: in windows, with all "
            "processes of the other variants stopped. `rounds`: whole steps, with no other "
            "cluster up; the default with `replicas` (docs/explanation/verdicts.md)."
        ),
    )
    window_seconds: float = Field(
        default=0.1,
        ge=0.05,
        le=10,
        description='Approximate length of a turn with `turns = "frozen"`.',
    )
    until: Literal["time", "verdict"] = Field(
        default="time",
        description=(
            "`verdict`: an interleaved step goes on until each variant is known to be slower, "
            "faster or the same, or `max_seconds` is reached. `time`: for the time of the step."
        ),
    )
    max_seconds: float = Field(
        default=240.0,
        ge=0.1,
        le=LONGEST_SECONDS,
        description='Most measured seconds of a step with `until = "verdict"`, all variants together.',
    )
    why_seconds: float = Field(
        default=120.0,
        ge=0,
        le=LONGEST_SECONDS,
        description=(
            'Most seconds, with `until = "verdict"` or in a replay, that are spent on why single queries are '
            "slower and on what helps (docs/guides/why-slower.md); 0: none."
        ),
    )
    margin: Share = Field(
        default=0.02,
        ge=0.0001,
        lt=1,
        description=(
            'Smallest difference that counts (0.005, also "0.5%"). Below 0.01 servers start anew '
            "between batches of short slices (docs/explanation/verdicts.md)."
        ),
    )
    judge: list[JudgedTime] = Field(
        default=[],
        max_length=10,
        description="Response times judged beside the rate where variants take turns: `p50`, `p90`, `p95`, "
        "`p99`, `p99.9`, `max`.",
    )
    times_margin: Share = Field(
        default=0.05,
        ge=0.001,
        lt=1,
        description="As `margin`, of response times.",
    )
    other_load: Share = Field(
        default=OTHER_LOAD,
        ge=0.01,
        le=1,
        description=(
            'Share of the CPUs that other programs may use beside a step (also "25%"). Beyond it '
            "a step that cannot tell which slices waited is disturbed, and unclear. `1`: nothing "
            "is disturbed, and no slice is left out because it waited."
        ),
    )
    placement: Literal["auto", "free"] = Field(
        default="auto",
        description=(
            "`auto`: variants that take turns in short slices share their CPUs: one, drawn anew "
            "for each batch, where a single connection works at a time. `free`: left to the "
            "kernel. `server_cpus` and `driver_cpus` win."
        ),
    )
    server_cpus: list[Cpu] = Field(
        default=[],
        description="Numbers of the CPUs that servers use. `[]`: all.",
    )
    driver_cpus: list[Cpu] = Field(
        default=[],
        description="Numbers of the CPUs that the driver uses. `[]`: all.",
    )
    seed: int = Field(
        default=1,
        ge=0,
        le=MOST_SEED,
        description="Seed of all random streams: the same seed gives the same rows, keys and operations.",
    )
    base: str | None = Field(
        default=None,
        min_length=1,
        max_length=LONGEST_NAME,
        description=(
            "Label of the variant that the others are compared with, or an unambiguous beginning "
            "of it, for example `pg12`. Default: the first."
        ),
    )
    engine: EngineChoice = Field(
        default="auto",
        description="How the driver moves bytes.",
    )
    profile: Annotated[ProfileSpec | None, BeforeValidator(_switched)] = Field(
        default=None,
        description=(
            "`true`, or a table with the keys below: flame graphs by perf, as a rule as root. "
            "Where perf cannot work the runs say why and go on."
        ),
    )
    count: Annotated[CountSpec | None, BeforeValidator(_switched)] = Field(
        default=None,
        description=(
            "`true`, or a table with the keys below: count instructions per operation beside the "
            "timed runs, on clusters of their own (docs/guides/count.md)."
        ),
    )
    fleet: FleetSpec = Field(
        default=FleetSpec(),
        description="How the campaign is spread over many machines (docs/guides/fleet.md).",
    )
    waits: Annotated[float, AfterValidator(_hertz)] = Field(
        default=0.0,
        ge=0,
        le=1000,
        description="Samples of wait events per second, for example 10; 0: none.",
    )
    servers: list[str] = Field(
        default=[],
        max_length=MOST_VARIANTS,
        description=(
            "Servers, each with every stack of `configs`. A label stands behind a server, "
            '`"path:/opt/patched=patched"`; of a `dsn:` server before it.'
        ),
    )
    configs: list[Stack] = Field(
        default=[],
        max_length=MOST_VARIANTS,
        description=(
            'Stacks for `servers`: `["cached-by-pg", ["cached-by-pg", "a1"]]` are two. Default: `default`.'
        ),
    )
    variants: list[Variant] = Field(
        default=[],
        max_length=MOST_VARIANTS,
        description="What to compare, a table each, after those of `servers`.",
    )
    builds: dict[str, BuildKeys] = Field(
        default={},
        description="Named builds: `[builds.NAME]`.",
    )
    build: Names = Field(
        default=[],
        description="Builds of every source tree in `servers`: two names make two variants of each.",
    )
    workloads: list[Workload] = Field(
        default=[],
        max_length=MOST_WORKLOADS,
        description="What to run on each variant, a table each.",
    )

    @model_validator(mode="before")
    @classmethod
    def _implied(cls, given: Any) -> Any:
        """Returns the document with the keys that follow from other keys: a verdict needs turns, and short
        ones; a replica would lose a primary that is frozen. Keys that are written take precedence."""
        if not isinstance(given, dict):
            return given
        implied: dict[str, Any] = {}
        if given.get("until") == "verdict":
            implied |= {"order": "interleaved", "slice_seconds": VERDICT_SLICE_SECONDS}
        variants = given.get("variants")
        if isinstance(variants, list) and any(_has_replicas(variant) for variant in variants):
            implied["turns"] = "rounds"
        return implied | given


def _has_replicas(variant: Any) -> bool:
    """Returns whether a variant, checked or not yet, asks for replicas."""
    return bool(variant.get("replicas") if isinstance(variant, dict) else getattr(variant, "replicas", 0))


def expand(spec: Study) -> list[Variant]:
    """Returns the variants in their order: `servers` × `configs` first, then `variants`.

    Raises ValueError where they are too many, or too many runs come of them.
    """
    stacks = spec.configs or [["default"]]
    servers = [named_server(text) for text in spec.servers]
    builds = [spec.build if is_source(server.spec) and spec.build else [None] for server in servers]
    number = sum(map(len, builds)) * len(stacks) + len(spec.variants)
    if number > MOST_VARIANTS:
        raise ValueError(f"{number:,} variants; a campaign has at most {MOST_VARIANTS:,}")
    if (runs := number * len(spec.workloads) * spec.repeats) > MOST_RUNS:
        raise ValueError(f"{runs:,} runs; a campaign has at most {MOST_RUNS:,}")
    product = [
        Variant(server=server.spec, config=stack, build=build, label=label_of(server.label, build, stack))
        for server, names in zip(servers, builds, strict=True)
        for build in names
        for stack in stacks
    ]
    return product + spec.variants


def label_of(server: str | None, build: str | None, stack: Sequence[str]) -> str | None:
    """Returns the label of a variant whose server has one; None where the server has none."""
    if server is None:
        return None
    return server + ("" if build in (None, DEFAULT) else f".{build}") + config_suffix(stack)


def config_suffix(stack: Sequence[str]) -> str:
    """Returns what a config adds to a label: nothing for the usual one."""
    if list(stack[:1]) == ["default"] and all(is_setting(text) for text in stack[1:]):
        stack = stack[1:]
        if not stack:
            return ""
    names = [
        Path(name).stem if not is_setting(name) and ("/" in name or name.endswith(".conf")) else name
        for name in stack
    ]
    return "." + ".".join(names or ["own"])
