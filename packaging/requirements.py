"""Prints what an extra of pyproject.toml needs, for pip: packages that are there before ours is compiled."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def requirements(project: dict[str, Any], extra: str) -> list[str]:
    """Returns the requirements of pgstrata and of an extra, with those of the extras that it names."""
    needed: list[str] = list(project["dependencies"])
    for line in project["optional-dependencies"][extra]:
        if extras := re.fullmatch(r"pgstrata\[([\w,]+)\]", line):
            needed += (need for name in extras[1].split(",") for need in requirements(project, name))
        else:
            needed.append(line)
    return list(dict.fromkeys(needed))


if __name__ == "__main__":
    read = tomllib.loads(PROJECT.read_text(encoding="utf-8"))
    print("\n".join(requirements(read["project"], sys.argv[1])))
