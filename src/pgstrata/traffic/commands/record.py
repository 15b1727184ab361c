"""`pgstrata record`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pgstrata.errors import UsageError

LEAST_BYTES = 1 << 20


def record(
    to: Annotated[
        str,
        typer.Option("--to", metavar="DSN", help="The server: postgresql://HOST:5432?sslmode=require"),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--folder",
            "-o",
            metavar="FOLDER",
            help="A new one (default: recording).",
            show_default=False,
        ),
    ] = Path("recording"),
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where clients connect to.")
    ] = "127.0.0.1:6432",
    max_size: Annotated[
        str, typer.Option("--max-size", metavar="SIZE", help="Ends the recording, not traffic.")
    ] = "10GB",
    certificate: Annotated[
        Path | None, typer.Option("--certificate", metavar="FILE", help="TLS for clients.")
    ] = None,
    key: Annotated[Path | None, typer.Option("--key", metavar="FILE", help="Its key, not encrypted.")] = None,
    allow_network: Annotated[
        bool, typer.Option("--allow-network", help="Let other machines connect.")
    ] = False,
    allow_peer: Annotated[
        bool,
        typer.Option("--allow-peer", help="Lead to a Unix socket, as this account."),
    ] = False,
) -> None:
    """Records what applications ask: a proxy that passes everything on unchanged.

    Statements, parameters, times, rows, SQLSTATEs and a digest of each answer are written into a folder;
    passwords are not. When the disk is full or the recording large, recording stops and traffic goes on.
    `pgstrata capture FOLDER -o FILE` makes a captured file of it.

    \b
    Examples:
      pgstrata record --to postgresql://db.example.com:5432 -o monday
      pgstrata record --to 'host=db.example.com sslmode=verify-full' --listen 127.0.0.1:7000 -o monday
      pgstrata capture monday -o monday.traffic
    """
    from pgstrata.files.user_files import shown, user_path
    from pgstrata.server.config.settings import size_bytes
    from pgstrata.traffic.record.proxy import Recording, become_proxy

    most_bytes = size_bytes(max_size)
    if most_bytes is None or not LEAST_BYTES <= most_bytes < 1 << 60:
        raise UsageError(f"--max-size {shown(max_size)} is no size of 1MB or more", "write 500MB or 10GB")
    become_proxy(
        Recording(
            listen,
            to,
            user_path(output),
            most_bytes,
            certificate=user_path(certificate) if certificate else None,
            key=user_path(key) if key else None,
            allow_network=allow_network,
            allow_peer=allow_peer,
        )
    )


__all__ = ["record"]
