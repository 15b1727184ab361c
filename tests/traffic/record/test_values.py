"""Binary parameters: the text of each is what a real server reads as the same value."""

from __future__ import annotations

import struct

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import pq

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.traffic.record.values import text_of

VALUES = {
    "bool": ["t", "f"],
    "int2": ["-32768", "7"],
    "int4": ["0", "2147483647"],
    "int8": ["-9223372036854775808", "5"],
    "oid": ["4294967295"],
    "float4": ["0.1", "-Infinity", "NaN", "3.4028235e38"],
    "float8": ["0.1", "1e-300", "Infinity"],
    "numeric": [
        "0", "0.00", "-1.50", "12345678901234567890.000000001", "1e-20", "10000", "0.0001", "NaN", "1e30",
        "-Infinity",
    ],
    "text": ["ü \" \\ '", ""],
    "varchar": ["a"],
    "json": ['{"a": 1}'],
    "jsonb": ['{"a": [1, null]}'],
    "bytea": ["\\x00ff41", "\\x"],
    "uuid": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "date": ["1999-12-31", "0001-01-01", "9999-12-31", "infinity", "-infinity"],
    "time": ["00:00:00", "24:00:00", "12:34:56.789"],
    "timetz": ["12:34:56.789-05:30", "01:02:03+14"],
    "timestamp": ["1969-07-20 20:17:40.5", "9999-12-31 23:59:59.999999", "infinity"],
    "timestamptz": ["2026-11-26 15:00:00+02", "-infinity"],
    "interval": ["1 year 2 mons -3 days", "-1 day -00:00:00.000001", "178000000 years", "300:00:00"],
    "inet": ["10.0.0.1", "10.1.0.0/16", "::1", "fe80::/10"],
    "cidr": ["10.1.0.0/16"],
    "bit(3)": ["101"],
    "varbit": ["10101010101", ""],
    "int4[]": ["{}", "{1,NULL,3}", "{{1,2},{3,4}}", "[0:1]={1,2}"],
    "text[]": ['{"a b",NULL,"NULL","",",\\"\\\\"}'],
    "numeric[]": ["{1.50,NaN}"],
    "timestamptz[]": ["{2026-11-26 15:00:00+02}"],
    "uuid[]": ["{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}"],
    "jsonb[]": ['{"{\\"a\\": 1}"}'],
}  # fmt: skip


@pytest.mark.parametrize("kind", VALUES)
def test_a_server_reads_the_same_value(cluster: Cluster, kind: str) -> None:
    with cluster.connect() as connection:
        for value in VALUES[kind]:
            done = connection.pgconn.exec_params(
                f"SELECT $1::{kind}".encode(), [value.encode()], result_format=pq.Format.BINARY
            )
            assert done.status == pq.ExecStatus.TUPLES_OK, done.error_message
            data = done.get_value(0, 0)
            assert data is not None
            text = text_of(done.ftype(0), data)
            assert text is not None, value
            same = connection.pgconn.exec_params(
                f"SELECT $1::{kind}".encode(), [text.encode()], result_format=pq.Format.BINARY
            )
            assert same.get_value(0, 0) == data, (value, text)


def test_types_of_users(cluster: Cluster) -> None:
    with cluster.connect() as connection:
        connection.execute("DROP TYPE IF EXISTS mood")
        connection.execute("CREATE TYPE mood AS ENUM ('so so')")
        oid = connection.execute("SELECT 'mood'::regtype::oid").fetchone()
        assert oid is not None
        assert text_of(oid[0], b"so so") == "so so"
    assert text_of(20_000, b"\0\0\0\2") is None
    # Geometric and other types of the server's own are not known.
    assert text_of(600, bytes(16)) is None


def test_what_no_text_of_a_date_says(cluster: Cluster) -> None:
    assert text_of(1082, struct.pack("!i", -900_000)) is None


@given(
    st.sampled_from([16, 17, 20, 23, 700, 869, 1007, 1082, 1114, 1186, 1231, 1700, 2950, 3802]), st.binary()
)
def test_any_bytes_are_a_value_or_none(oid: int, data: bytes) -> None:
    assert isinstance(text_of(oid, data), str | None)


@given(
    st.lists(
        st.none()
        | st.text(st.characters(exclude_characters="\0", categories=("L", "N", "P", "S", "Z", "Cc"))),
        min_size=1,
    )
)
def test_texts_of_an_array_are_kept_apart(values: list[str | None]) -> None:
    data = struct.pack("!iiI", 1, 0, 25) + struct.pack("!ii", len(values), 1)
    for value in values:
        encoded = None if value is None else value.encode()
        data += struct.pack("!i", -1) if encoded is None else struct.pack("!i", len(encoded)) + encoded
    text = text_of(1009, data)
    assert text is not None
    assert psycopg.adapt.Transformer().get_loader(1009, pq.Format.TEXT).load(text.encode()) == values
