"""Files of rows, CSV, COPY's text format and Parquet, as blocks for COPY."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pgstrata.errors import UsageError
from pgstrata.files.user_files import shown
from pgstrata.sql_text import identifier, literal
from pgstrata.workload.custom.source import Check, CopyBlock, Say, folder_of, unpacked


def rows_of_table(
    table: str, file: Path, digest: str, columns: Sequence[str], how: str
) -> tuple[CopyBlock, Callable[[Say, Check], None]]:
    """A file of rows as a block, and what makes its file. how: COPY's options for CSV, as every version takes
    them; a `.tsv` is COPY's text format, a `.parquet` becomes CSV first."""
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


__all__ = ["rows_of_table"]
