"""Where the memory of processes lies: alike for those that have one layout, else somewhere else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.layout import Layout, draw, not_randomized
from pgstrata.server.system.process import spawn

needed = pytest.mark.skipif(draw() is None, reason="this kernel does not let a program choose its layout")

ADDRESSES = """
import ctypes, os
libc = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value
(top,) = [line.split("-")[1].split()[0] for line in open("/proc/self/maps") if line.endswith("[stack]\\n")]
begin = open("/proc/self/stat").read().rsplit(")", 1)[1].split()[25]
print(libc, top, begin)
"""


def started(folder: Path, layout: Layout | None, env: Mapping[str, str]) -> list[str]:
    """Addresses of a library and of both ends of the stack."""
    out = folder / "out"
    with out.open("wb") as file:
        process = spawn(
            [sys.executable, "-c", ADDRESSES],
            account=None,
            folder=folder,
            env={"PATH": os.environ["PATH"], **env},
            output=file,
            death_signal=signal.SIGKILL,
            layout=layout,
        )
    assert process.wait() == 0, out.read_text()
    return out.read_text().split()


@pytest.mark.program
@needed
def test_processes_of_one_layout_lie_at_the_same_places(tmp_path: Path) -> None:
    """Whatever their environment is."""
    layout = Layout(pages=1234, grains=17)
    assert started(tmp_path, layout, {"A": "b"}) == started(tmp_path, layout, {"A": "b" * 777, "C": "d"})


@pytest.mark.program
@needed
def test_another_layout_moves_libraries_and_stack(tmp_path: Path) -> None:
    # By whole large pages: large libraries are put at the begin of one.
    library, top, begin = started(tmp_path, Layout(0, 0), {})
    moved, same_top, lower = started(tmp_path, Layout(1024, 10), {})
    assert int(library) - int(moved) == 1024 * 4096
    assert same_top == top
    assert 0 < int(begin) - int(lower) <= 10 * 16


@pytest.mark.program
@needed
def test_without_a_layout_the_kernel_draws_one(tmp_path: Path) -> None:
    if Path("/proc/sys/kernel/randomize_va_space").read_text().strip() == "0":
        pytest.skip("this machine randomizes nothing")
    assert len({started(tmp_path, None, {})[0] for _ in range(3)}) > 1


@given(
    st.dictionaries(
        st.from_regex(r"[A-Z_]{1,20}", fullmatch=True),
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=9000),
        max_size=4,
    ),
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=50), min_size=1, max_size=5
    ),
    st.integers(0, 255),
)
def test_environments_are_filled_up_to_the_same_size(
    env: dict[str, str], command: list[str], grains: int
) -> None:
    filled = Layout(0, grains).filled(command, env)
    words = [*command, *(f"{name}={value}" for name, value in filled.items())]
    # Each word has a pointer to it, and the program's name stands there once more.
    size = sum(len(text.encode()) + 1 for text in (command[0], *words)) + 8 * len(words)
    assert (size - 16 * grains) % (16 << 10) == 0
    assert {name: filled[name] for name in env} == env


def test_an_environment_need_not_be_text() -> None:
    filled = Layout(0, 0).filled(["/bin/true"], {"PATH": os.fsdecode(b"/\xff")})
    words = ("/bin/true", "/bin/true", *(f"{name}={value}" for name, value in filled.items()))
    assert sum(len(os.fsencode(word)) + 1 for word in words) + 8 * 3 == 16 << 10


def test_a_draw_leaves_this_process_as_it_was() -> None:
    ask = "/proc/self/personality"
    before = Path(ask).read_text()
    drawn = {draw() for _ in range(20)}
    assert Path(ask).read_text() == before
    assert drawn == {None} or len(drawn) > 10


@pytest.mark.program
@needed
def test_a_driver_lies_where_it_always_does(tmp_path: Path) -> None:
    def libraries() -> str:
        done = subprocess.run(
            [sys.executable, "-c", ADDRESSES],
            preexec_fn=not_randomized,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split()[0]

    assert libraries() == libraries()
