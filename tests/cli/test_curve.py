"""A range of clients measured on a real server: one step for each doubling, and one sentence on the curve."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from support.program import Program

CAMPAIGN = """
name = "curve"
data_dir = "data"
order = "interleaved"
placement = "free"
slice_seconds = 0.1
other_load = 1

[[variants]]
server = "{server}"
label = "a"

[[variants]]
server = "{server}"
label = "b"

[[workloads]]
name = "pgbench"
[workloads.options]
scale = 1
builtin = "select-only"
modes = "prepared"
clients = "{clients}"
seconds = 1
warmup = 0
"""


@pytest.mark.timeout(300)
def test_a_range_of_clients_becomes_a_curve(place: Path, pgstrata: Program, pg17: Server) -> None:
    file = place / "curve.toml"
    file.write_text(CAMPAIGN.format(server=pg17.spec, clients="1..4"))
    done = pgstrata("run", file)
    assert done.returncode == 0, done.stderr
    assert "\nselect-only-prepared, b against a: " in done.stdout
    page = (place / "results" / "curve.report" / "index.html").read_text()
    assert 'id="curves-pgbench"' in page
    compared = pgstrata("compare", "a", "b").stdout
    assert [f"select-only-prepared-c{n}" in compared for n in (1, 2, 3, 4)] == [True, True, False, True]
    assert "\npgbench/select-only-prepared: " in compared


def test_a_range_that_is_none_ends_in_one_sentence(place: Path, pgstrata: Program, pg17: Server) -> None:
    file = place / "curve.toml"
    file.write_text(CAMPAIGN.format(server=pg17.spec, clients="1..many"))
    done = pgstrata("run", file)
    assert done.returncode == 2
    assert "'1..many' is no range of clients: write 1..N, with N from 2 to 10,000" in done.stderr
