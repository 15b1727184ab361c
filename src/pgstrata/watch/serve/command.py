"""`pgstrata serve`"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pgstrata.watch.serve.listen import Place

PORT = 8417


def serve(
    results: Annotated[
        Path | None,
        typer.Option("--results", metavar="DIR", help="Folder with runs (default: results, if it is there)."),
    ] = None,
    site: Annotated[
        Path | None, typer.Option("--site", metavar="DIR", help="Folder that `pgstrata site` has written.")
    ] = None,
    address: Annotated[
        str,
        typer.Option("--address", metavar="IP", help="Address to listen on; others than loopback need TLS."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="N", help="0: any free one.")] = PORT,
    certificate: Annotated[
        Path | None, typer.Option("--certificate", metavar="FILE", help="Certificate of TLS, as PEM.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option("--key", metavar="FILE", help="Its private key, as PEM.")
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="NAME", help="Name under which browsers reach it. Repeatable."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="The secret (default: a new one at each start)."),
    ] = None,
) -> None:
    """Show runs, reports and a site in a browser while they grow. Read-only.

    The address that is printed has a secret in it, without which nothing is answered: other users of this
    machine can reach its loopback, too. Ctrl-C ends it.

    \b
    Examples:
      pgstrata serve
      pgstrata serve --results /srv/results --site public
      pgstrata serve --address 192.0.2.7 --certificate host.pem --key host.key --host bench.example.org
    """
    from pgstrata.errors import UsageError

    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise UsageError(
            "serving pages needs starlette and uvicorn, which are not installed",
            "pip install 'pgstrata[serve]'",
        )
    from pgstrata.cli.arguments import RESULTS
    from pgstrata.watch.serve.app import Shows
    from pgstrata.watch.serve.listen import listen
    from pgstrata.watch.site.write import check_folder

    for folder, option in ((results, "--results"), (site, "--site")):
        if folder is not None and not folder.is_dir():
            raise UsageError(f"{option}: there is no folder {folder}", "name one that exists")
    if site is not None:
        check_folder(site)
    if results is None and RESULTS.is_dir():
        results = RESULTS
    if results is None and site is None:
        raise UsageError("there is nothing to show", "name a folder: --results DIR, --site DIR, or both")
    place = _place(address, port, certificate, key, host or [], token_file)
    listen(Shows(results, site), place)


def _place(
    address: str,
    port: int,
    certificate: Path | None,
    key: Path | None,
    hosts: list[str],
    token_file: Path | None,
) -> Place:
    """Checks where the server listens. Raises UsageError."""
    import ipaddress

    from pgstrata.errors import UsageError
    from pgstrata.watch.serve.listen import Place, new_token, read_token, tls_context

    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        raise UsageError(
            f"--address {address}: not an IP address", "write 127.0.0.1, ::1 or 192.0.2.7"
        ) from None
    if not 0 <= port <= 65535:
        raise UsageError(f"--port {port}: from 0 to 65535", f"{PORT} is usual; 0 takes a free one")
    if (certificate is None) != (key is None):
        raise UsageError("--certificate and --key go together", "name both")
    if not ip.is_loopback and certificate is None:
        raise UsageError(
            f"{address} can be reached from other machines, and results would travel in the clear",
            "give --certificate FILE --key FILE, or stay on loopback and forward it: ssh -L",
        )
    context = tls_context(certificate, key) if certificate and key else None
    token = read_token(token_file) if token_file else new_token()
    names = ["localhost", "127.0.0.1", "::1"] if ip.is_loopback else [str(ip)]
    return Place(str(ip), port, (*names, *hosts), token, context)


__all__ = ["serve"]
