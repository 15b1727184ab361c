"""Options of TPC-DS."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from pgstrata.tpc.options import TpcOptions
from pgstrata.tpcds.schema import TPCDS


class TpcdsOptions(TpcOptions):
    """Options of TPC-DS."""

    QUERIES: ClassVar[int] = TPCDS.queries

    indexes: Literal["keys", "primary", "none"] = Field(
        "keys",
        description=(
            "`keys`: primary keys and an index on each column that fact tables are joined by "
            "most; `primary`: primary keys"
        ),
    )
