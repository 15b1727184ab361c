"""Files of rows, CSV, COPY's text format and Parquet, as blocks for COPY."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from pgstrata.errors import UsageError
from pgstrata.files.user_files import is_folder, shown
from pgstrata.sql_text import identifier, literal
from pgstrata.workload.custom.options import ROWS, Rows
from pgstrata.workload.custom.source import Check, CopyBlock, Say, folder_of, unpacked

_PART = re.compile(r'"((?:[^"]|"")+)"|([\w$]+)')

MOST_NAMED = 10


def tables_of_folder(rows: Rows, tables: Sequence[str]) -> list[Rows]:
    """Returns the rows of each table of a folder.

    tables: as CREATE TABLE names them. Raises UsageError if a table has no file or a file no table.
    """
    assert rows.folder is not None
    folder = Path(rows.folder)
    if not is_folder(folder):
        raise UsageError(f"{shown(folder)} is no folder", "name a single file in `files`, with its `table`")
    files: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in ROWS:
            files.setdefault(path.stem, []).append(path)
    by_name = {unquoted(table): table for table in tables}
    problems = [
        *_problem("no file for table", [name for name in by_name if name not in files]),
        *_problem(
            "no table for file", [path.name for name in files.keys() - by_name.keys() for path in files[name]]
        ),
        *_problem("several files for table", [name for name, paths in files.items() if len(paths) > 1]),
    ]
    if problems:
        raise UsageError(
            f"the folder {shown(folder)} does not fit the tables that `setup` makes before it: "
            + "; ".join(problems),
            "complete the folder; to load a part of it, name each file: { table = …, files = […] }",
        )
    return [
        rows.model_copy(update={"table": table, "files": (str(files[name][0]),), "folder": None})
        for name, table in by_name.items()
    ]


def unquoted(table: str) -> str:
    """Returns the name of a table as a file is called after it: without quotes, folded where it has none."""
    return ".".join(
        quoted.replace('""', '"') if quoted else plain.lower() for quoted, plain in _PART.findall(table)
    )


def _problem(what: str, names: Sequence[str]) -> list[str]:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return [f"{what} {', '.join(map(shown, sorted(names)[:MOST_NAMED]))}{more}"] if names else []


def rows_of_table(
    table: str, file: Path, digest: str, columns: Sequence[str], how: str
) -> tuple[CopyBlock, Callable[[Say, Check], None]]:
    """Returns a file of rows as a block, and the function that makes its file. how: COPY's options for CSV,
    as every version takes them; a `.tsv` is COPY's text format, a `.parquet` becomes CSV first."""
    named = f" ({', '.join(columns)})" if columns else ""
    into = f"COPY {table}{named} FROM STDIN"
    ending = file.suffix.lower()
    if ending == ".tsv":
        return CopyBlock(into, file, file.stat().st_size), lambda say, check: None
    if ending == ".csv":
        return CopyBlock(f"{into} WITH {how}", file, file.stat().st_size), lambda say, check: None
    folder = folder_of(digest)
    size = 4 * file.stat().st_size

    def convert(place: Path, check: Check) -> None:
        import duckdb  # only who has Parquet waits for it

        from pgstrata.store.interruptible import interruptible
        from pgstrata.store.views import MEMORY

        names = ", ".join(map(identifier, columns)) or "*"
        source, to = (literal(str(path)) for path in (file, place / "0.rows"))
        try:
            with duckdb.connect(":memory:") as connection:
                connection.execute(f"SET memory_limit = '{MEMORY}'")
                connection.execute("SET threads = 1")
                connection.execute(f"SET temp_directory = {literal(str(place / 'spill'))}")
                query = (
                    f"COPY (SELECT {names} FROM read_parquet({source})) TO {to} (FORMAT csv, HEADER false)"
                )
                interruptible(connection, lambda: connection.execute(query))
        except duckdb.Error as error:
            raise UsageError(
                f"{shown(file)} cannot be read as Parquet: {str(error).splitlines()[0]}"
            ) from error

    block = CopyBlock(f"{into} WITH CSV", folder / "0.rows", size)
    return block, lambda say, check: unpacked(file, folder, size, convert, say, check)


__all__ = ["rows_of_table", "tables_of_folder", "unquoted"]
