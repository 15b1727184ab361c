"""Features of servers by which workloads and checks decide before a server runs.

Each is asked of the files from which initdb makes the catalogs; of somebody else's server, of its catalogs.
Syntax leaves no trace there by itself, so something that came with it, or a little later, stands for it: of
a tree from the days between, the older form of a statement is used, which newer servers take as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pgstrata.server.capabilities import (
    Catalog,
    Programs,
    Question,
    column,
    function,
    relation,
)


class Feature(Enum):
    """A feature: the question that tells whether it is there, and the first release with it, which decides
    only where there is nothing to ask (a server that is not fetched or built yet) and stands in messages."""

    ROLES = ("CREATE ROLE", "8.1", relation("pg_authid"))
    MULTIROW_VALUES = ("VALUES with several rows", "8.2", function("pg_advisory_lock"))
    FILLFACTOR = ("fillfactor", "8.2", column("pg_class", "reloptions"))
    STDDEV_SAMP = ("stddev_samp()", "8.2", function("stddev_samp"))
    TEXT_SEARCH = ("tsvector", "8.3", function("to_tsvector"))
    NULLS_ORDER = ("NULLS FIRST", "8.3", column("pg_index", "indoption"))
    OPTIONAL_AS = ("names of columns without AS", "8.4", function("pg_get_keywords"))
    DO_BLOCKS = ("DO", "9.0", column("pg_language", "laninline"))
    EXPLAIN_JSON = ("EXPLAIN (FORMAT JSON)", "9.0", column("pg_language", "laninline"))
    PLPGSQL = ("PL/pgSQL in every database", "9.0", function("pg_is_in_recovery"))
    CONCAT = ("concat()", "9.1", function("concat"))
    EXTENSIONS = ("CREATE EXTENSION", "9.1", relation("pg_extension"))
    GIN_CLEANING = ("gin_clean_pending_list()", "9.6", function("gin_clean_pending_list"))
    WAL_NAMES = ("pg_current_wal_lsn()", "10", function("pg_current_wal_lsn"))
    PARTITIONED_KEYS = (
        "primary keys on partitioned tables",
        "11",
        column("pg_constraint", "conparentid"),
    )
    PARTITIONED_FOREIGN_KEYS = (
        "foreign keys to partitioned tables",
        "12",
        relation("pg_statistic_ext_data"),
    )

    def __init__(self, title: str, since: str, question: Question) -> None:
        self.title, self.since, self.question = title, since, question

    @property
    def first(self) -> int:
        """The first release with it, as the server counts."""
        major, _, minor = self.since.partition(".")
        return int(major) * 10_000 + int(minor or 0) * 100


@dataclass(frozen=True)
class Features:
    """The features of one server. Equal for servers that have the same."""

    version_num: int
    """As the server counts (170011): for labels, and for what users write for some versions only."""
    programs: Programs | None = None
    """Its programs; None where they are not on this machine, or not yet."""
    asked: frozenset[Feature] | None = None
    """The features that a running server has, where it was asked."""
    settings: frozenset[str] | None = None
    """Names of the settings that a running server has, in lower case, where it was asked."""

    def has(self, feature: Feature) -> bool:
        """Returns whether the server has a feature."""
        if self.asked is not None:
            return feature in self.asked
        answer = None if self.programs is None else self.programs.has(feature.question)
        return self.version_num >= feature.first if answer is None else answer


NEWEST = Features(999_999)
"""Of a server that has everything: for estimates, and to look at what a workload consists of."""


def ask_features(catalog: Catalog) -> frozenset[Feature]:
    """Returns the features of a running server, asked by one statement. Raises psycopg.Error."""
    catalog.learn(feature.question for feature in Feature)
    return frozenset(feature for feature in Feature if catalog.has(feature.question))


__all__ = ["NEWEST", "Feature", "Features", "ask_features"]
