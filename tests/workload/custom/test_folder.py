"""Folders of rows, and folders of queries that hold more than queries."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.errors import PgstrataError, UsageError
from pgstrata.server.features import NEWEST
from pgstrata.sql_text import identifier
from pgstrata.workload import catalog
from pgstrata.workload.core.language import CopyFile, Op, Phase, Script, Sql, Step, Work
from pgstrata.workload.custom.contents import digest_of
from pgstrata.workload.custom.options import Rows
from pgstrata.workload.custom.queries import read_queries
from pgstrata.workload.custom.rows import tables_of_folder

SCHEMA = 'CREATE TABLE Film (id int);\nCREATE TABLE "Cast" (id int);\nCREATE TABLE s.note (id int);\n'
FILES = ("film.csv", "Cast.csv", "s.note.csv")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A schema, a folder of rows that fits it, and a folder of a query, the schema and indexes."""
    (tmp_path / "rows").mkdir()
    for name in FILES:
        (tmp_path / "rows" / name).write_text("1\n")
    (tmp_path / "rows/schema.sql").write_text("-- not a file of rows\n")
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries/schema.sql").write_text(SCHEMA)
    (tmp_path / "queries/indexes.sql").write_text(
        "CREATE INDEX a ON film (id);\nCREATE INDEX b ON film (id);\n"
    )
    (tmp_path / "queries/1a.sql").write_text("SELECT 1;\n")
    (tmp_path / "queries/README.md").write_text("no query\n")
    return tmp_path


def phases(folder: Path, **options: Any) -> list[Phase]:
    custom = catalog.find("custom")
    validated = custom.Options.model_validate(options, context={"folder": str(folder)})
    return list(custom.phases(validated, NEWEST))


def copied(folder: Path, **rows: Any) -> dict[str, str]:
    """The COPY statements of a folder of rows, by the names of their files."""
    setup = ["queries/schema.sql", {"folder": "rows", **rows}]
    done = ops(phases(folder, setup=setup, load_connections=1))
    return {Path(op.file).name: op.sql for op in done if isinstance(op, CopyFile)}


def ops(phases: Sequence[Phase]) -> list[Op]:
    """What the steps do, one after the other."""
    steps = (phase for phase in phases if isinstance(phase, Step))
    return [
        op
        for step in steps
        for role in step.roles
        for script in role.scripts
        if isinstance(script, Script)
        for op in script.ops
    ]


def test_a_folder_is_loaded_into_the_tables_that_its_files_are_named_after(folder: Path) -> None:
    assert copied(folder) == {
        "film.csv": "COPY Film FROM STDIN WITH CSV HEADER DELIMITER ',' NULL ''",
        "Cast.csv": "COPY \"Cast\" FROM STDIN WITH CSV HEADER DELIMITER ',' NULL ''",
        "s.note.csv": "COPY s.note FROM STDIN WITH CSV HEADER DELIMITER ',' NULL ''",
    }
    how = copied(folder, header=False, escape="\\", null="-")["film.csv"]
    assert how == "COPY Film FROM STDIN WITH CSV DELIMITER ',' NULL '-' ESCAPE '\\'"


@pytest.mark.parametrize(
    ("lacking", "beside", "problem"),
    [
        ("film.csv", "", "no file for table film"),
        ("", "other.csv", "no table for file other.csv"),
        ("", "film.tsv", "several files for table film"),
        ("film.csv", "film.csv.gz", "no file for table film"),
        ("Cast.csv", "cast.csv", "no file for table Cast; no table for file cast.csv"),
    ],
)
def test_a_folder_that_does_not_fit_its_tables_is_refused(
    folder: Path, lacking: str, beside: str, problem: str
) -> None:
    if lacking:
        (folder / "rows" / lacking).unlink()
    if beside:
        (folder / "rows" / beside).touch()
    with pytest.raises(UsageError) as error:
        copied(folder)
    assert error.value.message.endswith(f"makes before it: {problem}")
    assert "name each file" in error.value.hint


def test_many_problems_of_a_folder_are_a_short_sentence(folder: Path) -> None:
    rows = Rows.model_validate({"folder": str(folder / "rows")})
    with pytest.raises(UsageError, match=r"t00, t01, .*, t09 and 21 more; no table for file Cast\.csv"):
        tables_of_folder(rows, [f"t{number:02}" for number in range(31)])
    for path, problem in (("nowhere", "there is no file"), ("rows/film.csv", "is no folder")):
        with pytest.raises(PgstrataError, match=problem):
            phases(folder, setup=["queries/schema.sql", {"folder": path}])


@pytest.mark.parametrize(
    "entry",
    [{"folder": "rows", "table": "film"}, {"folder": "rows", "columns": ["id"]}, {"table": "film"}, {}],
)
def test_an_entry_of_rows_is_a_table_or_a_folder(entry: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="`folder`"):
        Rows.model_validate(entry)


_LETTERS = st.characters(codec="utf-8", exclude_characters="/\0")


@given(st.text(_LETTERS, min_size=1, max_size=40).filter(lambda name: name not in (".", "..")))
def test_every_quoted_name_has_its_file(name: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / f"{name}.csv"
        file.touch()
        (rows,) = tables_of_folder(Rows.model_validate({"folder": place}), [identifier(name)])
    assert (rows.table, rows.files, rows.folder) == (identifier(name), (str(file),), None)


def test_files_of_the_setup_are_no_queries(folder: Path) -> None:
    queries = folder / "queries"
    assert set(read_queries([queries]).broken) == {"schema", "indexes"}
    (folder / "schema-copy.sql").write_text(SCHEMA)
    read = read_queries([queries], [str(folder / "schema-copy.sql"), str(queries / "indexes.sql")])
    assert (set(read.texts), read.broken) == ({"1a"}, {})
    setup = ["queries/schema.sql", {"folder": "rows"}, "queries/indexes.sql"]
    done = ops(phases(folder, setup=setup, queries="queries", plans="none"))
    names = [op.name for op in done if isinstance(op, Sql)]
    assert names[-1] == "1a" and not {"schema", "indexes"} & set(names)


def test_row_counts_are_checked_before_anything_settles(folder: Path) -> None:
    names = [
        getattr(phase, "name", "")
        for phase in phases(
            folder, setup=["queries/schema.sql"], row_counts={"film": 3}, queries="queries/1a.sql"
        )
    ]
    assert names.index("load.schema") < names.index("row-counts") < names.index("vacuum")
    (check,) = [
        phase
        for phase in phases(folder, row_counts={"film": 3}, queries="queries/1a.sql")
        if isinstance(phase, Work) and phase.name == "row-counts"
    ]
    assert check.depends_on == {"row_counts": {"film": 3}}


def test_hidden_folders_are_no_content_of_a_folder(folder: Path) -> None:
    before = digest_of(folder / "queries")
    (folder / "queries/.git").mkdir()
    (folder / "queries/.git/index").write_text("1")
    assert digest_of(folder / "queries") == before
    (folder / "queries/.2a.sql").write_text("SELECT 2;\n")
    assert digest_of(folder / "queries") != before
