"""The build backend: maturin, after the files that a wheel has beside its code were put in their place.

pip calls these functions (PEP 517). The script of the charts is taken out of the package plotly, which is
needed to build and not to run.
"""

from __future__ import annotations

import shutil
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import maturin
from maturin import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

ROOT = Path(__file__).resolve().parents[1]
SHARE = ROOT / "src/pgstrata/share"
FOLDERS = ("campaigns", "docs")
SCRIPT = "plotly.min.js"


def build_wheel(
    wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None
) -> str:
    """Builds a wheel with campaigns, docs and the script of the charts; returns its name."""
    fill_share()
    try:
        name: str = maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
    finally:
        # Not left in a checkout, where it would grow old.
        shutil.rmtree(SHARE)
    return name


def fill_share() -> None:
    """Makes `src/pgstrata/share`, which `pgstrata.files.shipped` reads."""
    shutil.rmtree(SHARE, ignore_errors=True)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, SHARE / name)
    plotly = distribution("plotly")
    shutil.copyfile(str(plotly.locate_file(f"plotly/package_data/{SCRIPT}")), SHARE / SCRIPT)


__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "fill_share",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]
