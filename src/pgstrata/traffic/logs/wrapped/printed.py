"""What `docker logs -t`, `docker compose logs`, `kubectl logs` and `aws logs tail` print in front of lines.

Facts: Docker, "docker logs" (`--timestamps`: RFC 3339 and a blank) and "docker compose logs" (the name of the
container, blanks, `| `, in colour on a terminal); Kubernetes, "kubectl logs" (`--timestamps`, `--prefix`:
`[pod/NAME/CONTAINER] `); AWS CLI reference, `logs tail`: time and stream in front of each event.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import IO

from pgstrata.traffic.logs import csvlog
from pgstrata.traffic.logs.line import LONGEST, Trouble
from pgstrata.traffic.logs.prefix import lacking
from pgstrata.traffic.logs.recognize import sample_of, template
from pgstrata.traffic.logs.wrapped.model import Record, Wrapping

_COLOUR = rb"(?:\x1b\[[0-9;]{0,20}m)?"
_LABEL = re.compile(
    _COLOUR + rb"(?P<label>[\w.-]{1,200}(?= *\|)|\[pod/[\w./-]{1,250}\])(?: *\|)? " + _COLOUR, re.ASCII
)
_NUMBERED = re.compile(rb"[\w.-]+[-_][0-9]+|\[pod/.*")
"""Labels that no log_line_prefix makes."""

_TIME = re.compile(
    rb"(?P<label>)[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
    rb"(?:Z|[+-][0-9]{2}:[0-9]{2})? (?:[\w./\[\]$-]{1,250} (?=[0-9]{4}-|\t))?"
)
_SYSLOG = re.compile(rb"(?:\S+ )?\S*(?:postgres|postmaster)\S*: ")


def recognize_lines(lines: Sequence[bytes]) -> Wrapping | None:
    """Returns how lines behind a label or a time are read, None where they are no such lines."""
    for pattern in (_LABEL, _TIME):
        labelled_texts = [
            (match["label"], line[match.end() :]) for line in lines if (match := pattern.match(line))
        ]
        behind = [text for _, text in labelled_texts]
        # The lines of an entry have it in front of each, or of the first alone.
        first = [line for line in lines if not line.startswith(b"\t")]
        if not labelled_texts or 2 * len(labelled_texts) <= len(first) or not _is_whole(behind):
            continue
        if pattern is _TIME and any(_SYSLOG.match(text) for text in behind if _begins(text)):
            continue
        ours = {label for label, text in labelled_texts if _begins(text)}
        is_printed = any(text.startswith(b"\t") for text in behind) or any(map(_NUMBERED.fullmatch, ours))
        if pattern is _LABEL and not is_printed:
            continue  # the server's own prefix may look like that
        return Wrapping("lines of containers", partial(_records, pattern=pattern, labels=ours))
    return None


def _begins(line: bytes) -> bool:
    return (
        csvlog.BEGIN.match(line) is not None
        or line.startswith(b'{"timestamp":')
        or (not line.startswith(b"\t") and sample_of(line) is not None)
    )


def _is_whole(lines: Sequence[bytes]) -> bool:
    """True if these lines are a log by themselves, with times and what tells sessions apart."""
    if any(csvlog.BEGIN.match(line) or line.startswith(b'{"timestamp":') for line in lines):
        return True
    samples = [s for line in lines if not line.startswith(b"\t") and (s := sample_of(line)) is not None]
    text = template(samples)
    return text is not None and not lacking(text)


def _records(
    file: IO[bytes], trouble: Trouble, *, pattern: re.Pattern[bytes], labels: set[bytes]
) -> Iterator[Record]:
    """Yields the lines of labels that a server writes to; one without a label is a part of the last."""
    is_ours = True
    while line := file.readline(LONGEST):
        match = pattern.match(line)
        if match is not None:
            is_ours = match["label"] in labels
        if is_ours:
            yield Record(0, line[match.end() :] if match else line)
        elif line.strip():
            trouble.others += 1


__all__ = ["recognize_lines"]
