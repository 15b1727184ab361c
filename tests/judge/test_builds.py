"""Which servers were compiled alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.judge.builds import code_flags, unlike

SMALL = "'CFLAGS=-Os -DMAP_HUGETLB=0x40000' '--with-icu' '--prefix=/a b'"
FAST = "'--with-icu' 'CFLAGS=-O2 -DMAP_HUGETLB=0x40000' '--with-libs=/opt/lib'"


@pytest.mark.parametrize(
    ("build", "flags"),
    [
        (SMALL, {"-Os"}),
        (FAST, {"-O2"}),
        ("'--with-openssl' '--enable-cassert' 'CC=clang-19'", {"--enable-cassert", "clang-19"}),
        (
            "'CFLAGS=-O3 -march=native -flto=auto -g' 'LDFLAGS=-Wl,-O1 -flto'",
            {"-O3", "-march=native", "-flto=auto", "-flto"},
        ),
        ("'-Db_staticpic=true' 'CC=cc' 'CFLAGS=-O2 -g'", {"-fPIC", "cc", "-O2"}),
        ("", set()),
    ],
)
def test_flags_that_change_the_code(build: str, flags: set[str]) -> None:
    assert code_flags(build) == flags


def test_servers_compiled_unlike_the_base_are_named_together() -> None:
    builds = {"pg10": FAST, "pg11": SMALL, "pg12": SMALL, "theirs": "", "pg9.6": FAST}
    (sentence,) = unlike(builds, "pg10")
    assert sentence.startswith("pg11, pg12: compiled with -Os where pg10 has -O2;")
    assert [s.split(":")[0] for s in unlike(builds, "pg11")] == ["pg10, pg9.6"]
    assert unlike(builds, "theirs") == []
    assert (
        "the compiler's defaults where pg12 has -Os"
        in unlike({"pg12": SMALL, "x": "'--with-icu'"}, "pg12")[0]
    )


@given(st.text())
def test_any_text_has_flags(build: str) -> None:
    assert unlike({"a": build, "b": build}, "a") == []
