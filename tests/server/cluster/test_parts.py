"""A cluster is made of parts, and callers ask the part that knows."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator

from pgstrata.server.cluster import cluster

PARTS = {"postmaster", "data_folder", "configuration", "standbys", "timers", "pooler", "freezer"}


def delegates(tree: ast.AST) -> Iterator[str]:
    """Yields public methods and properties that do nothing but ask a part."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef) or function.name.startswith("_"):
            continue
        body = function.body[1:] if ast.get_docstring(function) else function.body
        if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr) or body[0].value is None:
            continue
        asked = body[0].value.func if isinstance(body[0].value, ast.Call) else body[0].value
        if isinstance(asked, ast.Attribute) and isinstance(asked.value, ast.Attribute):
            part = asked.value
            if isinstance(part.value, ast.Name) and part.value.id == "self" and part.attr in PARTS:
                yield function.name


def test_a_cluster_repeats_nothing_of_its_parts() -> None:
    assert list(delegates(ast.parse(inspect.getsource(cluster)))) == []


def test_a_delegate_is_seen() -> None:
    method = 'class C:\n def pid(self):\n  "Doc."\n  return self.postmaster.pid\n'
    procedure = " def quit(self):\n  self.postmaster.quit()\n"
    fine = " def stop(self):\n  self.postmaster.stop()\n  self.data_folder.clear()\n"
    assert list(delegates(ast.parse(method + procedure + fine))) == ["pid", "quit"]
