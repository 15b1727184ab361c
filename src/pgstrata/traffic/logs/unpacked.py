"""Files of a log that gzip, bzip2, xz or zstd has packed, read as they are unpacked.

Memory is bounded by the formats' own windows, and a file that unpacks to far more than a log does is refused.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import shutil
import subprocess
import threading
import zlib
from codecs import BOM_UTF8
from typing import IO, Any, cast

from pgstrata import numbers
from pgstrata.errors import UsageError

ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""What reading a packed file raises where it is damaged or cut off."""

MOST_TIMES = 5000
"""Times as many bytes as the packed file has. A log of equal lines is packed to a thousandth by gzip."""

ALWAYS = 1 << 30
"""Bytes that any file may unpack to."""

_XZ_MEMORY = 256 << 20
"""Bytes: `xz -9` needs 65 MiB to unpack, a file that asks for more than this is no log."""

_CHUNK = 1 << 16


class _Unxz(io.RawIOBase):
    """Unpacks xz with bounded memory, which `lzma.LZMAFile` does not offer."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._next: lzma.LZMADecompressor | None = None

    def readable(self) -> bool:
        """Returns True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills the buffer as far as a block goes; returns 0 at the end."""
        while True:
            unpacker = self._next
            if unpacker is None or unpacker.eof:
                data = (unpacker.unused_data if unpacker else b"") or self._raw.read(_CHUNK)
                data = data.lstrip(b"\0") or self._raw.read(_CHUNK).lstrip(b"\0")
                if not data:
                    return 0
                self._next = unpacker = lzma.LZMADecompressor(memlimit=_XZ_MEMORY)
            else:
                data = self._raw.read(_CHUNK) if unpacker.needs_input else b""
                if not data and unpacker.needs_input:
                    raise EOFError("its packed data are cut off")
            output = unpacker.decompress(data, len(buffer))
            if output:
                buffer[: len(output)] = output
                return len(output)


class _Unzstd(io.RawIOBase):
    """Unpacks zstd by the program of that name, which Python has not before 3.14."""

    def __init__(self, raw: IO[bytes]) -> None:
        program = shutil.which("zstd")
        if program is None:
            raise UsageError(
                "the log is packed with zstd, and there is no program zstd here to unpack it",
                "install it (package zstd), or unpack elsewhere: zstdcat LOG | pgstrata capture - -o FILE",
            )
        # Its own bound of memory is 128 MiB (--memory); more is asked for by nothing but --ultra --long.
        self._process = subprocess.Popen(
            [program, "-dcq"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._feeder = threading.Thread(target=self._feed, args=(raw,), daemon=True)
        self._failure: BaseException | None = None
        self._feeder.start()

    def readable(self) -> bool:
        """Returns True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills the buffer as far as there is something; returns 0 at the end."""
        assert self._process.stdout is not None
        data = self._process.stdout.read1(len(buffer))  # type: ignore[attr-defined]
        if not data:
            self._feeder.join()
            if self._failure is not None:
                raise self._failure
            if self._process.wait():
                assert self._process.stderr is not None
                complaint = self._process.stderr.read().decode("utf-8", "replace").strip()
                raise EOFError(complaint.rpartition("zstd: ")[2] or "its packed data are damaged")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Ends the program, also before its end."""
        if not self.closed and hasattr(self, "_process"):
            self._process.kill()
            for pipe in (self._process.stdout, self._process.stderr):
                if pipe is not None:
                    pipe.close()
            self._process.wait()
        super().close()

    def _feed(self, raw: IO[bytes]) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        try:
            while data := raw.read(_CHUNK):
                stdin.write(data)
        except BrokenPipeError:
            pass  # the program says why it has ended
        except BaseException as error:  # handed over to the reader
            self._failure = error
        finally:
            with contextlib.suppress(OSError):
                stdin.close()


class _Bounded(io.RawIOBase):
    """Unpacked bytes, of which there are at most MOST_TIMES as many as packed ones."""

    def __init__(self, unpacked: io.RawIOBase | io.BufferedIOBase, raw: IO[bytes], counts: Counted) -> None:
        self._unpacked, self._counts, self._raw = unpacked, counts, raw
        self._made = 0

    def readable(self) -> bool:
        """Returns True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills the buffer. Raises UsageError for a file that unpacks to far too much."""
        size = self._unpacked.readinto(buffer) or 0
        self._made += size
        if self._made > ALWAYS and self._made > MOST_TIMES * self._counts.bytes:
            raise UsageError(
                f"the log unpacks to more than {MOST_TIMES:,} times its size "
                f"({numbers.size(self._counts.bytes)} were read): no log is packed so small",
                "unpack it yourself and look at it",
            )
        return size

    def close(self) -> None:
        """Closes what unpacks."""
        self._unpacked.close()
        super().close()


class Counted(io.RawIOBase):
    """Packed bytes, counted."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self.bytes = 0

    def readable(self) -> bool:
        """Returns True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills the buffer."""
        data = self._raw.read(len(buffer))
        self.bytes += len(data)
        buffer[: len(data)] = data
        return len(data)


def unpacked(raw: IO[bytes]) -> IO[bytes]:
    """Returns the bytes of a file, unpacked where gzip, bzip2, xz or zstd has packed them, and without the
    byte order mark with which programs of Windows begin text.

    raw: buffered. This and reading raise one of ERRORS where the file is damaged, UsageError where it is far
    too large for a log.
    """
    lines = cast(io.BufferedReader, _unpacked(raw))
    if lines.peek(len(BOM_UTF8)).startswith(BOM_UTF8):
        lines.read(len(BOM_UTF8))
    return lines


def _unpacked(raw: IO[bytes]) -> IO[bytes]:
    head = cast(io.BufferedReader, raw).peek(6)[:6]
    counted = Counted(raw)
    packed = cast(IO[bytes], io.BufferedReader(counted, _CHUNK))
    stream: io.RawIOBase | io.BufferedIOBase
    if head.startswith(b"\x1f\x8b"):
        stream = gzip.GzipFile(fileobj=packed)
    elif head.startswith(b"BZh"):
        stream = bz2.BZ2File(packed)
    elif head.startswith(b"\xfd7zXZ\0"):
        stream = _Unxz(packed)
    elif head.startswith(b"\x28\xb5\x2f\xfd"):
        stream = _Unzstd(packed)
    else:
        return raw
    return cast(IO[bytes], io.BufferedReader(_Bounded(stream, raw, counted), 1 << 18))


__all__ = ["ALWAYS", "ERRORS", "MOST_TIMES", "unpacked"]
