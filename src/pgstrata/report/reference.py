"""Makes `docs/reference/results.md`, run folders and SQL over them, from the types of the store.

python -m pgstrata.report.reference > docs/reference/results.md
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from typing import Any

import msgspec

from pgstrata.judge.curves import CurveVerdict
from pgstrata.judge.operation_parts import OperationPartRecord, OperationPartsRecord
from pgstrata.judge.profiles import CpuChangeRecord, ProfileVerdictRecord
from pgstrata.judge.query_parts import PartRecord, PartsRecord
from pgstrata.stats.metrics import METRICS
from pgstrata.store.columns import RUNS, STEPS
from pgstrata.store.record import Metrics, RunRecord, StepRecord
from pgstrata.store.tables import TABLES


def keys_of(record: type[msgspec.Struct]) -> str:
    """Returns the keys of an object."""
    return f"{{{', '.join(field.encode_name for field in msgspec.structs.fields(record))}}}"


HEAD = """\
# Results: run folders and SQL over them

<!-- Made from the types: `python -m pgstrata.report.reference > docs/reference/results.md` -->

    pgstrata query "select variant, step, rate, rate_unit from steps where measured"

    results/
    └── <campaign>/<variant>/<workload>/<repeat>-<run id>/
        ├── run.json             identity, versions, host, config, every step's summary
        ├── series.parquet       by second and role
        ├── host.parquet         by second: CPU, context switches, disk, memory
        ├── backends.parquet     CPU seconds by connection
        ├── pgstat.parquet       counters of pg_stat_* before and after each step
        ├── histograms.json      HDR, base64: {step: {role: base64}}
        ├── histograms.parquet   the same in the field's response-time buckets
        ├── statements.parquet, lateness.parquet              of a replay
        ├── queries.parquet      each execution of a recorded query
        ├── profiles.parquet     samples by batch, slice or round, and by function
        ├── lag.parquet          by second: how far a replica was behind
        ├── instructions.parquet, functions.parquet, calls.parquet   of a run that counted
        ├── plans.json           query plans: {step: [{name, plan}]}
        ├── settings.json        SHOW ALL
        ├── defaults.json        defaults of the version: {setting: {value, unit}}
        ├── SHA256SUMS           of all files here but run.json: `sha256sum -c SHA256SUMS`
        ├── server.log.gz
        ├── profile/<nn>-<step>-<role>.folded.gz   stacks of a role's backends, where profiled
        └── spec/<nn>-<step>.json   exactly what the driver read

A run is built in a hidden sibling, `.<repeat>-<run id>.building`, and renamed into place after fsync: a
folder that is there is whole. Steps that outlive a stopped run lie in `.<repeat>.kept/`
([runs](../explanation/runs.md)). A run that another of the same key replaced is `.<repeat>-<run
id>.superseded`: on disk, in no table. The report of a campaign is in `<campaign>.report/`.

`pgstrata run` locks the results folder (`.lock`) while it writes; reading needs no lock. Folders of
different machines can be copied together; a run copied twice counts once. In folder names all but letters,
digits, `.`, `_` and `-` is replaced, with a digest behind `~`; `run.json` has the name.

A damaged folder is left out and named with the reason, never deleted.

## The catalogue

From twenty runs on `.catalogue` has the rows of `runs` and `steps`, so that listing opens no run
([store-scale](../../benchmarks/results/store-scale.md)); it can be deleted at any time.

## run.json

`format` is 2. Times are ISO 8601 in UTC, durations seconds, sizes bytes, rates in `rate_unit`, else per
second. A number that is not known is null; *optional* keys are absent where there is nothing to say. A
run that counted instructions has a workload with `.counted` behind its name, no steps, and `counted`.
"""

RUN = {
    "format": "2",
    "run_id": "unique over all machines",
    "campaign": "identity, with the next three",
    "variant": "label of the variant",
    "workload": "label of the workload in the campaign",
    "repeat": "from 1",
    "started": "start of the run",
    "finished": "its end",
    "steps": "in their order: below",
    "status": "`failed`: its steps are those measured until then, and it is measured again; `unable`: the"
    " version cannot run the workload, nothing was started",
    "error": "why it failed",
    "pgstrata_version": "release that measured",
    "driver_version": "release of the driver",
    "server": "`managed`: false of `dsn:`; `built`: of a source tree, its key, origin, tree, compiler, "
    "flags, patches and compatibility patches (`mended`)",
    "config": "files (`fragments`), settings, and what was left out (`dropped`) or `mapped`, with reasons",
    "env": "of the server's environment",
    "initdb": "options of initdb",
    "memory": "most bytes the server may use; null: no limit",
    "cpus": "numbers of the CPUs they use; `[]`: all",
    "workload_name": "name in the catalog",
    "options": "every option of the workload, defaults included",
    "seed": "of the random streams",
    "order": "order in which the campaign's runs were made",
    "variant_order": "place of the variant in the campaign, from 0",
    "base": "base that the campaign names; null: its first variant",
    "host": "the machine",
    "timings": "seconds outside measurement: `initdb`, `start`, `setup`, `settle`, `connect`, `observe`, "
    "`stop`, `store`",
    "sizes": "at the end",
    "facts": "what a workload found out about its data, by workload",
    "comparison": "runs with the same `id` took turns; `freezer`: what stopped processes; `timers`: "
    "settings of the server's clock that were others; `layout`: `shared` or `own`; "
    "`judge`: response times that have verdicts, and their `times_margin`",
    "counted": "what was counted: engine, tool, event, margin, settings, steps by role and start, "
    "`left_out`, `processes`",
    "attempts": "when each attempt began, of a run that was stopped and continued",
    "loaded": "key of the kept data it began with",
    "through": "the pooler: `pgbouncer`, `pgpool2`, `odyssey` or an address",
    "storage": "where data and log lay, and what delayed them",
    "machine": "of a fleet: the machine and its qualification",
    "replicas": "of a variant with a replica",
    "campaign_file": "the campaign's file, as the command named it",
    "extensions": "of the database when the run began: name and version",
    "network_closed": "the server had no network but a loopback device",
    "imported": "figures of another program; such a run has no steps",
}

STEP = {
    "name": "unique in its run",
    "order": "from 1; points that were added to a curve come last",
    "group": "steps that differ in a number only",
    "measured": "false: a load or a warm-up, never compared",
    "reads_only": "it leaves the data as it is",
    "started": "time at which its clock started",
    "seconds": "measured time",
    "rate": "the headline, of this run by itself",
    "rate_unit": "unit of the rate",
    "role": "the role that the headline counts",
    "operations": "of that role",
    "rows": "of that role",
    "target_rate": "rows/s asked of the background writers",
    "background_rate": "the smallest rows/s among them",
    "sla_met": "whether they reached 95 % of the target; null: no target",
    "engine": "who moved the bytes; `none`: a server was started",
    "driver_cpu_seconds": "CPU of the driver",
    "driver_peak_rss_bytes": "its memory",
    "server_cpu_seconds": "CPU of all processes of the cluster; null of `dsn:`",
    "roles": "by name; `rate` is rows/s where the role has a target, else operations/s",
    "metrics": "the metric line: below",
    "rate_percentiles": "of the headline's seconds, slowest end: 99 % were at least as fast as `p99`",
    "wal_bytes": "written during the step",
    "sizes": "after the step",
    "tables": "after the step: rows, dead rows, definitions of indexes, bloat",
    "events": "checkpoints and autovacuums of the log, in seconds since the clock started",
    "plans": "query plans; `generic`: made for any values",
    "notes": "what could not be observed",
    "host_cpu_seconds": "of the whole host, the driver's included",
    "pooler_cpu_seconds": "of the pooler that pgstrata started",
    "replica": "of a variant with a replica: whether it was measured (`served`), its CPU and lag",
    "error": "why it broke off; figures are those until then",
    "attempt": "which attempt it is from",
    "turns": "how variants took turns",
    "slices": "the turns of this variant. `waited`: share of its time in which its processes waited for a"
    " CPU; `other_load`: of the CPUs, by other programs, where `waited` is not known; "
    "`cpu_seconds`: of the backend of a single query",
    "blocks": "last pair of each batch, or of each round of frozen turns",
    "part_seconds": "rows of each role that the table `series` has of each part of the step",
    "span": "how many times as much as before the first look could be measured at most",
    "slice_seconds": "length of slices that grew with the transactions; each lasts until its last has ended",
    "disturbance": "shares of other programs, other guests, waiting (/proc/pressure/cpu) and a quota; "
    "`allowed`: `other_load` of the campaign",
    "cpus": "CPUs that all variants shared",
    "answers": "of a replay in rounds what statements answered, by digest, or why not; `written`: rows that "
    "changes wrote",
    "one_start": "its server lived through all slices, which cannot tell what it was by chance",
    "waits": "by role and event, share of the role's time; `running` where it did not wait",
    "waits_cost": "what sampling took",
    "profile": "by role: file with stacks, samples, event; `parts`: batches, slices or rounds; "
    "`note`: what was missing",
    "replay": "of a replay: lag (`lateness`), failures of then and now by SQLSTATE, executions without a row",
    "judged_load": "of a compared load, all executions together; `sync_seconds` are no part of `seconds`",
    "alone": "of a replay in rounds: statements executed alone, with their turns",
    "query_pairs": "of recorded queries: turns of each, the shortest execution before them, `rejected` or"
    " `limited`",
    "summary": "what the step does, in one sentence",
    "query_causes": "of queries that differ: plans, what brings the base's plan, turns, remedies",
}

METRIC_HEAD = """\
### The metric line

Names as in the Insert Benchmark's result tables. KB, MB and GB are 1024-based. `q` is a query (an
operation of the headline); in steps judged by rows a row. Costs per operation in the report are divided
by `rate` per second × `seconds`.

| key | the field's name | meaning |
|---|---|---|
"""

AFTER_METRICS = """
What to hold against published tables:

| published | here | which differs from |
|---|---|---|
"""

PUBLISHED = (
    (
        "sysbench `cpu/o`",
        "`cpuo`: user and system of the host, client included, in % of all CPUs ÷ rate",
        "`cpu µs/o`: the server's processes alone",
    ),
    ("sysbench `scan`, 1000 rows/s of a client", "rate ÷ 1000 ÷ clients", "the rate of all clients"),
    (
        "Insert Benchmark `cpupq`",
        "`cpupq`: µs of the host's CPU, client included",
        "`server_cpu_seconds` ÷ operations",
    ),
    (
        "`max op`",
        "`maxop`: inserts in l.*, queries in q*",
        "`maxany`, deletes and background writes included",
    ),
    (
        "`p50`, `p99`",
        "`p50c`, `p99c`: nearest rank, of the mean client; the field looks at the first",
        "`p50`, `p99`, `rate_percentiles`",
    ),
    ("largest response time of each second", "`max_seconds` in the view `series`", ""),
)
"""Figures of published tables, those to hold against them, and those with a similar name."""

CURVE_HEAD = """
## Curves in JSON

`curves` of `compare --format json`, and of `comparisons` in `run --format json`:

"""

CURVE = {
    "workload": "label",
    "steps": "name without `-cN`",
    "sentence": "the verdict",
    "cause": "the wait event (`waits`) that grew at each slower point: by 10 % of the time, and twice as much"
    " as any other; else empty",
    "points": "words adjusted for their number",
    "base_knee": "with its 95 % interval; `clients` null: the rate grows to the end",
    "other_knee": "likewise",
}

PARTS = f"""
## Parts of a query in JSON

`parts` of a single query that differs, in the same places, and of a slower statement of `upgrade`:
`{keys_of(PartsRecord)}`.
Means of executions over `pairs`; `parts` are `{keys_of(PartRecord)}`:
`planning` (apart, or in `execution`) and `execution` on a CPU, `files`: reading them, `cpu_wait`,
`other_waits`. `unexplained_seconds` is null up to 10 %.

## Parts of an operation in JSON

`operation_parts` of a step that is proven slower or faster, likewise:
`{keys_of(OperationPartsRecord)}`.
`base_seconds`: of one client; `other_seconds`: that ÷ the ratio; `reason`: why there are no parts. `parts`,
of whole steps, are `{keys_of(OperationPartRecord)}`:
`connections` and `driver` on a CPU; `cpu_wait`; `running`: both, where the CPU is not known; `locks`,
`lwlocks`, `io`, `client` (the driver) and `other` waits; `error_seconds`: standard.
"""

PROFILES = f"""
## Profiles in JSON

`profiles` of a step that was profiled on both sides, likewise, a list by role:
`{keys_of(ProfileVerdictRecord)}`.
`whole` is the CPU of an operation; `functions`, `phases` (parts of the server) and `files` each make it up,
of `{keys_of(CpuChangeRecord)}`.
`word`: `more`, `less` or `unclear`; `reason`: why nothing is proven.
"""

BEFORE_VIEWS = """
### Profiles

A `.folded.gz` has a line per stack: frames from the outermost with `;` between, a blank, the sum of perf's
periods (nanoseconds of `cpu-clock`).

## Views

`pgstrata query` runs any SQL of DuckDB over these views. Columns are added, never renamed or removed. A query
reads the results folder and nothing else, and can write nowhere. An empty folder has the same views.
`pgstrata query "describe steps"` prints types.
"""

VIEWS = {
    "runs": "`server` is its spec, `host` the host's name, `error` the message of a failed run; times are"
    " UTC",
    "steps": "`operations`, `rows` and response times are those of the headline's role; `status` is that "
    "of the run; `other_load`, `stolen`, `pressure`, `throttled` as in `disturbance`; `waited`: share of "
    "the slices' time in which processes waited for a CPU; `cpus`: those all variants shared (`0,1`)",
    "series": "a row per second and role; `seconds` is less than 1 for the last; `histogram` is HDR in "
    "base64",
    "histograms": "the field's ten buckets, empty ones too; `share` is 0 … 1 of the role's responses; "
    "`up_to_seconds` is null for the last",
    "backends": "a row per connection; role `server` with `client` null for the rest of the cluster",
    "host": "CPU in seconds of CPU per second, the rest per second or as it stood",
    "pgstat": "every numeric counter of the views pg_stat_* that a version has",
    "lateness": "a row per second of a replay: statements sent, and how late the replay was",
    "statements": "a row per statement of a replay and round (`part`, from 1; 0: not in turns); seconds "
    "from sending to the whole answer",
    "queries": "a row per execution of a recorded query; `stream` counts connections, "
    "`execution` passes; `seconds` is twice the limit where `timed_out`; `answer` is `same`, `different`,"
    " `not run` or null; bytes are known in steps that explain",
    "profiles": "samples of perf by batch, slice or round (`part`, from 1; 0: in one piece), part of the "
    "server and innermost function, null beyond the 1,000 largest",
    "lag": "how far a replica was behind, the largest of each second; `lag_seconds` is null before 10",
    "instructions": "a row per start of a counted step and role; figures are per operation; "
    "`timed_instructions` are left out of the verdict",
    "functions": "instructions per operation in each function alone and with what it called "
    "(`inclusive`), means over starts; `object` is the binary or library",
    "files": "instructions per operation by source file, means over starts; `file` is null where the binary "
    "has no debug information, and no rows are there where all is without",
    "calls": "who called whom how often per operation, and the instructions of that, callees included",
}

TAIL = """
```sql
-- of runs that did not take turns; of others: pgstrata compare
select step, geomean(if(variant like 'pg17%', rate, null)) / geomean(if(variant like 'pg12%', rate, null))
from steps where measured and status = 'done' group by step;
```

From Python: [guide](../guides/python.md).
"""


def page() -> str:
    """Returns the page as Markdown."""
    parts = [HEAD, "\n", *_record(RunRecord, RUN), "\n### A step\n\n", *_record(StepRecord, STEP)]
    parts += [
        "\n",
        METRIC_HEAD,
        *(f"| `{k}` | {name} | {meaning} |\n" for k, (name, meaning) in METRICS.items()),
    ]
    parts += [AFTER_METRICS, *(f"| {' | '.join(row)} |\n" for row in PUBLISHED), BEFORE_VIEWS, "\n"]
    for view, columns in columns_of_views().items():
        parts.append(f"- `{view}({', '.join(columns)})` — {VIEWS[view]}\n")
    parts += [TAIL, CURVE_HEAD, *_record(CurveVerdict, CURVE), PARTS, PROFILES]
    return "".join(parts)


def columns_of_views() -> dict[str, list[str]]:
    """Returns the names of the columns of each view."""
    first = {"runs": [name for name, *_ in RUNS], "steps": [name for name, *_ in STEPS]}
    return first | {table: list(columns) for table, columns in TABLES.items()}


def _record(record: type[msgspec.Struct], meanings: dict[str, str]) -> Iterator[str]:
    yield "| key | value | meaning |\n|---|---|---|\n"
    hints = typing.get_type_hints(record)
    fields = {field.encode_name: field for field in msgspec.structs.fields(record)}
    for name, meaning in meanings.items():
        field = fields.pop(name)
        optional = "" if field.required else " *optional*"
        yield f"| `{name}` | {_kind(hints[field.name])}{optional} | {meaning} |\n"
    if fields:
        raise KeyError(f"no meaning of {', '.join(fields)} of {record.__name__}")


_ELSEWHERE = {StepRecord: "[step](#a-step)", Metrics: "[metrics](#the-metric-line)"}
_SIMPLE = {str: "text", int: "integer", float: "number", bool: "boolean", Any: "any"}


def _kind(hint: Any) -> str:
    """Returns the type of a value in words; of an object its keys."""
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if hint in _ELSEWHERE:
        return _ELSEWHERE[hint]
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return f"`{keys_of(hint)}`"
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _kind(inner[0])
    if origin is typing.Literal:
        return ", ".join(f"`{value}`" for value in inner)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_kind(branch) for branch in inner if branch is not type(None))
    if origin is tuple:
        return f"list of {_kind(inner[0])}"
    if origin is dict:
        return f"by name {_kind(inner[1])}"
    return str(getattr(hint, "__name__", hint))


if __name__ == "__main__":
    print(page(), end="")
