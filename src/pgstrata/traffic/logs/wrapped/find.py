"""Recognizes what is around a server's lines, from the first lines of a file."""

from __future__ import annotations

import io
from codecs import BOM_UTF8
from collections.abc import Sequence

from pgstrata.traffic.logs.line import Trouble
from pgstrata.traffic.logs.wrapped import amazon, azure, google, kubernetes, printed, syslog
from pgstrata.traffic.logs.wrapped.model import Wrapping
from pgstrata.traffic.logs.wrapped.objects import objects

LAYERS = 2
"""Formats within each other, as CloudNativePG's JSON in the files of a Kubernetes node."""


def wrapping(head: Sequence[bytes]) -> Wrapping | None:
    """Returns the format around the lines of a log, None where there is none that is known."""
    lines = [line for line in head if line.strip()]
    if not lines:
        return None
    first = lines[0].removeprefix(BOM_UTF8).lstrip()
    if first.startswith((b"{", b"[")) and not first.startswith((b'{"timestamp":"', b"[pod/")):
        return _of_json(head)
    if (wrapped := azure.recognize_lines(lines)) is not None:
        return wrapped
    if (wrapped := amazon.recognize_lines(lines)) is not None:
        return wrapped
    if (wrapped := kubernetes.recognize_lines(lines)) is not None:
        return wrapped
    if (wrapped := printed.recognize_lines(lines)) is not None:
        return wrapped
    return syslog.recognize_lines(lines)


def _of_json(head: Sequence[bytes]) -> Wrapping | None:
    for number, entry in enumerate(objects(io.BytesIO(b"".join(head)), Trouble())):
        for module in (google, kubernetes, syslog, azure, amazon):
            wrapped: Wrapping | None = module.recognize(entry)
            if wrapped is not None:
                return wrapped
        if number > 20:
            break
    return None


__all__ = ["LAYERS", "wrapping"]
