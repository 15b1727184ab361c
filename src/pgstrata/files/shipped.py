"""Files that come with pgstrata beside its code: campaigns, docs and the script of the charts."""

from __future__ import annotations

from pathlib import Path

from pgstrata.errors import PgstrataError

_PACKAGE = Path(__file__).resolve().parents[1]
_CHECKOUT = _PACKAGE.parents[1]


def shipped(name: str) -> Path | None:
    """Returns a file or folder that the wheel brings or the checkout has, `campaigns/replica.toml` for
    example; None where there is none."""
    if ".." in Path(name).parts or Path(name).is_absolute():
        return None
    for folder in (_PACKAGE / "share", _CHECKOUT):
        if (folder / "campaigns").is_dir() and (path := folder / name).exists():
            return path
    return None


def chart_script() -> Path:
    """Returns the script that draws charts (plotly.js, MIT licence, named in its head): the wheel's, else
    that of the package plotly. Raises PgstrataError where there is neither."""
    if (path := _PACKAGE / "share" / "plotly.min.js").is_file():
        return path
    from importlib.util import find_spec

    if (spec := find_spec("plotly")) is not None and spec.origin is not None:
        return Path(spec.origin).parent / "package_data" / "plotly.min.js"
    raise PgstrataError(
        "the script of the charts is not installed: pgstrata runs from its source tree",
        "pip install plotly",
    )


__all__ = ["chart_script", "shipped"]
