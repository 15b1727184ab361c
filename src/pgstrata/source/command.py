"""`pgstrata servers build` and `pgstrata servers failed`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pgstrata.cli.quiet import say_progress


def build(
    specs: Annotated[
        list[str],
        typer.Argument(metavar="SPEC…", help="release:9.0.23, tar:FILE-or-URL, src:DIR, git:DIR-or-URL#REF."),
    ],
    names: Annotated[
        list[str] | None,
        typer.Option("--build", metavar="NAME", help="o2, o2_nofp, o3_native, debug-asserts. Repeatable."),
    ] = None,
    campaign: Annotated[
        Path | None, typer.Option("--campaign", metavar="FILE", help="A campaign whose [builds] count.")
    ] = None,
    cc: Annotated[str | None, typer.Option("--cc", metavar="COMPILER", help="Say clang.")] = None,
    cflags: Annotated[
        str | None, typer.Option("--cflags", metavar="FLAGS", help="Instead of those of the build.")
    ] = None,
    system: Annotated[
        str | None, typer.Option("--system", metavar="NAME", help="autoconf or meson (16 and later).")
    ] = None,
    configure: Annotated[
        list[str] | None, typer.Option("--configure", metavar="OPTION", help="Of configure. Repeatable.")
    ] = None,
    meson: Annotated[
        list[str] | None, typer.Option("--meson", metavar="OPTION", help="Of meson. Repeatable.")
    ] = None,
    patch: Annotated[
        list[str] | None, typer.Option("--patch", metavar="FILE", help="Applied to a copy. Repeatable.")
    ] = None,
    contrib: Annotated[
        list[str] | None, typer.Option("--contrib", metavar="NAME", help="A module to build. Repeatable.")
    ] = None,
    extension: Annotated[
        list[str] | None,
        typer.Option("--extension", metavar="DIR", help="An extension with a Makefile for PGXS. Repeatable."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Also what failed to build before.")] = False,
) -> None:
    """Build servers from source into the cache; campaigns do it by themselves.

    \b
    Examples:
      pgstrata servers build release:17.11
      pgstrata servers build git:~/postgresql#REL_17_STABLE --build o2_nofp --build o3_native
      pgstrata servers build src:~/postgresql --patch better.patch --contrib pg_prewarm
    """
    from pgstrata.errors import UsageError
    from pgstrata.server.find import acquire
    from pgstrata.server.find.recipe import DEFAULT
    from pgstrata.server.find.sources import is_source

    keys = {
        "cc": cc,
        "cflags": cflags,
        "system": system,
        "configure": configure or None,
        "meson": meson or None,
        "patches": patch or None,
        "contrib": contrib or None,
        "extensions": extension or None,
    }
    if system not in (None, "auto", "autoconf", "meson"):
        raise UsageError(f"--system {system}: there is no such build system", "autoconf or meson")
    for spec in specs:
        acquire.check_spec(spec)
        if not is_source(spec):
            raise UsageError(f"{spec} is not built from source", "pgstrata servers fetch fetches servers")
        for name in names or [DEFAULT]:
            how = _named(name, campaign)
            if any(keys.values()):
                how = how.with_keys(keys, Path.cwd(), f"{name}+own" if names else "own")
            server = acquire.acquire(spec, how, say=say_progress, again=again)
            print(f"{server.label}: {server.bin_dir}")


def _named(name: str, campaign: Path | None) -> Any:
    from pgstrata.server.find.recipe import Build, find_build

    if campaign is None:
        return find_build(name)
    from pgstrata.campaign.file.reading import read_campaign

    read = read_campaign(campaign)
    builds = {
        key: Build(key).with_keys(keys.build_keys(), read.folder, key)
        for key, keys in read.spec.builds.items()
    }
    return find_build(name, builds)


def failed(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Label or key, as `servers list` shows them.")],
) -> None:
    """Show why a build failed: its first errors and the end of its log.

    \b
    Examples:
      pgstrata servers failed git20devel-1a2b3c4d
    """
    from pgstrata.errors import UsageError, harmless
    from pgstrata.source.build_cache import failures, names_of

    failed_builds = [failure for failure in failures() if name in names_of(failure)]
    if not failed_builds:
        raise UsageError(f"no failed build is called {name}", "pgstrata servers list shows them")
    for failure in failed_builds:
        what = f"{failure['label']} {failure['build']['name']} ({failure['origin']})"
        print(harmless(f"{what}: {failure['message']}"))
        for line in failure["errors"]:
            print(harmless(f"  {line}"))
        print("\nend of the log:")
        print(harmless("\n".join(f"  {line}" for line in str(failure["log_end"]).splitlines())))
