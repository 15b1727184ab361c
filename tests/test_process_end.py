"""How the program ends where a thread is left in the code of a library."""

from __future__ import annotations

import subprocess
import sys

import pytest

LEFT = """
import atexit, threading, time
from pgstrata import process_end
from pgstrata.errors import ServerError
from pgstrata.server.connect.session import within
atexit.register(print, "cleaned up")
print("first")
if {is_left}:
    try:
        within(0.1, lambda: time.sleep(60))
    except ServerError:
        pass
process_end.exit_process(3)
"""


@pytest.mark.program
@pytest.mark.parametrize("is_left", [True, False])
def test_no_library_cleans_up_under_a_thread_that_was_left(is_left: bool) -> None:
    """OpenSSL frees at exit what libpq still computes with in a thread that was given up."""
    code = LEFT.format(is_left=is_left)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 3, done.stderr
    assert done.stdout == ("first\n" if is_left else "first\ncleaned up\n")


ALIVE = """
import ctypes, threading
import duckdb
from pgstrata import process_end
libc = ctypes.CDLL(None)
# Two seconds between the end of the interpreter and that of the process, as when a machine is busy.
libc.__cxa_atexit(ctypes.cast(libc.sleep, ctypes.c_void_p), ctypes.c_void_p(2), None)
query = duckdb.connect().execute
threading.Thread(target=query, args=["SELECT count(*) FROM range(200_000_000) a"], daemon=True).start()
process_end.exit_process(3)
"""


@pytest.mark.program
def test_a_thread_of_duckdb_that_is_alive_at_the_end_aborts_nothing() -> None:
    """It came back from its query when there was no interpreter: the process ended with SIGABRT."""
    done = subprocess.run([sys.executable, "-c", ALIVE], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (3, "")
