"""Values of megabytes take a few times their size of memory: 5 MB in a log took 825 MB once."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from pgstrata.traffic.logs import csvlog
from pgstrata.traffic.logs.line import Trouble
from pgstrata.traffic.logs.wrapped.objects import objects
from pgstrata.traffic.mask import Mask
from pgstrata.traffic.messages import parameters
from pgstrata.traffic.upgrade.planned.calls import read_statistics

LENGTH = 1 << 20
PLAIN, QUOTED = "abcdefgh" * (LENGTH // 8), "it''s so " * (LENGTH // 9)

MOST_TIMES, MOST_TIMES_MASKED = 40, 250
"""Of its length that a value may take: copies of it, of up to four bytes a letter; a mask takes it apart."""


def of_parameters(_: Path, value: str) -> None:
    assert parameters(f"$1 = '{value}', $2 = NULL") == (value.replace("''", "'"), None)


def of_a_name(_: Path, value: str) -> None:
    assert not csvlog.BEGIN.match(f'2026-01-31 12:00:00.000 UTC,"{value}",'.encode())


def of_a_document(_: Path, value: str) -> None:
    assert len(Mask()(f'{{"a": "{value}"}}')) == len(value) + 9


def of_an_object(_: Path, value: str) -> None:
    text = f'[\n{{\n"a": "{value}"\n}}\n]\n'
    assert list(objects(io.BytesIO(text.encode()), Trouble())) == [{"a": value}]


def of_statistics(folder: Path, value: str) -> None:
    (folder / "stats.sql").write_text(
        "SELECT * FROM pg_catalog.pg_restore_attribute_stats('schemaname', 'a', 'relname', 'b', "
        f"'attname', 'c', 'inherited', 'f'::boolean, 'most_common_vals', '{{{value}}}'::text);\n"
    )
    (call,) = read_statistics(folder / "stats.sql").columns
    assert call.values["most_common_vals"] == "{" + value.replace("''", "'") + "}"


@pytest.mark.parametrize("value", [PLAIN, QUOTED], ids=["plain", "quoted"])
@pytest.mark.parametrize(
    ("read", "most_times"),
    [
        (of_parameters, MOST_TIMES),
        (of_a_name, MOST_TIMES),
        (of_a_document, MOST_TIMES_MASKED),
        (of_an_object, MOST_TIMES),
        (of_statistics, MOST_TIMES),
    ],
)
def test_long_values_take_little_memory(
    tmp_path: Path, read: Callable[[Path, str], None], most_times: int, value: str
) -> None:
    read(tmp_path, "short")  # what is loaded once is not counted
    tracemalloc.start()
    try:
        read(tmp_path, value)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < most_times * LENGTH
