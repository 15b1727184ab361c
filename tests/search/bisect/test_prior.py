"""The prior of commits: what they touch against what the step executes, and never nothing."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pgstrata.search.bisect.prior import UNIFORM, Executed, prior_of
from pgstrata.source.touched import Touched

FILES = {"hot": "src/backend/a.c", "cold": "src/backend/b.c"}
NAMES = st.sampled_from(["hot", "cold", "else", "pg_view"])
PATHS = st.sampled_from(
    [*FILES.values(), "doc/a.sgml", "src/include/a.h", "configure", "src/bin/x.c", "\udcff.c"]
)
SHARES = st.dictionaries(st.sampled_from(["hot", "cold", "libc"]), st.floats(0, 1), max_size=3)


def in_function(name: str, path: str, message: str = "") -> Touched:
    return Touched({path}, {path}, {name}, message)


@given(
    changes=st.lists(
        st.builds(Touched, st.sets(PATHS), st.sets(PATHS), st.sets(NAMES), st.text(max_size=30)), min_size=1
    ),
    own_shares=SHARES,
    differs=SHARES,
)
@example([Touched(set(), set(), {"hot"}, "")], {}, {"hot": 5e-324})
def test_no_commit_is_ruled_out_and_together_they_are_one(
    changes: list[Touched], own_shares: dict[str, float], differs: dict[str, float]
) -> None:
    prior = prior_of(changes, Executed(own_shares, differs, FILES, frozenset({"pg_view"})))
    assert sum(prior) == pytest.approx(1)
    assert all(p >= UNIFORM / len(changes) * 0.999 for p in prior)
    assert all(math.isfinite(p) for p in prior)


def test_what_is_executed_comes_before_its_file_and_that_before_the_rest() -> None:
    changes = [
        in_function("hot", "src/backend/a.c"),
        in_function("helper", "src/backend/a.c"),
        in_function("cold", "src/backend/b.c"),
        in_function("main", "src/bin/x.c"),
        Touched({"doc/a.sgml"}),
    ]
    prior = prior_of(changes, Executed({"hot": 0.5}, {}, FILES))
    assert prior == sorted(prior, reverse=True) and len(set(prior)) == 5


def test_what_differs_between_the_ends_counts_most() -> None:
    changes = [in_function(name, file) for name, file in FILES.items()]
    hot, cold = prior_of(changes, Executed({"hot": 0.9, "cold": 0.1}, {"cold": 1.0}, FILES))
    assert cold > hot


def test_words_are_weak() -> None:
    plain, speaking = prior_of(
        [in_function("else", "src/backend/c.c"), in_function("else", "src/backend/c.c", "optimize it")],
        Executed(),
    )
    assert plain < speaking < 2 * plain


def test_a_view_that_the_step_names_is_likely() -> None:
    view = Touched({"src/backend/v.sql"}, {"src/backend/v.sql"}, {"pg_view"})
    other = Touched({"src/backend/v.sql"}, {"src/backend/v.sql"}, {"pg_other"})
    first, two = prior_of([view, other], Executed({"hot": 1.0}, {}, FILES, frozenset({"pg_view"})))
    assert first > 2 * two


def test_a_change_of_comments_is_as_good_as_none() -> None:
    comment, code = prior_of(
        [Touched({"src/backend/a.c"}), in_function("helper", "src/backend/a.c")], Executed()
    )
    assert code > 3 * comment
