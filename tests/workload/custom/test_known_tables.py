"""Files of rows that have no table are found before a server starts, where the SQL before them tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgstrata.cli.main import invoke
from pgstrata.errors import UsageError
from pgstrata.server.features import NEWEST
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Phase, Step, Work

SCHEMA = """\
SELECT pg_catalog.set_config('search_path', '', false);
CREATE SCHEMA shop;
CREATE TYPE kind AS ENUM ('a', 'b');
CREATE UNLOGGED TABLE shop.orders (id int);
CREATE TABLE IF NOT EXISTS "Cast" (id int) PARTITION BY LIST (id);
CREATE TABLE old_name (id int);
ALTER TABLE old_name RENAME TO new_name;
CREATE OR REPLACE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE UNIQUE INDEX o ON shop.orders (id);
COMMENT ON TABLE shop.orders IS 'orders';
CREATE VIEW film AS SELECT 1 AS id;
"""


def phases(folder: Path, sql: str, *rows: object, **options: object) -> list[Phase]:
    (folder / "schema.sql").write_text(sql)
    for name in (*rows, "any.csv"):
        if isinstance(name, str):
            (folder / name).write_text("id\n1\n")
    custom = catalog.find("custom")
    setup = {"setup": ["schema.sql", *rows], **options}
    return list(custom.phases(custom.Options.model_validate(setup, context={"folder": str(folder)}), NEWEST))


def is_asked(phases_: list[Phase]) -> bool:
    """Whether the server is asked for the tables before their rows are loaded."""
    names = [phase.name for phase in phases_ if isinstance(phase, Work | Step)]
    if "tables" in names:
        assert names.index("load.schema") < names.index("tables") < names.index("load.rows")
    return "tables" in names


@pytest.mark.parametrize("name", ["orders.csv", "ORDERS.csv", "shop.orders.csv", "new_name.tsv", "film.csv"])
def test_a_file_with_its_table_is_loaded(tmp_path: Path, name: str) -> None:
    assert not is_asked(phases(tmp_path, SCHEMA, name))
    assert not is_asked(phases(tmp_path, SCHEMA, {"table": '"Cast"', "files": ["any.csv"]}))


@pytest.mark.parametrize(
    ("name", "guess"),
    [
        ("order.csv", "did you mean `shop.orders`?"),
        ("x.csv", 'there are: "Cast", film, new_name, old_name, shop.orders'),
        ("Cast.csv", 'did you mean `"Cast"`?'),
    ],
)
def test_a_file_without_its_table_is_refused(tmp_path: Path, name: str, guess: str) -> None:
    with pytest.raises(UsageError) as error:
        phases(tmp_path, SCHEMA, "orders.csv", name)
    table = Path(name).stem
    assert error.value.message.endswith(f"{name} has no table: nothing of `setup` before it makes {table}")
    assert error.value.hint.startswith(guess) and "{ table = …, files = […] }" in error.value.hint


def test_rows_alone_have_no_table(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no table"):
        phases(tmp_path, "", "orders.csv")


@pytest.mark.parametrize(
    "code",
    [
        "DO $$ BEGIN EXECUTE 'CREATE TABLE order_' || 2026 || ' (id int)'; END $$",
        "SELECT make_tables(3)",
        "CREATE EXTENSION postgis",
        "CREATE SCHEMA s CREATE TABLE s.note (id int)",
        "ALTER EXTENSION mine UPDATE",
        "IMPORT FOREIGN SCHEMA public FROM SERVER s INTO public",
    ],
)
def test_where_code_may_make_the_table_the_server_is_asked(tmp_path: Path, code: str) -> None:
    assert is_asked(
        phases(tmp_path, f"{SCHEMA}{code};\n", "orders.csv", "order_2026.csv", allow_outside=True)
    )


def test_an_extension_that_is_created_first_may_make_the_table(tmp_path: Path) -> None:
    assert is_asked(phases(tmp_path, SCHEMA, "spatial_ref_sys.csv", extensions=["postgis"]))


@pytest.mark.program
def test_the_command_says_so_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("schema.sql").write_text("CREATE TABLE orders (id int);\n")
    Path("order.csv").write_text("id\n1\n")
    Path("slow.sql").write_text("SELECT 1;\n")
    files = ["--setup", "schema.sql", "--setup", "order.csv", "slow.sql", "--dry-run"]
    assert invoke(["compare-queries", "--server", "pg:16,pg:17", *files]) == 2
    error = capsys.readouterr().err
    assert "order.csv has no table" in error and "did you mean `orders`?" in error
