"""Options of workload `tproc-c`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pgstrata.tproc_c.rules import Size, Transaction
from pgstrata.workload.core.language import Mode
from pgstrata.workload.core.options import ClientCounts, CurveOptions, OneOrMore, Seconds, Wait

Warehouses = Annotated[int, Field(ge=1, le=100_000)]

StepName = Literal["mix"] | Transaction

MIX: StepName = "mix"


class TprocCOptions(CurveOptions):
    """Options of workload `tproc-c`."""

    warehouses: Annotated[tuple[Warehouses, ...], OneOrMore] = Field(
        (10,),
        min_length=1,
        max_length=20,
        description="warehouses (about 100 MB each), one number after another; each loads anew",
    )
    clients: ClientCounts = Field(
        (1, 2, 4),
        min_length=1,
        max_length=100,
        description="virtual users, connections without pauses, one number after another; also `1..N`",
    )
    transactions: Annotated[tuple[StepName, ...], OneOrMore] = Field(
        (MIX,),
        min_length=1,
        max_length=6,
        description="steps: `mix` (10/10/1/1/1 of 23), and kinds of transactions alone",
    )
    code: Literal["functions", "sets", "statements"] = Field(
        "functions",
        description="transactions are one call of a function in PL/pgSQL, or statements of the client; "
        "`sets`: functions whose statements work on a whole order, as HammerDB's",
    )
    mode: Mode = Field("prepared", description="query mode of the calls or statements")
    all_warehouses: bool = Field(
        False,
        description="a virtual user works on its share of all warehouses, one drawn for each transaction; "
        "false: on its own only",
    )
    keying: bool = Field(
        False, description="keying and think times of the specification between transactions"
    )
    size: Size = Field(
        "specification",
        description="rows of a warehouse; `tiny`: 1,000 items and 100 customers of a district, for tests",
    )
    conditions: Literal["all", "four", "none"] = Field(
        "all",
        description="consistency conditions checked: 1 to 4 after each step, and `all` after the last; a "
        "violation fails the run",
    )
    load_connections: int = Field(2, ge=1, le=256, description="connections that load and index")
    checkpoint: bool = Field(True, description="checkpoint before each step")
    seconds: Seconds = Field(60, description="seconds of each step")
    warmup: Wait = Field(5, description="seconds each step runs before it is measured")

    @model_validator(mode="after")
    def _nothing_twice(self) -> TprocCOptions:
        for name in ("warehouses", "clients", "transactions"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise ValueError(f"{name} names one of {', '.join(map(str, values))} twice")
        return self


__all__ = ["MIX", "StepName", "TprocCOptions"]
