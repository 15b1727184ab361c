"""Malformed inputs from a seed: what people mistype, what a damaged disk returns, what an attacker tries."""

from __future__ import annotations

import copy
import json
import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

HANG_SECONDS = 120
"""After which one input is said to hang, on a busy machine, too."""

NUMBERS = [
    *("0", "-1", "1e300", "-1e300", "1e-300", "nan", "inf", "-inf", "1_0", "0x7fffffffffffffff", "0b2", "+5"),
    *(
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
        "9" * 5000,
        "0." + "0" * 500 + "1",
    ),
    *("1.5", "1e400", "00", "٣", "²", "½", "1,000", "1 000", "%", "100%", "-0.0", "1e", "2147483648"),
]
TEXTS = [
    *(
        "",
        " ",
        "\t",
        "-",
        "--",
        "=",
        "a=b=c",
        ".",
        "..",
        "../../../etc/passwd",
        "/",
        "//",
        "~",
        "~no-such-user",
        "*",
    ),
    *(
        "%s%n",
        "{}",
        "{0}",
        "'",
        '"',
        "';--",
        "$$",
        "\\",
        "\\N",
        "\u2028",
        "\u202e",
        "💥",
        "\x1b[31m",
        "\x07",
        "\r\n",
    ),
    *(
        "a" * 5000,
        "/dev/zero",
        "/dev/full",
        "/dev/stdin",
        "/proc/self/mem",
        "pg:",
        "pg:99",
        "pg:latest.1",
        "path:",
    ),
    *(
        "path:/dev/zero",
        "dsn:",
        "dsn:postgresql://h:99999/x",
        "dsn:host=/nowhere options='-c x'",
        "true",
        "null",
        "[]",
    ),
    *(
        "[" * 5000,
        "{" * 5000,
        "[" * 100 + "]" * 100,
        "1970-01-01",
        "1:range",
        "0:point",
        "all",
        "x@",
        "x@9",
        "@",
        "@@",
    ),
]


@contextmanager
def not_longer(what: str) -> Iterator[None]:
    """Fails the test where something takes longer than `HANG_SECONDS`."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"hangs: {what}")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def in_bytes(dice: random.Random, data: bytes) -> bytes:
    """A text or a file with some of its bytes changed, lost, doubled or moved."""
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 5, 20))):
        at = dice.randrange(len(changed) + 1)
        match dice.randrange(7):
            case 0:
                changed[at : at + 1] = bytes([dice.randrange(256)])
            case 1:
                del changed[at : at + dice.choice((1, 3, 30))]
            case 2:
                changed[at:at] = dice.choice((*NUMBERS, *TEXTS)).encode("utf-8", "surrogatepass")
            case 3:
                end = min(len(changed), at + dice.randrange(1, 200))
                changed[at:at] = changed[at:end]
            case 4:
                other = dice.randrange(len(changed) + 1)
                changed[at:at] = changed[other : other + dice.randrange(1, 50)]
            case 5:
                changed = changed[: max(1, at)]
            case 6:
                changed[at:at] = dice.choice(
                    (b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\r", b"\n\n", b'"', b"'''", b"#")
                )
    return bytes(changed)


def in_lines(dice: random.Random, text: str) -> str:
    """A text of `key = value` lines with values of some of them replaced."""
    lines = text.split("\n")
    places = [i for i, line in enumerate(lines) if "=" in line]
    for _ in range(dice.choice((1, 1, 2, 4))):
        i = dice.choice(places)
        key = lines[i].partition("=")[0]
        lines[i] = f"{key}= {toml_value(dice)}"
    return "\n".join(lines)


def toml_value(dice: random.Random, depth: int = 0) -> str:
    match dice.randrange(6 if depth < 3 else 3):
        case 0:
            return dice.choice(NUMBERS)
        case 1 | 2:
            # JSON writes texts as TOML does, halves of surrogate pairs apart.
            return json.dumps(dice.choice((*TEXTS, *NUMBERS)), ensure_ascii=True)
        case 3:
            return f"[{', '.join(toml_value(dice, depth + 1) for _ in range(dice.randrange(4)))}]"
        case 4:
            inner = ", ".join(f"k{n} = {toml_value(dice, depth + 1)}" for n in range(dice.randrange(3)))
            return f"{{ {inner} }}"
    return dice.choice(("true", "1979-05-27T07:32:00Z", "07:32:00", "'''x'''", '"\\u0000"'))


def json_value(dice: random.Random) -> Any:
    """A value that is seldom the right one."""
    return dice.choice(
        (
            *(None, True, -1, 0, 1, 2**31, 2**53, 2**63, 2**64, 10**30, -(10**400), 0.1, -0.5, 1e300, 1e-300),
            *([], {}, [[]], {"": None}, [None], ["x"], [1, "x"], {"a": {"b": {"c": []}}}),
            *(dice.choice(TEXTS), dice.choice(NUMBERS), "2026-13-45T99:99:99Z", "\ud800", "x" * 100_000),
        )
    )


def in_json(dice: random.Random, document: Any) -> Any:
    """A document with some of its values replaced, removed, renamed or doubled."""
    changed = copy.deepcopy(document)
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        holder, key = _somewhere(dice, changed)
        match dice.randrange(6):
            case 0 if isinstance(holder, dict):
                holder[f"{key}x"] = holder.pop(key)
            case 1:
                del holder[key]
            case 2 if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[key]))
            case 3 if isinstance(holder[key], int | float) and abs(holder[key]) < 2**64:
                holder[key] = dice.choice(
                    (-holder[key], holder[key] * 1000, str(holder[key]), holder[key] + 0.5)
                )
            case _:
                holder[key] = json_value(dice)
        if not changed:
            break
    return changed


def _somewhere(dice: random.Random, document: Any) -> tuple[Any, Any]:
    """A place in a document: what holds it, and its key or number."""
    holder = document
    while True:
        key = dice.choice(list(holder)) if isinstance(holder, dict) else dice.randrange(len(holder))
        inner = holder[key]
        if not isinstance(inner, dict | list) or not inner or dice.random() < 0.15:
            return holder, key
        holder = inner


def in_file(dice: random.Random, path: Path) -> None:
    """Replaces a file by a damaged one, or by what is no file."""
    data = path.read_bytes()
    match dice.randrange(8):
        case 0:
            path.unlink()
        case 1:
            path.write_bytes(data[: len(data) // 2])
        case 2:
            path.write_bytes(b"")
        case 3:
            path.unlink()
            os.mkfifo(path)
        case 4:
            path.unlink()
            path.symlink_to(dice.choice((path.name, "/dev/zero", "/nowhere", "..", "/proc/self/mem")))
        case 5:
            path.unlink()
            path.mkdir()
        case _:
            flipped = bytearray(data)
            for _ in range(dice.choice((1, 3, 50))):
                flipped[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
            path.write_bytes(bytes(flipped))


Generator = Callable[[random.Random], list[str]]
