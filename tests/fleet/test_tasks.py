"""What a worker accepts: one of the tasks, and nothing else."""

from __future__ import annotations

import pickle

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.errors import UsageError
from pgstrata.fleet.tasks import Look, Unable, Wanted, decode_answer, decode_task, encode


def test_there_and_back() -> None:
    task = Look(data_dir=None, servers=(Wanted(spec="pg:17.11", variant=0),), mark="/results/.fleet/mark")
    assert decode_task(encode(task)) == task
    answer = Unable(message="no", ended=True)
    assert decode_answer(encode(answer)) == answer


@given(st.binary(max_size=200))
def test_bytes_that_are_no_task(text: bytes) -> None:
    with pytest.raises(UsageError, match="no task of a fleet"):
        decode_task(text)


@pytest.mark.parametrize(
    "value",
    [
        {"type": "run", "command": "rm -rf /"},
        {"type": "look", "data_dir": None, "servers": "all"},
        {"type": "compare", "campaign": "print(1)"},
        {"type": "seen"},
    ],
)
def test_values_that_are_no_task(value: object) -> None:
    with pytest.raises(UsageError, match="no task of a fleet"):
        decode_task(msgspec.msgpack.encode(value))


def test_code_is_no_task() -> None:
    with pytest.raises(UsageError):
        decode_task(pickle.dumps(print))


@pytest.mark.parametrize(
    ("spec", "travels"),
    [("pg:17.11", True), ("release:9.0.23", True), ("path:/usr", False), ("dsn:host=x", False)],
)
def test_which_servers_travel(spec: str, travels: bool) -> None:
    assert Wanted(spec=spec, variant=0).travels is travels
