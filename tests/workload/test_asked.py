"""Workloads follow what a server has, not the number of its version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pgstrata.server.features import Features
from pgstrata.server.find.acquire import acquire
from pgstrata.tpc.dialect import understood_by
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Phase, Step
from pgstrata.workload.core.options import NotInVersionError


def calling_itself(version: str, number: int) -> Features:
    """The features of a server whose version has another number."""
    return Features(number, acquire(f"pg:{version}").programs)


def phases(name: str, server: Features, **options: Any) -> list[Phase]:
    workload = catalog.find(name)
    result: list[Phase] = workload.phases(workload.Options.model_validate(options), server)
    return result


@pytest.mark.server
@pytest.mark.parametrize("name", ["insert", "pgbench"])
def test_keys_of_partitions_are_those_the_server_has(name: str) -> None:
    with pytest.raises(NotInVersionError, match="needs PostgreSQL 11 or later"):
        phases(name, calling_itself("10", 120000), partitions=2)
    assert phases(name, calling_itself("12", 100000), partitions=2)


@pytest.mark.server
def test_an_old_number_takes_nothing_away() -> None:
    late = calling_itself("17", 70400)
    for name in ("insert", "sysbench", "pgbench", "fulltext", "vector", "tpcds", "tpch"):
        assert phases(name, late)
    query = "SELECT concat(a, b) c, stddev_samp(d) e FROM t ORDER BY 1 NULLS FIRST"
    assert understood_by(query, late) == query
    assert understood_by(query, Features(70400)) != query


@pytest.mark.server
def test_a_dump_sets_what_the_server_has(tmp_path: Path) -> None:
    dump = tmp_path / "dump.sql"
    dump.write_text(
        "--\n-- PostgreSQL database dump\n--\n\n"
        "SET transaction_timeout = 0;\nSET row_security = off;\nCREATE TABLE public.t (a integer);\n"
    )

    def settings(server: Features) -> set[str]:
        schema = next(p for p in phases("custom", server, setup=[str(dump)]) if isinstance(p, Step))
        texts = str([script.spec() for role in schema.roles for script in role.scripts])
        return {name for name in ("transaction_timeout", "row_security") if name in texts}

    assert settings(calling_itself("9.6", 180000)) == {"row_security"}
    assert settings(calling_itself("17", 90600)) == {"row_security", "transaction_timeout"}
    assert settings(Features(90600)) == {"row_security"}
