"""The statistics of a server in a file, by a connection and by a script for psql."""

from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from pgstrata.errors import UsageError
from pgstrata.server.find.model import Server
from pgstrata.traffic.upgrade.planned.calls import read_statistics
from pgstrata.traffic.upgrade.planned.export import export_statistics
from support.planner import Original, dsn_of
from support.program import Program
from support.steps import database, running


def test_a_script_writes_the_same(original13: Original, pgstrata: Program, place: Path) -> None:
    if (psql := shutil.which("psql")) is None:
        pytest.skip("no psql here")
    script = pgstrata("export-statistics", "--psql-script")
    (place / "export.sql").write_text(script.stdout)
    done = subprocess.run(
        [psql, "-X", "-d", original13.dsn, "-f", "export.sql"], cwd=place, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    written = place / "stats.sql"
    assert written.read_text() == original13.statistics.read_text()
    assert stat.S_IMODE(written.stat().st_mode) == 0o600


def test_the_command(original13: Original, pgstrata: Program, place: Path) -> None:
    done = pgstrata("export-statistics", original13.dsn, "-o", "own.sql", "--without-values")
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE((place / "own.sql").stat().st_mode) == 0o600
    text = (place / "own.sql").read_text()
    assert "city12" not in text and "most_common" not in text and "n_distinct" in text
    again = pgstrata("export-statistics", original13.dsn, "-o", "own.sql")
    assert again.returncode == 2 and "is there already" in again.stderr
    for arguments in ((), (original13.dsn,)):
        done = pgstrata("export-statistics", *arguments)
        assert done.returncode == 2 and "it is not said" in done.stderr
    with_values = pgstrata("export-statistics", original13.dsn, "-o", "values.sql")
    assert "it holds values of your columns" in with_values.stderr
    assert (place / "values.sql").read_text() == original13.statistics.read_text()


def test_who_may_read_little(pg17: Server, place: Path) -> None:
    """Of tables that a user may not read nothing is written, and the number of them is known; functions that
    another user has put into the search path are not called."""
    with running(pg17) as cluster, database(cluster, "shop") as admin:
        for text in (
            "CREATE TABLE open (a int); CREATE TABLE shut (a int)",
            "INSERT INTO open SELECT generate_series(1, 1000); INSERT INTO shut SELECT 7",
            "ANALYZE",
            "CREATE ROLE little LOGIN; GRANT SELECT ON open TO little",
            "CREATE FUNCTION quote_literal(name) RETURNS text LANGUAGE sql AS $$ SELECT 'planted' $$",
        ):
            admin.execute(text.encode())
        dsn = dsn_of(cluster).replace(f"user={cluster.user}", "user=little")
        done = export_statistics(dsn, place / "little.sql")
        assert done.unreadable == 1
        statistics = read_statistics(place / "little.sql")
        assert {column.table for column in statistics.columns} == {"open"}
        assert "planted" not in (place / "little.sql").read_text()
        admin.execute("DROP TABLE open")
        with pytest.raises(UsageError, match="1 table"):
            export_statistics(dsn, place / "none.sql")
        assert not (place / "none.sql").exists()
