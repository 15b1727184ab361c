"""Where the two programs are that are installed with pgstrata: the driver, and the tools beside it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from pgstrata.errors import PgstrataError
from pgstrata.files.user_files import user_path


def find_driver() -> Path:
    """Returns the path of the driver: `PGSTRATA_DRIVER`, beside the interpreter, on PATH, or built in a
    checkout.

    Raises PgstrataError when there is none, or when `PGSTRATA_DRIVER` names something else.
    """
    return _find("pgstrata-driver", "PGSTRATA_DRIVER", "driver")


def find_tools() -> Path:
    """Returns the path of the program that fetches servers and draws flame graphs, looked for as the driver
    is, with `PGSTRATA_TOOLS` before the other places.

    Raises PgstrataError as `find_driver` does.
    """
    return _find("pgstrata-tools", "PGSTRATA_TOOLS", "program")


def _find(name: str, variable: str, what: str) -> Path:
    if named := os.environ.get(variable):
        path = user_path(named)
        if not os.access(path, os.X_OK) or path.is_dir():
            raise PgstrataError(
                f"{variable} is {named}, which is not a program", f"unset it or name the {what}"
            )
        return path.resolve()
    candidates = [Path(sys.executable).parent / name]
    if on_path := shutil.which(name):
        candidates.append(Path(on_path))
    candidates.append(Path(__file__).resolve().parents[3] / "target" / "release" / name)
    for path in candidates:
        if os.access(path, os.X_OK) and path.is_file():
            return path
    raise PgstrataError(
        f"the {what} {name} is not there",
        f"build it with `cargo build --release`, or name it with {variable}",
    )
