"""Finds the fewest planner settings under which a server chooses the plan of another server.

Only EXPLAIN is used. First come settings that differ between the servers, then those that forbid the kinds
of nodes which the wanted plan has not, then differing ones of the executor, too, then a search that goes on
from the settings whose plans are nearest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from pgstrata.judge.plan_detail import distance, nodes_of
from pgstrata.measure.explainer import Explainer, set_local

MOST_ASKED = 600
"""Plans that are asked for in one search."""

SECONDS = 10.0
"""In which a search ends."""

WIDTH = 5
"""Plans from which a search goes on."""

DEEPEST = 4
"""Settings that a search combines at most, before needless ones are dropped."""

_PLANNER = "Query Tuning"
_RESOURCES = "Resource Usage"
_OF_OTHERS = ("maintenance_", "vacuum_", "autovacuum_", "logical_decoding_")
"""Beginnings of settings that queries do not use."""
_PLANS = {"work_mem", "hash_mem_multiplier", "max_parallel_workers_per_gather", "max_parallel_workers"}
"""Settings outside the planner's categories that decide about plans."""

_EXECUTED = {"work_mem", "hash_mem_multiplier"}
"""Of these, those that also decide how a plan is executed: what they bring is not the planner's alone."""

_NEVER = {"geqo_seed", "plan_cache_mode", "cursor_tuple_fraction", "default_statistics_target"}
"""Settings that do not change the plan of a query that is sent as text, or by chance only."""

_KINDS = {
    "Seq Scan": "enable_seqscan",
    "Index Scan": "enable_indexscan",
    "Index Only Scan": "enable_indexonlyscan",
    "Bitmap Heap Scan": "enable_bitmapscan",
    "Tid Scan": "enable_tidscan",
    "Nested Loop": "enable_nestloop",
    "Hash Join": "enable_hashjoin",
    "Merge Join": "enable_mergejoin",
    "Sort": "enable_sort",
    "Incremental Sort": "enable_incremental_sort",
    "Memoize": "enable_memoize",
    "Materialize": "enable_material",
    "Gather": "max_parallel_workers_per_gather",
    "Gather Merge": "max_parallel_workers_per_gather",
    "Hashed": "enable_hashagg",
}
"""The setting that forbids a kind of node, or a strategy of Aggregate."""

Settings = Mapping[str, str]


@dataclass(frozen=True)
class Setting:
    """A setting that a session may change (pg_settings)."""

    name: str
    value: str
    kind: str
    category: str
    low: float | None
    high: float | None

    @property
    def decides_plans(self) -> bool:
        """Whether the planner looks at it."""
        return (self.category.startswith(_PLANNER) or self.name in _PLANS) and self.name not in _NEVER

    @property
    def concerns_resources(self) -> bool:
        """Whether the executor may look at it."""
        of_others = "Vacuum" in self.category or self.name.startswith(_OF_OTHERS)
        return self.category.startswith(_RESOURCES) and not of_others


def settings_of(connection: psycopg.Connection[Any]) -> dict[str, Setting]:
    """Returns the settings that a session may change and that concern how queries are planned or executed."""
    rows = connection.execute(
        "SELECT name, setting, vartype, category, min_val, max_val FROM pg_catalog.pg_settings "
        "WHERE context = 'user' AND (category LIKE 'Query Tuning%' OR category LIKE 'Resource Usage%')"
    ).fetchall()
    return {
        name: Setting(name, setting, kind, category, _number(low), _number(high))
        for name, setting, kind, category, low, high in rows
    }


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def differing(old: Mapping[str, Setting], new: Mapping[str, Setting]) -> dict[str, str]:
    """Returns the settings that the servers have different values of, with the old ones; what the old server
    did not know is off."""
    known = {
        name: old[name].value
        for name, setting in new.items()
        if name in old and old[name].value != setting.value
    }
    unknown = {
        name: "off"
        for name, setting in new.items()
        if name not in old and setting.kind == "bool" and setting.value == "on" and setting.decides_plans
    }
    return known | unknown


def statements(settings: Settings) -> tuple[str, ...]:
    """Returns the statements that set these for a transaction."""
    return tuple(set_local(name, value) for name, value in settings.items())


@dataclass(frozen=True)
class OldPlan:
    """What a search came to. settings: under which the wanted plan is chosen, None where none were found."""

    settings: dict[str, str] | None
    asked: int


class _Search:
    def __init__(
        self,
        explainer: Explainer,
        wanted: Sequence[str],
        wanted_kinds: set[str],
        new: Mapping[str, Setting],
        before: Sequence[str],
        check: Callable[[], None],
    ) -> None:
        self._explainer, self._wanted, self._kinds = explainer, wanted, wanted_kinds
        self._new, self._before, self._check = new, before, check
        self._end = time.monotonic() + SECONDS
        self._seen: dict[tuple[tuple[str, str], ...], tuple[str, ...] | None] = {}

    @property
    def is_over(self) -> bool:
        """Whether no more plans may be asked for."""
        return len(self._seen) >= MOST_ASKED or time.monotonic() >= self._end

    def detail(self, settings: Settings) -> tuple[str, ...] | None:
        key = tuple(sorted(settings.items()))
        if key not in self._seen:
            self._check()
            self._seen[key] = self._explainer.detail([*self._before, *statements(settings)])
        return self._seen[key]

    def brings_it(self, settings: Settings) -> bool:
        return self.detail(settings) == tuple(self._wanted)

    def reduced(self, settings: Settings) -> dict[str, str]:
        """Returns the settings without those that are not needed."""
        left = dict(settings)
        for name in list(left):
            less = {key: value for key, value in left.items() if key != name}
            if self.brings_it(less):
                left = less
        return left

    def forbidden(self) -> dict[str, str] | None:
        """Forbids, again and again, the kinds of nodes that the plan has and the wanted one has not."""
        settings: dict[str, str] = {}
        for _ in range(len(_KINDS)):
            try:
                plan = self._explainer.plan([*self._before, *statements(settings)])
            except psycopg.Error:
                return None
            names = {_KINDS[kind] for kind in kinds_of(plan) - self._kinds} & self._new.keys()
            more = {name: "off" if self._new[name].kind == "bool" else "0" for name in names}
            if not more.keys() - settings.keys():
                break
            settings |= more
        return settings if settings and self.brings_it(settings) else None

    def walked(self, steps: Sequence[tuple[str, str]], start: Settings) -> dict[str, str] | None:
        """Goes on from the nearest plans, a setting more each time."""
        beam: list[dict[str, str]] = [dict(start)]
        for _ in range(DEEPEST):
            plans: dict[tuple[str, ...], dict[str, str]] = {}
            for settings in beam:
                for name, value in steps:
                    if name in settings:
                        continue
                    if self.is_over:
                        return None
                    candidate = {**settings, name: value}
                    detail = self.detail(candidate)
                    if detail == tuple(self._wanted):
                        return candidate
                    if detail is not None:
                        plans.setdefault(detail, candidate)
            seen = {self.detail(settings) for settings in beam}
            nearest = sorted(
                (plan for plan in plans if plan not in seen), key=lambda plan: distance(plan, self._wanted)
            )
            beam = [plans[plan] for plan in nearest[:WIDTH]]
        return None


def find_old_plan(
    explainer: Explainer,
    wanted: Sequence[str],
    wanted_plan: Any,
    old: Mapping[str, Setting],
    new: Mapping[str, Setting],
    before: Sequence[str] = (),
    check: Callable[[], None] = lambda: None,
) -> OldPlan:
    """Returns settings under which the server makes the wanted plan.

    wanted, wanted_plan: details of the plan, and the plan itself; old, new: settings of both servers; before:
    statements that are executed before; check: raises when the user has asked for the end. Raises
    psycopg.Error where the connection breaks.
    """
    begun = explainer.asked
    search = _Search(explainer, wanted, kinds_of(wanted_plan), new, before, check)
    values = {name: value for name, value in differing(old, new).items() if new[name].decides_plans}
    settings: dict[str, str] | None = None
    if search.brings_it({}):
        settings = {}
    elif (planned := {k: v for k, v in values.items() if k not in _EXECUTED}) and search.brings_it(planned):
        settings = planned
    if settings is None:
        settings = search.forbidden()
    if settings is None and values and search.brings_it(values):
        settings = values
    if settings is None:
        steps = [*values.items(), *_steps(new)]
        settings = search.walked(list(dict.fromkeys(steps)), {})
    if settings is None and values and not search.is_over:
        settings = search.walked(_steps(new), values)
    if settings:
        settings = search.reduced(settings)
    return OldPlan(settings, explainer.asked - begun)


def kinds_of(plan: Any) -> set[str]:
    """Returns the kinds of nodes of a plan that a setting can forbid."""
    nodes = [node.plan for node in nodes_of(plan)]
    kinds = {str(node.get("Node Type")) for node in nodes}
    return (kinds | {str(node.get("Strategy")) for node in nodes}) & _KINDS.keys()


def _steps(new: Mapping[str, Setting]) -> list[tuple[str, str]]:
    """Returns the settings that a search tries, those that switch something first."""
    switches = [(s.name, "off" if s.value == "on" else "on") for s in new.values() if s.kind == "bool"]
    numbers = [(s.name, value) for s in new.values() if s.kind != "bool" for value in _values(s)]
    return [step for step in [*switches, *numbers] if new[step[0]].decides_plans]


def _values(setting: Setting) -> Iterator[str]:
    if setting.kind not in ("integer", "real"):
        return
    try:
        now = float(setting.value)
    except ValueError:
        return
    if setting.name == "max_parallel_workers_per_gather":
        wanted = [0.0, 1.0, 2.0, 4.0]
    elif setting.name.endswith("_limit"):
        wanted = [1.0, 4 * now]
    else:
        wanted = [0.0, now / 10, now / 2, 2 * now, 10 * now, 100 * now]
    for value in dict.fromkeys(wanted):
        least, most = setting.low, setting.high
        if value == now or (least is not None and value < least) or (most is not None and value > most):
            continue
        yield str(round(value)) if setting.kind == "integer" else f"{value:.6g}"


__all__ = ["OldPlan", "Setting", "differing", "find_old_plan", "kinds_of", "settings_of", "statements"]
