"""`pgstrata config`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from pgstrata.cli.arguments import KeepSettingsOption
from pgstrata.cli.output import Format, TextOrJson, prints

if TYPE_CHECKING:
    from pgstrata.server.config.resolve import Change

app = typer.Typer(
    help="Config files: what there is, what a version makes of it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


# `fragment` is a public key of the forms that programs read
ConfigFileRow = TypedDict("ConfigFileRow", {"fragment": str, "what it is": str})
ConfigFileRows = list[ConfigFileRow]


@app.command("list")
@prints("pgstrata.cli.config:ConfigFileRows")
def list_(format: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.table) -> None:
    """List the config files that come with pgstrata.

    \b
    Examples:
      pgstrata config list
    """
    from pgstrata.cli.output import print_rows
    from pgstrata.server.config.resolve import shipped_config_files

    rows = [
        [file.name, summary_of(file.text).removeprefix(f"{file.name}: ")] for file in shipped_config_files()
    ]
    name, *others = ConfigFileRow.__annotations__
    print_rows(["config file" if format is Format.table else name, *others], rows, format)


def summary_of(text: str) -> str:
    """Returns the first comment line of a config file."""
    for line in text.splitlines():
        if line.startswith("#"):
            return line.lstrip("# ").strip()
    return ""


@app.command("explain")
@prints("pgstrata.cli.records:ExplainedConfig")
def explain(
    config_files: Annotated[
        list[str], typer.Argument(metavar="CONFIG…", help="Names, .conf files or settings; later ones win.")
    ],
    server: Annotated[str, typer.Option("--server", metavar="SPEC", help="pg:11, path:DIR, …")],
    keep_setting: KeepSettingsOption = None,
    format: Annotated[TextOrJson, typer.Option("--format", help="How to print.")] = TextOrJson.text,
) -> None:
    """Show what a version makes of config files: settings taken, mapped, dropped, and why.

    \b
    Examples:
      pgstrata config explain cached-by-pg --server pg:11
      pgstrata config explain cached-by-pg mine.conf --server pg:9.6 --format json
    """
    import msgspec
    import psutil

    from pgstrata.cli.output import print_json
    from pgstrata.errors import UsageError
    from pgstrata.server.config.classes import check_keep
    from pgstrata.server.config.resolve import find_config_file, resolve, stack_of
    from pgstrata.server.find.lookup import server_here

    asked = server_here(server)
    if not asked.managed:
        raise UsageError(f"{asked.spec} runs already, and keeps the settings it has", "leave out its config")
    names = [name for text in config_files for name in stack_of(text)]  # as --config takes them
    files = [find_config_file(name, Path.cwd()) for name in names]
    check_keep(keep_setting or [])
    keep = [name.lower() for name in keep_setting or []]
    resolved = resolve(
        files,
        asked.version_num,
        psutil.virtual_memory().total,
        asked.build,
        programs=asked.programs,
        keep=keep,
    )
    if format is TextOrJson.json:
        print_json({"version": asked.version, **msgspec.to_builtins(resolved.record())})
        return
    stack = " + ".join(config_file.name for config_file in files)
    print(f"# PostgreSQL {asked.version} with {stack}, sizes for the memory of this machine")
    if asked.programs is None:
        print("# its programs are not here and cannot be asked: libraries and locales are not looked for")
    width = max((len(name) for name in resolved.settings), default=0)
    for name, value in resolved.settings.items():
        print(f"{name:<{width}} = {value}")
    for change in resolved.mapped:
        became = f"{change.name} = {change.value} → {change.to} = {change.to_value}"
        print(f"# mapped: {became} ({_place(change)}): {change.reason}")
    for change in resolved.dropped:
        print(f"# left out: {change.name} = {change.value} ({_place(change)}): {change.reason}")


def _place(change: Change) -> str:
    from pgstrata.server.config.resolve import is_setting

    is_alone = is_setting(change.fragment)  # a setting that stands in the stack itself
    return change.fragment if is_alone else f"{change.fragment}, line {change.line}"
