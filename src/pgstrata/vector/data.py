"""Vectors drawn from a seed, and which of them are nearest: made once, kept in the cache, read by COPY.

Each is a place plus noise of the same size, rounded to whole numbers: what the server computes with is then
exactly what the true neighbours were computed from. The stream is that of numpy's RandomState, which is
frozen.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pgstrata.errors import ServerError
from pgstrata.files import digests
from pgstrata.files.bounded import BoundError, json_as
from pgstrata.files.disk import read_regular
from pgstrata.server.find.cache import cache_folder, keeping, use
from pgstrata.vector.options import Distance, VectorOptions

FOLDER = "vectors"
"""Of the cache."""

FORMAT = 1
"""Another one for data that is made in another way."""

SPREAD = 150.0
"""Of places around the origin, and of vectors around their place: standard deviation in each dimension."""

MOST_DIGITS = 11
"""Of the number of a vector in a list, with what stands between two of them."""

AT_ONCE = 10_000
"""Vectors that are drawn and compared together."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class VectorData:
    """What decides the data; files of it in the cache."""

    rows: int
    dimensions: int
    clusters: int
    queries: int
    k: int
    distance: Distance
    seed: int

    @classmethod
    def of(cls, o: VectorOptions) -> VectorData:
        """Returns the vectors that these options ask for."""
        return cls(o.rows, o.dimensions, o.clusters, o.queries, o.k, o.distance, o.seed)

    @property
    def folder(self) -> Path:
        """Where it lies, or will lie."""
        made_of = json.dumps([FORMAT, asdict(self)], sort_keys=True)
        return cache_folder(FOLDER) / digests.of(made_of)[:24]

    @property
    def items(self) -> Path:
        """Rows of COPY: number and vector."""
        return self.folder / "items.copy"

    @property
    def probes(self) -> Path:
        """The same of the vectors that are looked for."""
        return self.folder / "probes.copy"

    @property
    def bytes(self) -> int:
        """About its size as text."""
        return int(self.rows * (self.dimensions * 4.7 + 10))

    def truth(self) -> list[list[int]]:
        """Returns the numbers of the k nearest vectors of each vector that is looked for. Raises
        ServerError."""
        file = self.folder / "truth.json"
        most = self.queries * (self.k * MOST_DIGITS + 2) + 2
        try:
            numbers = json_as(read_regular(file, most), list[list[int]])
            if [len(row) for row in numbers] != [self.k] * self.queries:
                raise BoundError(f"it does not hold {self.k} neighbours of each of {self.queries} vectors")
        except (OSError, BoundError) as error:
            raise ServerError(
                f"{file} cannot be used: {getattr(error, 'strerror', None) or error}",
                f"remove it with: pgstrata data remove {self.folder.name[:8]}",
            ) from error
        return numbers

    def make(self, check: Callable[[], None]) -> None:
        """Makes it unless it is there. check: called often, may raise to give up. Raises ServerError."""
        if not self.folder.exists():
            with keeping(self.folder, "this set of vectors", self.bytes, "take fewer, ") as folder:
                self._make(folder, check)
        use(self.folder)

    def _make(self, folder: Path, check: Callable[[], None]) -> None:
        # Streams of their own: other numbers of rows leave places and queries as they are.
        draw = [np.random.RandomState((self.seed + n) % 2**32) for n in (0, 1_000_003, 2_000_003)]
        places = draw[0].standard_normal((self.clusters, self.dimensions)) * SPREAD
        wanted = self._drawn(draw[1], places, self.queries)
        nearest = np.full((self.queries, self.k), np.inf)
        numbers = np.zeros((self.queries, self.k), dtype=np.int64)
        with (folder / "items.copy").open("w") as file:
            for first in range(0, self.rows, AT_ONCE):
                check()
                vectors = self._drawn(draw[2], places, min(AT_ONCE, self.rows - first))
                _write(file.write, vectors, first + 1)
                apart = distances(wanted, vectors, self.distance)
                both = np.concatenate([nearest, apart], axis=1)
                theirs = np.broadcast_to(np.arange(first + 1, first + 1 + len(vectors)), apart.shape)
                names = np.concatenate([numbers, theirs], axis=1)
                kept = np.argsort(both, axis=1, kind="stable")[:, : self.k]
                nearest = np.take_along_axis(both, kept, axis=1)
                numbers = np.take_along_axis(names, kept, axis=1)
        with (folder / "probes.copy").open("w") as file:
            _write(file.write, wanted, 1)
        (folder / "truth.json").write_text(json.dumps(numbers.tolist()))

    def _drawn(self, draw: np.random.RandomState, places: Floats, count: int) -> Floats:
        at = places[draw.randint(self.clusters, size=count)]
        return np.rint(at + draw.standard_normal((count, self.dimensions)) * SPREAD)


def distances(wanted: Floats, vectors: Floats, kind: Distance) -> Floats:
    """Returns the distance of each wanted vector to each vector, smaller is nearer."""
    products: Floats = wanted @ vectors.T
    if kind == "ip":
        return -products
    squares = (wanted**2).sum(axis=1)[:, None], (vectors**2).sum(axis=1)[None, :]
    if kind == "cosine":
        lengths: Floats = np.sqrt(squares[0] * squares[1])
        angles: Floats = 1 - products / np.where(lengths == 0, 1, lengths)
        return angles
    apart: Floats = squares[0] + squares[1] - 2 * products
    return apart


def _write(write: Callable[[str], object], vectors: Floats, first: int) -> None:
    for number, vector in enumerate(vectors.astype(np.int64).tolist(), first):
        write(f"{number}\t[{','.join(map(str, vector))}]\n")


__all__ = ["VectorData", "distances"]
