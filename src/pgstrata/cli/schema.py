"""`pgstrata schema`: JSON Schemas of what `--format json` prints."""

from __future__ import annotations

from typing import Annotated, Any

import typer

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMAND]", help="A command; none: list those that print JSON."),
    ] = None,
) -> None:
    """Print the JSON Schema of what a command prints with --format json.

    \b
    Examples:
      pgstrata schema
      pgstrata schema compare > compare.schema.json
      pgstrata schema config explain
    """
    from pgstrata.cli.output import print_json
    from pgstrata.errors import UsageError
    from pgstrata.files.user_files import shown
    from pgstrata.suggest import meant

    name = " ".join(command or [])
    if name and (places := places_of(name)):
        print_json(schema_of(name, places))
        return
    names = list(places_by_command())
    if name:
        raise UsageError(f"{shown(name)} is no command that prints JSON", meant(name, names, "these do"))
    for line in names:
        print(line)


def places_of(name: str) -> tuple[str, ...]:
    """Returns the types that a command prints as JSON, as `module:attribute`; none if it prints no JSON, or
    there is no such command."""
    from pgstrata.cli.main import app

    command: Any = typer.main.get_command(app)
    for word in name.split():
        command = getattr(command, "commands", {}).get(word)
    return _places(name, command) if command is not None else ()


def _places(name: str, command: Any) -> tuple[str, ...]:
    from pgstrata.registry import capabilities

    places: tuple[str, ...] = getattr(command.callback, "json_places", ())
    return places + tuple(place for offer in capabilities() for place in offer.prints.get(name, ()))


def places_by_command() -> dict[str, tuple[str, ...]]:
    """Returns the types that each command prints as JSON, as `module:attribute`, by the command's name."""
    from pgstrata.cli.main import app
    from pgstrata.cli.reference import commands_of

    places = {name: _places(name, command) for name, command in commands_of(typer.main.get_command(app), ())}
    return {name: types for name, types in places.items() if types}


def schema_of(name: str, places: tuple[str, ...]) -> dict[str, Any]:
    """Returns the JSON Schema of what a command prints: a value of one of these types.

    It allows keys that it does not declare, as later versions may add some.
    """
    import msgspec

    from pgstrata.registry import load

    types = [load(place) for place in places]
    roots, definitions = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    return {
        "$schema": DIALECT,
        "title": f"pgstrata {name} --format json",
        **_with_null(roots[0] if len(roots) == 1 else {"anyOf": list(roots)}),
        **({"$defs": _with_null(definitions)} if definitions else {}),
    }


def _with_null(part: Any) -> Any:
    """Returns a part of a schema that allows null for every number with a fraction: `print_json` writes null
    for one that is infinite or not a number."""
    match part:
        case {"type": "number", **limits}:
            return {"type": ["number", "null"], **limits}
        case dict():
            return {key: _with_null(value) for key, value in part.items()}
        case list() | tuple():
            return [_with_null(item) for item in part]
    return part


__all__ = ["places_by_command", "places_of", "schema", "schema_of"]
