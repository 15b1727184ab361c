"""Where the driver's binary is."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from pgstrata.errors import PgstrataError

NAME = "pgstrata-driver"


def find_driver() -> Path:
    """The driver: `PGSTRATA_DRIVER`, beside the interpreter, on PATH, or built in a checkout.

    Raises PgstrataError when there is none, or when `PGSTRATA_DRIVER` names something else.
    """
    if named := os.environ.get("PGSTRATA_DRIVER"):
        path = Path(named).expanduser()
        if not os.access(path, os.X_OK) or path.is_dir():
            raise PgstrataError(
                f"PGSTRATA_DRIVER is {named}, which is not a program", "unset it or name the driver"
            )
        return path.resolve()
    candidates = [Path(sys.executable).parent / NAME]
    if on_path := shutil.which(NAME):
        candidates.append(Path(on_path))
    candidates.append(Path(__file__).resolve().parents[3] / "target" / "release" / NAME)
    for path in candidates:
        if os.access(path, os.X_OK) and path.is_file():
            return path
    raise PgstrataError(
        "the driver pgstrata-driver is not there",
        "build it with `cargo build --release`, or name it with PGSTRATA_DRIVER",
    )
