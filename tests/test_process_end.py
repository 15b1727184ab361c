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
