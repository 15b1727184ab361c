"""The queries: their plans, a power run on one connection and a throughput run on several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pgstrata.server.features import Feature, Features
from pgstrata.tpc import reference
from pgstrata.tpc.benchmark import Benchmark
from pgstrata.tpc.dialect import understood_by
from pgstrata.tpc.judge import judge
from pgstrata.tpc.options import TpcOptions
from pgstrata.tpc.source import queries, tables
from pgstrata.workload.core.language import Op, Phase, Sql, Step, Work, WorkContext
from pgstrata.workload.core.queries import Digesting, query_step
from pgstrata.workload.core.recorded import explained

_SUMMARIES = {
    "power": "The queries one after the other on one connection.",
    "throughput": "The queries on several connections, on each in another order.",
}


@dataclass(frozen=True)
class QueryRuns:
    """The steps that execute queries. order: of the queries in a stream by its number; 0 is the power run."""

    benchmark: Benchmark
    options: TpcOptions
    server: Features
    order: Callable[[int], Sequence[int]]

    def answers(self, state: str = "") -> list[Phase]:
        """Returns the work that asks DuckDB for the answers not known yet. state: as `reference.answer` has
        it."""
        o = self.options

        def ask(context: WorkContext) -> dict[str, object]:
            reference.make(self.benchmark, o.scale, o.numbers, context.say, context.check, state)
            return {}

        return [Work(f"answers {state}".strip(), ask)] if o.answers else []

    def before(self) -> list[Phase]:
        """Returns plans and warm-up, which are not compared."""
        o, phases = self.options, list[Phase]()
        if o.plans != "none" and self.server.has(Feature.EXPLAIN_JSON):
            how = "ANALYZE, BUFFERS, TIMING OFF, " if o.plans == "analyze" else ""
            explaining = self._pass(o.numbers, f"EXPLAIN ({how}FORMAT JSON) ")
            phases.append(self._step("plans", [explaining], explained(o.time_limit), measured=False))
        if o.warmup:
            phases.append(self._step("warm-up", [self._pass(o.numbers) * o.warmup], None, measured=False))
        return phases

    def power(self, state: str = "") -> list[Phase]:
        """Returns the phase with the queries on one connection; none without passes."""
        streams = [self._pass(self.order(0)) * self.options.passes]
        return [self._step("power", streams, self._digest(state))] if self.options.passes else []

    def throughput(self, state: str = "") -> list[Phase]:
        """Returns the phase with the queries on several connections; none without streams."""
        streams = [self._pass(self.order(n)) for n in range(1, self.options.streams + 1)]
        return [self._step("throughput", streams, self._digest(state))] if streams else []

    def _digest(self, state: str) -> Digesting:
        o = self.options
        return judge(self.benchmark, o.scale, o.time_limit, answers=o.answers, state=state)

    def _pass(self, numbers: Sequence[int], prefix: str = "") -> list[Op]:
        texts = {n: understood_by(text, self.server) for n, text in queries(self.benchmark).items()}
        return [
            Sql.verbatim(prefix + texts[n], name=f"q{n:02d}", record=True, on_error="record") for n in numbers
        ]

    def _step(
        self, name: str, streams: Sequence[list[Op]], digest: Digesting | None, *, measured: bool = True
    ) -> Step:
        benchmark, o = self.benchmark, self.options
        whole = benchmark.query_seconds * (0.03 + o.scale) * len(streams[0]) / benchmark.queries
        step = query_step(
            name,
            streams,
            o.time_limit,
            seconds=whole * len(streams) ** 0.5,
            digest=digest,
            group=f"{benchmark.title} queries",
            tables=list(tables(benchmark)),
            measured=measured,
        )
        return replace(step, summary=_SUMMARIES.get(name, ""))


__all__ = ["QueryRuns"]
