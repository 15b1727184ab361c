"""The engine's own TLS: who shows a certificate of the authority is answered, and nobody else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fleet import engine_on_loopback
from support.program import Program
from support.tls import Authority

TLS = "DASK_DISTRIBUTED__COMM__TLS__"


def certificates(authority: Authority, trusted: Authority | None = None) -> dict[str, str]:
    """As docs/guides/fleet.md has it: one certificate for everybody."""
    signed = authority.sign("fleet", "IP:127.0.0.1")
    who = {
        f"{TLS}{role}__{part}": str(file)
        for role in ("SCHEDULER", "WORKER", "CLIENT")
        for part, file in (("CERT", signed.certificate), ("KEY", signed.key))
    }
    return {f"{TLS}CA_FILE": str((trusted or authority).certificate), **who}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def address(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place = tmp_path_factory.mktemp("engine")
    environ = certificates(authority)
    with engine_on_loopback(place, 1, "--protocol", "tls", environ=environ) as (address, _):
        yield address


def test_with_a_certificate(address: str, authority: Authority, pgstrata: Program) -> None:
    assert address.startswith("tls://127.0.0.1:")
    done = pgstrata("fleet", "status", address, "--format", "json", **certificates(authority))
    assert done.returncode == 0, done.stderr
    ((machine,),) = (fleet["machines"] for fleet in json.loads(done.stdout))
    assert machine["name"] == "w1" and machine["doing"] == "free" and "Linux" in machine["kind"]


def test_without_one(address: str, pgstrata: Program) -> None:
    done = pgstrata("fleet", "status", address)
    assert done.returncode == 2 and "has no certificates here" in done.stderr


def test_without_tls(address: str, pgstrata: Program) -> None:
    done = pgstrata("fleet", "status", address.replace("tls://", "tcp://"))
    assert done.returncode == 1 and "no scheduler answers" in done.stderr
    assert "Traceback" not in done.stderr


def test_with_one_of_another_authority(address: str, pgstrata: Program, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    done = pgstrata("fleet", "status", address, **certificates(other))
    assert done.returncode == 1 and "no scheduler answers" in done.stderr
    assert "Traceback" not in done.stderr
