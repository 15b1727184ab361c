"""What a server's log says of its end."""

from __future__ import annotations

import pytest

from pgstrata.server.system.log_end import last_words


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            'TRAP: failed Assert("a > 0"), File: "heapam.c", Line: 7, PID: 12\n'
            "LOG:  server process (PID 12) was terminated by signal 6: Aborted\n",
            'TRAP: failed Assert("a > 0"), File: "heapam.c", Line: 7, PID: 12',
        ),
        (
            "2026-01-02 LOG:  server process (PID 12) was terminated by signal 11: Segmentation fault\n"
            "2026-01-02 LOG:  terminating any other active server processes\n",
            "server process (PID 12) was terminated by signal 11: Segmentation fault",
        ),
        ("LOG:  checkpoint starting: time\n", ""),
    ],
)
def test_a_failed_assertion_or_a_signal_are_a_servers_last_words(log: str, words: str) -> None:
    assert last_words(log) == words
