"""Options of workload `vector`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pgstrata.workload.core.options import Clients, OneOrMore, Seconds, Wait, WorkloadOptions

Kind = Literal["hnsw", "ivfflat"]
Distance = Literal["l2", "cosine", "ip"]

Recall = Annotated[float, Field(gt=0, lt=1)]


class VectorOptions(WorkloadOptions):
    """Options of workload `vector`."""

    rows: int = Field(100_000, ge=100, le=100_000_000, description="vectors that are searched")
    dimensions: int = Field(64, ge=2, le=2000, description="numbers of a vector")
    clusters: int = Field(100, ge=1, le=1_000_000, description="places around which vectors lie")
    queries: int = Field(
        200, ge=10, le=100_000, description="vectors that are looked for; recall is that of all of them"
    )
    k: int = Field(10, ge=1, le=1000, description="neighbours that a query asks for")
    distance: Distance = Field("l2", description="`l2`, `cosine`, or `ip`, the negative inner product")
    indexes: Annotated[tuple[Kind, ...], OneOrMore] = Field(
        ("hnsw", "ivfflat"), min_length=1, max_length=2, description="kinds of index, one after the other"
    )
    m: int = Field(16, ge=2, le=100, description="links of a vector in each layer of HNSW")
    ef_construction: int = Field(
        64, ge=4, le=1000, description="candidates while HNSW is built, at least twice m"
    )
    lists: int | None = Field(
        None, ge=1, le=32768, description="lists of IVFFlat; null: one for each thousand rows, at least 10"
    )
    recall: Annotated[tuple[Recall, ...], OneOrMore] = Field(
        (0.9, 0.95, 0.99),
        min_length=1,
        max_length=20,
        description="recall at k that is searched at: each is a step of every index",
    )
    clients: Clients = Field(1, description="connections that search")
    seconds: Seconds = Field(20, description="seconds of each step that searches")
    warmup: Wait = Field(1, description="seconds each of them runs before it is measured")

    @property
    def lists_made(self) -> int:
        """Lists of IVFFlat."""
        return self.lists if self.lists is not None else max(10, self.rows // 1000)

    @model_validator(mode="after")
    def _fits(self) -> VectorOptions:
        if self.k > self.rows:
            raise ValueError(f"k = {self.k} neighbours of {self.rows} rows")
        if self.ef_construction < 2 * self.m:
            raise ValueError(f"ef_construction = {self.ef_construction} is less than twice m = {self.m}")
        if len(set(self.indexes)) < len(self.indexes) or len(set(self.recall)) < len(self.recall):
            raise ValueError("an index or a recall is named twice")
        names = {f"{recall:.6g}" for recall in self.recall}
        if len(names) < len(self.recall):
            raise ValueError("two recalls are as good as equal")
        return self


__all__ = ["Distance", "Kind", "VectorOptions"]
