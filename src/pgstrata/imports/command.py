"""`pgstrata import`"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from pgstrata.cli.arguments import RESULTS, ResultsOption


def import_files(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Result files of other programs.")],
    results: ResultsOption = RESULTS,
    campaign: Annotated[
        str, typer.Option("--campaign", metavar="NAME", help="The campaign that they become.")
    ] = "imported",
    variant: Annotated[
        str, typer.Option("--variant", metavar="LABEL", help="The server, where files do not name it.")
    ] = "",
    step: Annotated[
        str, typer.Option("--step", metavar="NAME", help="The step (default: as the file has it).")
    ] = "",
    workload: Annotated[
        str, typer.Option("--workload", metavar="NAME", help="The workload (default: the program's).")
    ] = "",
) -> None:
    """Import results of pgbench, sysbench, HammerDB and mytools as runs: shown, never judged.

    A damaged file, or one of another format, is named, and nothing is imported.

    \b
    Examples:
      pgstrata import qps.abs.pg.latest.tsv o.met.pg.latest
      pgstrata import c1.txt c8.txt --variant pg17.6
      pgstrata import pgbench_log.943 pgbench_log.943.1 --variant pg18.1 --campaign ours
    """
    from pgstrata.errors import UsageError
    from pgstrata.files.user_files import in_command, shown
    from pgstrata.imports.recognize import MOST_NAME, named, read_files
    from pgstrata.imports.storing import runs_of, store_all
    from pgstrata.numbers import counted
    from pgstrata.store import Results

    names = {"--campaign": campaign, "--variant": variant, "--step": step, "--workload": workload}
    for option, text in names.items():
        if (option == "--campaign" and not text.strip()) or not text.isprintable() or len(text) > MOST_NAME:
            advice = f"write up to {MOST_NAME} printable characters"
            raise UsageError(f"{option} {shown(text, 40)!r} is no name", advice)
    runs = runs_of(named(read_files(files), variant, step, workload))
    for stored in store_all(Results(results), campaign, runs):
        key, steps = stored.key, counted(len(stored.run.steps), "step")
        note = "is there already" if stored.again else "imported"
        print(f"{shown(key.variant)}, {shown(key.workload)}, repeat {key.repeat}: {steps} {note}")
    print(
        f"pgstrata report {in_command(results)} --campaign {shlex.quote(campaign)} shows them; "
        "no verdict rests on them"
    )


__all__ = ["import_files"]
