"""The order of tests that run beside each other: files that take longest begin first.

`make test-python` gives whole files to its workers in this order: servers of a module are started once, and
no long file is left over at the end. It prints the files that took longest: where these are others than here,
this list is old.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from support.forks import cpu_seconds

TESTS = Path(__file__).parents[1]

CPU_SECONDS = "cpu_seconds"
"""The attribute of a report, which workers send with it."""

LONGEST_FIRST = (
    "measure/turns/test_causes.py",
    "search/bisect/test_faults.py",
    "measure/turns/test_windows.py",
    "traffic/upgrade/test_upgrade.py",
    "loads/test_server.py",
    "search/bisect/test_bisect.py",
    "measure/test_resume.py",
    "cli/test_compare_queries.py",
    "tproc_c/test_server.py",
    "count/test_count.py",
    "search/patch/test_patch.py",
    "cli/test_faults.py",
    "workload/custom/test_server.py",
    "measure/test_prompt_end.py",
    "watch/test_watch.py",
    "cli/test_demo.py",
    "traffic/replay/test_alone.py",
    "measure/turns/test_faults.py",
    "fleet/test_campaign.py",
    "assist/test_mcp.py",
    "cli/test_run.py",
    "server/connect/test_hostile_server.py",
    "measure/turns/test_queries.py",
    "cli/test_curve.py",
    "tpch/test_server.py",
    "measure/turns/test_comparison.py",
    "measure/test_replicas.py",
    "cli/test_query_bounds.py",
    "measure/test_loaded.py",
    "workload/custom/test_stops.py",
    "stats/test_scheduler.py",
    "safety/test_accidents.py",
    "measure/turns/test_frozen.py",
    "fleet/test_other_servers.py",
    "traffic/replay/test_server.py",
    "test_api.py",
    "cli/test_queries.py",
    "measure/test_kinds_of_machine.py",
    "fleet/test_attacks.py",
    "cli/test_ci.py",
    "cli/test_noise.py",
    "safety/test_interrupts.py",
    "traffic/test_wrapped.py",
    "workload/pgbench/test_server.py",
)
"""Paths below tests, by how long their tests take together."""

_PLACES = {name: place for place, name in enumerate(LONGEST_FIRST)}


def place_in_order(item: pytest.Item) -> int:
    """Returns where the file of a test stands among those that take longest, or a place behind them all."""
    path = item.path
    name = path.relative_to(TESTS).as_posix() if path.is_relative_to(TESTS) else ""
    return _PLACES.get(name, len(_PLACES))


class Durations:
    """A plug-in that says at the end how long tests took together, and the files that took longest."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._cpu: dict[str, float] = {}
        self._before = _cpu_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Notes the CPU time of this process, and of what it has started, since the report before."""
        report = yield
        now = _cpu_seconds()
        setattr(report, CPU_SECONDS, max(now - self._before, 0.0))
        self._before = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds a part of a test: its preparation, itself or what follows."""
        file = report.nodeid.partition("::")[0]
        self._seconds[file] = self._seconds.get(file, 0.0) + report.duration
        self._cpu[file] = self._cpu.get(file, 0.0) + getattr(report, CPU_SECONDS, 0.0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Writes the sum and the list."""
        for line in self.lines():
            terminalreporter.write_line(line)

    def lines(self, most: int = 40) -> Iterator[str]:
        """Yields nothing where one file ran: its tests are known by `--durations`."""
        if len(self._seconds) > 1:
            sums = f"{sum(self._seconds.values()):.0f} s, {sum(self._cpu.values()):.0f} s of CPU"
            yield f"All tests together: {sums}. Files that took longest, and their CPU:"
            for file in sorted(self._seconds, key=self._seconds.__getitem__, reverse=True)[:most]:
                yield f"{self._seconds[file]:6.0f} s {self._cpu[file]:6.0f} s {file}"


def _cpu_seconds() -> float:
    """Returns the CPU time of this process and of what it has waited for, forks of its server among them."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system + cpu_seconds()
