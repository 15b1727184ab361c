"""A server that does what no PostgreSQL server would: one behaviour for each name.

Messages are those of the protocol's documentation; what is wrong about each is what its name says.
"""

from __future__ import annotations

import contextlib
import random
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m"
HUGE = 50_000_000


def message(tag: bytes, body: bytes, length: int | None = None) -> bytes:
    """A message; length: what its header claims instead of the truth."""
    claimed = len(body) + 4 if length is None else length
    return tag + struct.pack("!I", claimed & 0xFFFFFFFF) + body


def auth(kind: int, rest: bytes = b"") -> bytes:
    return message(b"R", struct.pack("!I", kind) + rest)


def status(name: str, value: str) -> bytes:
    return message(b"S", f"{name}\0{value}\0".encode())


def error(*fields: bytes) -> bytes:
    return message(b"E", b"".join(field + b"\0" for field in fields) + b"\0")


def columns(*names: str, oid: int = 23) -> bytes:
    each = b"".join(n.encode() + b"\0" + struct.pack("!IHIhiH", 0, 0, oid, 4, -1, 0) for n in names)
    return message(b"T", struct.pack("!H", len(names)) + each)


def row(*values: bytes, count: int | None = None) -> bytes:
    body = b"".join(struct.pack("!i", len(v)) + v for v in values)
    return message(b"D", struct.pack("!H", len(values) if count is None else count) + body)


OK = auth(0)
KEY = message(b"K", struct.pack("!ii", 4242, 1))
READY = message(b"Z", b"I")
NOTICE = message(b"N", b"SNOTICE\0C00000\0Mhello\0\0")
COMPLETE = message(b"C", b"SELECT 1\0")
ANSWER = columns("a") + row(b"1") + COMPLETE + READY
HELLO = OK + status("server_version", "17.0") + status("client_encoding", "UTF8") + KEY + READY


class Talk:
    """One connection as a behaviour sees it."""

    def __init__(self, connection: socket.socket, over: threading.Event) -> None:
        self.connection = connection
        self.over = over

    def say(self, *parts: bytes) -> None:
        for part in parts:
            self.connection.sendall(part)

    def exactly(self, n: int) -> bytes:
        data = b""
        while len(data) < n:
            more = self.connection.recv(n - len(data))
            if not more:
                raise ConnectionError
            data += more
        return data

    def start(self) -> bytes:
        """Takes the start-up message; TLS and GSSAPI are declined, a request to cancel is none."""
        while True:
            length, code = struct.unpack("!II", self.exactly(8))
            rest = self.exactly(length - 8)
            if code in (80877103, 80877104):
                self.say(b"N")
            elif code == 80877102:
                raise ConnectionError
            else:
                return rest

    def hear(self) -> tuple[bytes, bytes]:
        """The next message of the client."""
        tag = self.exactly(1)
        (length,) = struct.unpack("!I", self.exactly(4))
        return tag, self.exactly(length - 4)

    def wait(self) -> None:
        """Says nothing more until the test is over or the client has gone."""
        self.connection.settimeout(0.05)
        while not self.over.is_set():
            try:
                if not self.connection.recv(65536):
                    return
            except TimeoutError:
                continue

    def flood(self, part: bytes) -> None:
        """Sends the same for ever, some 50 MB a second: the client's memory is tested, not ours."""
        chunk = part * max(1, 65536 // len(part))
        while not self.over.is_set():
            self.say(chunk)
            time.sleep(0.001)

    def ready(self) -> None:
        self.start()
        self.say(HELLO)

    def asked(self) -> None:
        """Takes what the client asks: a simple query, or everything up to a Sync."""
        while self.hear()[0] not in (b"Q", b"S"):
            pass

    def scram(self, first: Callable[[bytes], bytes]) -> None:
        """The first exchange of SCRAM; first: the server's message, made of the client's nonce."""
        self.start()
        self.say(auth(10, b"SCRAM-SHA-256\0\0"))
        _, body = self.hear()
        nonce = body.partition(b",r=")[2]
        self.say(auth(11, first(nonce)))


Behaviour = Callable[[Talk], None]

START: dict[str, Behaviour] = {}
"""What goes wrong before the client may ask anything."""

QUERY: dict[str, Behaviour] = {}
"""What goes wrong when it has asked."""


def _says(*parts: bytes, then: str = "close") -> Behaviour:
    def behave(talk: Talk) -> None:
        talk.start()
        talk.say(*parts)
        if then == "wait":
            talk.wait()

    return behave


def _answers(*parts: bytes, then: str = "close") -> Behaviour:
    def behave(talk: Talk) -> None:
        talk.ready()
        talk.asked()
        talk.say(*parts)
        while then == "again":
            talk.asked()
            talk.say(*parts)
        if then == "wait":
            talk.wait()

    return behave


def _floods(before: bytes, part: bytes) -> Behaviour:
    def behave(talk: Talk) -> None:
        talk.start()
        talk.say(before)
        talk.flood(part)

    return behave


def _floods_answer(before: bytes, part: bytes) -> Behaviour:
    def behave(talk: Talk) -> None:
        talk.ready()
        talk.asked()
        talk.say(before)
        talk.flood(part)

    return behave


def _drip(data: bytes) -> Behaviour:
    def behave(talk: Talk) -> None:
        talk.start()
        while not talk.over.is_set():
            for byte in data:
                talk.say(bytes([byte]))
                time.sleep(0.05)

    return behave


def _again_and_again(request: bytes) -> Behaviour:
    def behave(talk: Talk) -> None:
        talk.start()
        while not talk.over.is_set():
            talk.say(request)
            talk.hear()

    return behave


def _scram_ends(*parts: bytes) -> Behaviour:
    def behave(talk: Talk) -> None:
        talk.scram(lambda nonce: b"r=" + nonce + b"x,s=QUFBQQ==,i=4096")
        talk.hear()
        talk.say(*parts)
        talk.wait()

    return behave


def _scram(first: Callable[[bytes], bytes]) -> Behaviour:
    def behave(talk: Talk) -> None:
        talk.scram(first)
        talk.wait()

    return behave


def _garbage(seed: int, n: int) -> bytes:
    return random.Random(seed).randbytes(n)


def _closes_at_once(talk: Talk) -> None:
    pass


def _silent(talk: Talk) -> None:
    talk.wait()


START |= {
    "silent": _silent,
    "closes at once": _closes_at_once,
    "closes after the start-up message": _says(),
    "silent after the start-up message": _says(then="wait"),
    "garbage": _says(_garbage(1, 5000)),
    "garbage, then silence": _says(_garbage(2, 100_000), then="wait"),
    "zeros": _says(bytes(10_000), then="wait"),
    "a web server": _says(b"HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n"),
    "an SSH server": _says(b"SSH-2.0-OpenSSH_9.2\r\n", then="wait"),
    "half a message": _says(OK[:7], then="wait"),
    "half a message, then the end": _says(OK[:7]),
    "a slow drip": _drip(NOTICE),
    "length 0": _says(message(b"R", b"", 0), then="wait"),
    "length 3": _says(message(b"R", b"", 3), then="wait"),
    "a negative length": _says(message(b"R", b"\0" * 8, -1), then="wait"),
    "2 GB announced": _says(message(b"R", b"\0" * 8, 0x7FFFFFFF), then="wait"),
    "2 GB of a notice": _floods(message(b"N", b"", 0x7FFFFFFF), b"x"),
    "1 GB of a parameter": _floods(OK + message(b"S", b"", 0x3FFFFFFF), b"x"),
    "100 KB before authentication": _says(message(b"N", b"S" + b"x" * 100_000 + b"\0\0"), then="wait"),
    "endless notices before authentication": _floods(b"", NOTICE),
    "endless notices": _floods(OK, NOTICE),
    "endless parameters": _floods(OK, status("a", "b")),
    "ever new parameters": _floods(OK, b"".join(status(f"p{i}", "x" * 100) for i in range(500))),
    "an unknown kind of authentication": _says(auth(99), then="wait"),
    "GSSAPI": _says(auth(7), then="wait"),
    "authentication without a kind": _says(message(b"R", b"\0\0"), then="wait"),
    "MD5 without its salt": _says(auth(5, b"a"), then="wait"),
    "the password again and again": _again_and_again(auth(3)),
    "SASL without mechanisms": _says(auth(10, b"\0"), then="wait"),
    "SASL with unknown mechanisms": _says(auth(10, b"SCRAM-SHA-256-PLUS\0X\xff\0\0"), then="wait"),
    "SASL without an end": _says(auth(10, b"SCRAM-SHA-25"), then="wait"),
    "SASL again and again": _again_and_again(auth(10, b"SCRAM-SHA-256\0\0")),
    "SASL goes on before it began": _says(auth(11, b"r=x,s=QUFB,i=1"), then="wait"),
    "SASL ends before it began": _says(auth(12, b"v=QUFB"), then="wait"),
    "SCRAM with nonsense": _scram(lambda nonce: _garbage(3, 200)),
    "SCRAM with another nonce": _scram(lambda nonce: b"r=other,s=QUFB,i=4096"),
    "SCRAM with no rounds": _scram(lambda nonce: b"r=" + nonce + b"x,s=QUFB,i=0"),
    "SCRAM with 4 billion rounds": _scram(lambda nonce: b"r=" + nonce + b"x,s=QUFB,i=4294967295"),
    "SCRAM with 2 billion rounds": _scram(lambda nonce: b"r=" + nonce + b"x,s=QUFB,i=2147483647"),
    "SCRAM with a salt that is none": _scram(lambda nonce: b"r=" + nonce + b"x,s=*,i=4096"),
    "SCRAM that ends early": _scram_ends(OK),
    "SCRAM with a wrong signature": _scram_ends(auth(12, b"v=QUFBQQ==")),
    "SCRAM that ends with an error": _scram_ends(auth(12, b"e=other-error")),
    "an empty error": _says(message(b"E", b"")),
    "an error without a message": _says(error(b"C42000")),
    "an error that is not UTF-8": _says(error(b"SFATAL", b"C28000", b"M\xff\xfe\xc3(")),
    "an error that steers the terminal": _says(error(b"SFATAL", b"C28000", b"M" + ESCAPES.encode())),
    "an error of 50 MB": _says(error(b"SFATAL", b"C28000", b"M" + b"x" * HUGE)),
    "an error without an end": _says(message(b"E", b"SFATAL\0Mno end")),
    "an error of protocol 2": _says(b"EFATAL:  too many clients\n\0"),
    "ready before it has admitted": _says(READY, then="wait"),
    "closes after admitting": _says(OK),
    "silent after admitting": _says(OK, then="wait"),
    "a key of the wrong length": _says(OK + message(b"K", b"\0\0"), then="wait"),
    "a parameter without a value": _says(OK + message(b"S", b"abc") + READY, then="wait"),
    "another protocol version": _says(message(b"v", struct.pack("!ii", 99, 7)), then="wait"),
    "a COPY in the start-up": _says(OK + message(b"G", b"\0\0\0") + READY, then="wait"),
    "admitted twice": _says(OK + OK + KEY + READY, then="wait"),
}

QUERY |= {
    "no answer": _answers(then="wait"),
    "two keys": _says(OK + KEY + KEY + status("server_version", "17") + READY, then="wait"),
    "a version that is none": _says(OK + status("server_version", ESCAPES) + KEY + READY, then="wait"),
    "closes when asked": _answers(),
    "half an answer": _answers(ANSWER[:20], then="wait"),
    "half an answer, then the end": _answers(ANSWER[:20]),
    "garbage as an answer": _answers(_garbage(4, 5000), then="wait"),
    "a row before its columns": _answers(row(b"1") + COMPLETE + READY, then="again"),
    "too few columns in a row": _answers(columns("a", "b") + row(b"1") + COMPLETE + READY, then="again"),
    "too many columns in a row": _answers(columns("a") + row(b"1", b"2") + COMPLETE + READY, then="again"),
    "a row that claims more columns": _answers(
        columns("a") + row(b"1", count=9) + COMPLETE + READY, then="again"
    ),
    "a column that claims 2 GB": _answers(
        columns("a") + message(b"D", struct.pack("!Hi", 1, 0x7FFFFFFF)) + COMPLETE + READY, then="again"
    ),
    "a column of length -2": _answers(
        columns("a") + message(b"D", struct.pack("!Hi", 1, -2)) + COMPLETE + READY, then="again"
    ),
    "types that nobody knows": _answers(
        columns("a", oid=4294967295) + row(b"\xff\xfe") + COMPLETE + READY, then="again"
    ),
    "columns cut short": _answers(message(b"T", b"\0\5abc") + row(b"1") + COMPLETE + READY, then="again"),
    "a row of 2 GB": _floods_answer(columns("a") + message(b"D", b"", 0x7FFFFFFF), b"x"),
    "endless rows": _floods_answer(columns("a"), row(b"1")),
    "endless notices as an answer": _floods_answer(b"", NOTICE),
    "a notice of 50 MB": _answers(
        message(b"N", b"SNOTICE\0M" + b"x" * HUGE + b"\0\0") + ANSWER, then="again"
    ),
    "an error of 50 MB as an answer": _answers(
        error(b"SERROR", b"C42601", b"M" + b"x" * HUGE) + READY, then="again"
    ),
    "an error that steers the terminal as an answer": _answers(
        error(b"SERROR", b"C42601", b"M" + ESCAPES.encode(), b"D" + ESCAPES.encode()) + READY, then="again"
    ),
    "a FATAL error and the end": _answers(error(b"SFATAL", b"C57P01", b"Mgone")),
    "more after the answer": _answers(ANSWER + COMPLETE + READY + READY + row(b"7"), then="again"),
    "a count beyond all numbers": _answers(
        columns("a") + row(b"1") + message(b"C", b"SELECT " + b"9" * 60 + b"\0") + READY, then="again"
    ),
    "an end without a tag": _answers(columns("a") + row(b"1") + message(b"C", b"") + READY, then="again"),
    "ready without an end": _answers(READY, then="again"),
    "ready without a state": _answers(columns("a") + row(b"1") + COMPLETE + message(b"Z", b""), then="again"),
    "ready in a state that is none": _answers(
        columns("a") + row(b"1") + COMPLETE + message(b"Z", b"\xff"), then="again"
    ),
    "asks for rows": _answers(message(b"G", b"\0\0\0"), then="again"),
    "copies out without an end": _floods_answer(message(b"H", b"\0\0\0"), message(b"d", b"x" * 1000)),
    "copies both ways": _answers(message(b"W", b"\0\0\0"), then="again"),
    "messages that nobody knows": _answers(message(b"!", b"abc") * 50 + ANSWER, then="again"),
    "a negative length as an answer": _answers(message(b"C", b"", -1), then="wait"),
    "2 GB announced as an answer": _answers(message(b"C", b"", 0x7FFFFFFF), then="wait"),
    "asks for a password again": _answers(auth(3) + ANSWER, then="again"),
}


# --- a handshake of TLS that never ends -------------------------------------------------------


def _agrees_to_tls(talk: Talk) -> None:
    """Takes the request for TLS and says yes."""
    length, _ = struct.unpack("!II", talk.exactly(8))
    talk.exactly(length - 8)
    talk.say(b"S")


def _tls_then_silence(talk: Talk) -> None:
    _agrees_to_tls(talk)
    talk.wait()


def _tls_half_a_record(talk: Talk) -> None:
    _agrees_to_tls(talk)
    talk.say(b"\x16\x03")
    talk.wait()


def _tls_drips(part: bytes) -> Behaviour:
    """After yes, the bytes of a record, one after the other: each read of the client succeeds in time."""

    def behave(talk: Talk) -> None:
        _agrees_to_tls(talk)
        while not talk.over.is_set():
            for byte in part:
                talk.say(bytes([byte]))
                time.sleep(0.05)

    return behave


def tls_half(certificate: Path, key: Path) -> Behaviour:
    """The first half of what a server with this certificate says, then silence."""

    def behave(talk: Talk) -> None:
        _agrees_to_tls(talk)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        heard, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = context.wrap_bio(heard, outgoing, server_side=True)
        while not outgoing.pending:
            heard.write(talk.connection.recv(65536))
            with contextlib.suppress(ssl.SSLWantReadError):
                server.do_handshake()
        flight = outgoing.read()
        talk.say(flight[: len(flight) // 2])
        talk.wait()

    return behave


TLS: dict[str, Behaviour] = {
    "TLS, then silence": _tls_then_silence,
    "TLS, then a record drop by drop": _tls_drips(b"\x16\x03\x03\x40\x00" + bytes(0x4000)),
    "TLS, then warnings without an end": _tls_drips(b"\x15\x03\x03\x00\x02\x01\x00"),
    "TLS, then half a record": _tls_half_a_record,
}
"""What goes wrong in the handshake of TLS, for clients that ask for it."""


class Hostile:
    """Listens on a Unix socket in `folder` and on 127.0.0.1, and behaves so to every connection.

    decent: so many connections first meet a server that starts up and answers every query.
    """

    def __init__(self, folder: Path, behaviour: Behaviour, decent: int = 0) -> None:
        self.behaviour = behaviour
        self.decent = decent
        self.over = threading.Event()
        self.local = socket.socket(socket.AF_UNIX)
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.tcp.getsockname()[1]
        self.local.bind(f"{folder}/.s.PGSQL.{self.port}")
        self.local.listen(16)
        self.folder = folder
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Hostile:
        for listener in (self.local, self.tcp):
            thread = threading.Thread(target=self._accept, args=[listener], daemon=True)
            thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self.over.set()
        for listener in (self.local, self.tcp):
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)

    @property
    def url(self) -> str:
        return f"postgresql://me:canary@127.0.0.1:{self.port}/d?connect_timeout=2"

    def _accept(self, listener: socket.socket) -> None:
        while not self.over.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with self._lock:
                self.decent, behaviour = self.decent - 1, decent if self.decent > 0 else self.behaviour
            thread = threading.Thread(target=self._talk, args=[connection, behaviour], daemon=True)
            thread.start()
            self._threads.append(thread)
            self._open.append(connection)

    def _talk(self, connection: socket.socket, behaviour: Behaviour) -> None:
        with connection, contextlib.suppress(OSError, struct.error):
            behaviour(Talk(connection, self.over))


def decent(talk: Talk) -> None:
    talk.ready()
    while True:
        tag, _ = talk.hear()
        if tag == b"X":
            return
        if tag in (b"Q", b"S"):
            talk.say(ANSWER)


def everything() -> Iterator[tuple[str, Behaviour]]:
    """All behaviours with their names."""
    yield from START.items()
    yield from QUERY.items()
