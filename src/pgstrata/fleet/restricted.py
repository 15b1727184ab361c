"""Keeps the engine from executing what it is sent: only typed tasks of pgstrata run.

Dask's messages hold pickles, and a pickle executes what its sender likes, on the scheduler as on workers; so
do a dozen of its remote procedures. TLS keeps out whoever lacks the fleet's key. This keeps its holders to
what `pgstrata.fleet.tasks` can say. It is a preload of the engine (`--preload pgstrata.fleet.restricted`),
and importing it is enough: unpickling builds nothing but the few classes that a task travels in, and every
remote procedure that pgstrata does not need is refused, before the server listens.
"""

from __future__ import annotations

import builtins
import io
import pickle
import sys
import types
from collections.abc import Callable, Container, Iterable
from typing import Any

import distributed.core
from distributed import Nanny, Scheduler, Worker
from distributed.node import ServerNode

_TRAVELS = {
    # A task and the graph of one task that it travels in. Each is built of values and calls nothing.
    ("dask._expr", "Expr._reconstruct"),
    ("dask._expr", "LLGExpr"),
    ("dask._task_spec", "Task"),
    ("pgstrata.fleet.perform", "perform"),
    # The type of everything that is packed by the engine itself.
    ("builtins", "bytes"),
    # What the scheduler tells every worker when it registers; its procedures are refused below.
    ("distributed.shuffle._worker_plugin", "ShuffleWorkerPlugin"),
    # Errors are packed by tblib: an exception of a class that is permitted, and its attributes.
    ("tblib.pickling_support", "unpickle_exception"),
    ("tblib.pickling_support", "unpickle_exception_with_attrs"),
    ("pgstrata.fleet.restricted", "RefusedError"),
    # A call that outlives its client.
    ("distributed.client", "Future"),
    # What KilledWorker holds.
    ("distributed.scheduler", "WorkerState"),
    ("distributed.core", "Status"),
    ("collections", "defaultdict"),
    ("collections", "deque"),
    ("builtins", "int"),
}

_ERRORS_OF = ("asyncio.exceptions", "builtins", "distributed", "dask")
"""Modules whose exceptions are built, being values, too."""

_PROCEDURES: dict[type, frozenset[str]] = {
    Scheduler: frozenset(
        {
            *("identity", "connection_stream", "terminate", "versions", "get_metadata", "set_metadata"),
            *("register-client", "register-worker", "register_nanny", "unregister"),
            *("heartbeat_worker", "subscribe_worker_status", "retire_workers"),
            *("gather", "processing", "who_has", "ncores"),
            *("publish_put", "publish_get", "publish_list", "publish_delete"),
        }
    ),
    Worker: frozenset(
        {*("identity", "connection_stream", "terminate", "ping"), *("gather", "get_data", "free_keys")}
    ),
    Nanny: frozenset({"identity", "instantiate", "kill", "restart", "terminate", "close_gracefully"}),
}

_STREAMS: dict[type, frozenset[str]] = {
    Scheduler: frozenset(
        {
            *("task-finished", "task-erred", "release-worker-data", "add-keys", "long-running", "reschedule"),
            *("keep-alive", "log-event", "worker-status-change", "request-refresh-who-has"),
            *("update-graph", "client-desires-keys", "client-releases-keys", "cancel-keys", "report-key"),
            *("heartbeat-client", "close-client", "subscribe-topic", "unsubscribe-topic"),
            *("publish_flush_batched_send",),
        }
    ),
    Worker: frozenset(
        {
            *("close", "compute-task", "cancel-compute", "free-keys", "remove-replicas", "acquire-replicas"),
            *("steal-request", "refresh-who-has", "worker-status-change", "remove-worker"),
        }
    ),
    Nanny: frozenset(),
}


class RefusedError(AttributeError):
    """A message names code or a procedure that is no part of a typed task.

    An AttributeError, as pickle itself raises for a name that is not there: the engine expects that one.
    """


def permit(function: Callable[..., Any]) -> None:
    """Lets a further function travel as a task."""
    _TRAVELS.add((function.__module__, function.__qualname__))


class _Nothing:
    """Stands for the parts of a traceback: tblib would compile code of them."""


def _no_traceback(*unused: object) -> None:
    """Stands for the function that makes a traceback of its parts."""


_STAND_INS: dict[tuple[str, str], Any] = {
    ("tblib.pickling_support", "unpickle_traceback"): _no_traceback,
    **{("tblib", name): _Nothing for name in ("Traceback", "Frame", "Code")},
}


class _Unpickler(pickle.Unpickler):
    """Builds the classes on the list above, and refuses all other names."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _STAND_INS:
            return _STAND_INS[module, name]
        if (module, name) in _TRAVELS or _is_error(module, name):
            return super().find_class(module, name)
        raise RefusedError(f"{module}.{name} is no part of a task of pgstrata: it is not loaded")


def _is_error(module: str, name: str) -> bool:
    """Returns True for an exception class of Python itself or of the engine; nothing is imported for it."""
    if module.partition(".")[0] not in _ERRORS_OF and module not in _ERRORS_OF:
        return False
    if "." in name:
        return False
    there = builtins if module == "builtins" else sys.modules.get(module)
    value = getattr(there, name, None)
    return isinstance(value, type) and issubclass(value, BaseException)


def loads(text: bytes, *, buffers: Iterable[Any] = ()) -> Any:
    """Unpickles a message of the engine. Raises RefusedError for one that holds anything but a typed task."""
    return _Unpickler(io.BytesIO(text), buffers=buffers or None).load()


class _AllBut(Container[str]):
    """Every name but some: the procedures that a server refuses."""

    def __init__(self, permitted: frozenset[str]) -> None:
        self._permitted = permitted

    def __contains__(self, name: object) -> bool:
        return name not in self._permitted


class _Streams(dict[str, Any]):
    """Handlers of a stream of messages; those that are not permitted end the stream."""

    def __init__(self, handlers: dict[str, Any], permitted: frozenset[str]) -> None:
        super().__init__(handlers)
        self._permitted = permitted

    def __getitem__(self, name: str) -> Any:
        if name not in self._permitted:
            raise RefusedError(f"{name} is refused by this fleet")
        return super().__getitem__(name)


def _restrict(server: Any) -> None:
    for kind in (Scheduler, Worker, Nanny):
        if isinstance(server, kind):
            restricted: Any = server
            restricted.blocked_handlers = _AllBut(_PROCEDURES[kind])
            restricted.stream_handlers = _Streams(restricted.stream_handlers, _STREAMS[kind])


_listen: Any = distributed.core.Server.listen


async def _listen_restricted(server: Any, *arguments: Any, **options: Any) -> None:
    _restrict(server)
    await _listen(server, *arguments, **options)


_start_http_server: Any = ServerNode.start_http_server


def _start_http_server_with_pages(server: Any, routes: list[Any], *arguments: Any, **options: Any) -> None:
    """Listens for pages only where there are any: what listens asks nobody who he is."""
    _start_http_server(server, routes, *arguments, **options)
    if not routes:
        server.http_server.stop()
        del server.services["dashboard"]


def is_active() -> bool:
    """Returns True if this process refuses everything but typed tasks."""
    return all(module.pickle is _restricted for module in _users_of_pickle())


def _users_of_pickle() -> list[types.ModuleType]:
    """Returns the loaded modules of the engine that unpickle something."""
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == "distributed"]
    return [module for module in modules if getattr(module, "pickle", None) in (pickle, _restricted)]


# Importing restricts: a preload is imported before its server listens, and cannot be forgotten afterwards.
_restricted = types.ModuleType("pickle")
_restricted.__dict__.update({**vars(pickle), "loads": loads, "load": None, "Unpickler": _Unpickler})
for _module in _users_of_pickle():
    _module.pickle = _restricted  # type: ignore[attr-defined]
ServerNode.start_http_server = _start_http_server_with_pages  # type: ignore[method-assign,assignment]
distributed.core.Server.listen = _listen_restricted  # type: ignore[method-assign,assignment]

__all__ = ["RefusedError", "is_active", "loads", "permit"]
