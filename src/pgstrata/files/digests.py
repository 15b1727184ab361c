"""SHA-256 digests, in hexadecimal digits."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path


def of(data: bytes | memoryview | str) -> str:
    """Returns the digest of a content; a text counts as UTF-8."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def of_parts(parts: Iterable[bytes]) -> str:
    """Returns the digest of a sequence of parts, which need not be in memory together."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part)
    return whole.hexdigest()


def of_file(path: Path) -> str:
    """Returns the digest of a file, which may be larger than memory. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


__all__ = ["of", "of_file", "of_parts"]
