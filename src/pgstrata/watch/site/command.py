"""`pgstrata site`"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgstrata import numbers
from pgstrata.cli.quiet import is_quiet, progress_console

if TYPE_CHECKING:
    from pgstrata.watch.known import Known


def site(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder that the pages are written to.")],
    watch: Annotated[
        list[Path] | None,
        typer.Option("--watch", metavar="WATCH.toml", help="File of a watch that is shown. Repeatable."),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option("--results", metavar="DIR", help="Folder with runs, whose reports are shown, too."),
    ] = None,
) -> None:
    """Write static pages of watches and results: alarms, every step over all commits, every commit.

    The folder can be opened from disk, copied to any web server, and written again: what has not changed is
    left as it is.

    \b
    Examples:
      pgstrata site public --watch master.toml
      pgstrata site public --watch master.toml --watch stable.toml --results results
    """
    from pgstrata.errors import UsageError
    from pgstrata.watch.site.write import check_folder, write_site

    if not watch and results is None:
        raise UsageError(
            "nothing to show", "name a watch (--watch WATCH.toml), results (--results DIR), or both"
        )
    if results is not None and not results.is_dir():
        raise UsageError(f"there is no results folder {results}", "pgstrata run makes one")
    check_folder(out)
    written = write_site(out, [read_known(file) for file in watch or []], results)
    pages, changed = numbers.counted(written.pages, "page"), numbers.counted(written.changed, "file")
    print(f"{written.page.resolve()}: {pages}, {changed} new or changed")


def read_known(file: Path) -> Known:
    """Reads what a watch knows, of the machine that measured last. Raises UsageError, ServerError,
    StoreError."""
    from pgstrata.watch.file import read_watch
    from pgstrata.watch.passing import read

    def say(text: str) -> None:
        if not is_quiet():
            print(text, file=sys.stderr)

    known, _ = read(read_watch(file), say, progress_console(), lambda: None)
    known.epoch = known.latest_epoch or known.epoch
    return known


__all__ = ["read_known", "site"]
