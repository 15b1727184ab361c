"""Options of TPC-H."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from pgstrata.tpc.options import TpcOptions
from pgstrata.tpch.schema import TPCH


class TpchOptions(TpcOptions):
    """Options of TPC-H."""

    QUERIES: ClassVar[int] = TPCH.queries

    refresh: bool = Field(True, description="RF1 before the power run, RF2 after it")
    indexes: Literal["keys", "primary", "none"] = Field(
        "keys",
        description=("`keys`: primary keys, and columns of foreign keys; `primary`: primary keys"),
    )

    @model_validator(mode="after")
    def _refreshable(self) -> Self:
        if self.refresh and self.passes and self.indexes == "none":
            raise ValueError(
                "the refresh functions find orders by their keys: set `refresh = false`, "
                'or `indexes = "primary"`'
            )
        return self
