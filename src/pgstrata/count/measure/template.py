"""Data folders as initdb leaves them, one for each server, which starts of several counts copy."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import Resolved
from pgstrata.server.find.model import Server
from pgstrata.store.names import new_run_id


@dataclass
class _Template:
    """A cluster that is never started. making: held while initdb runs."""

    cluster: Cluster | None = None
    making: threading.Lock = field(default_factory=threading.Lock)


class Templates:
    """Data folders of clusters that were made and never started; leaving it removes them.

    `of` may be called from several threads, and `end` from another one than them.
    """

    def __init__(self) -> None:
        self._templates: dict[tuple[str, ...], _Template] = {}
        self._being_made: set[Cluster] = set()
        self._changing = threading.Lock()
        self._is_ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def of(self, server: Server, config: Resolved, initdb: Sequence[str], root: Path) -> Path:
        """Returns the data folder of a server, which is made below `root` when it is first asked for.

        Raises ServerError when initdb fails, as each time that it is asked for then.
        """
        with self._changing:
            template = self._templates.setdefault((str(server.bin_dir), *initdb), _Template())
        with template.making:
            if template.cluster is None:
                template.cluster = self._make(Cluster(server, config, _folder(root), initdb=initdb))
            return template.cluster.data_folder.path

    def _make(self, cluster: Cluster) -> Cluster:
        with self._changing:
            self._being_made.add(cluster)
        try:
            if self._is_ended:
                cluster.end()
            cluster.create()
        except BaseException:
            cluster.remove()
            raise
        finally:
            with self._changing:
                self._being_made.discard(cluster)
        return cluster

    def end(self) -> None:
        """Ends every initdb at once, and lets none begin."""
        with self._changing:
            self._is_ended = True
            for cluster in self._being_made:
                cluster.end()

    def clear(self) -> None:
        """Removes all data folders."""
        with self._changing:
            templates, self._templates = list(self._templates.values()), {}
        for template in templates:
            if template.cluster is not None:
                template.cluster.remove()


def _folder(root: Path) -> Path:
    # Beside the starts of counts, and cleared like them where a pgstrata was killed.
    return root / f"count-{new_run_id()}"


__all__ = ["Templates"]
