"""Parameters that are given to functions."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from pglast import ast

from pgstrata.traffic.synthetic.functions import (
    AGGREGATES,
    EXTRACTING,
    LOCKS,
    NAMING,
    PATHS,
    QUERIES,
    READING,
    SUMMED,
    THROUGH,
    USUAL,
)
from pgstrata.traffic.synthetic.names import Scope
from pgstrata.traffic.synthetic.sampling import extracted, has_parameter, name_of, uncast
from pgstrata.traffic.synthetic.use import Argument, NotUnderstoodError, Understood, Use


class Calls(ABC):
    """Notes what parameters are for within the functions of one statement."""

    _text: str
    _found: Understood
    _edits: list[tuple[int, int, str]]

    @abstractmethod
    def _walk(self, node: Any, scope: Scope, use: Use | None = None) -> None:
        """Walks an expression within."""

    @abstractmethod
    def _key(self, left: Any, right: Any, name: str, scope: Scope) -> None:
        """Notes the key of a document behind an operator."""

    @abstractmethod
    def _use(self, number: int, use: Use | None) -> None:
        """Notes a use of a parameter."""

    def _function(self, node: Any, scope: Scope, use: Use | None) -> None:
        name = name_of(node)
        if name == "nextval" and node.args and isinstance(uncast(node.args[0]), ast.ParamRef):
            self._found.reads = False
            column = use.column if use is not None and use.kind in ("insert", "set") else None
            self._use(uncast(node.args[0]).number, Use("sequence", column))
            return
        if name in NAMING and has_parameter(node.args):
            raise NotUnderstoodError(f"which name {name} is given is not known")
        if (len(node.funcname) > 1 and node.funcname[0].sval != "pg_catalog") or name not in READING:
            self._found.reads = False
        if name in AGGREGATES or node.over is not None:
            self._found.whole = False
        usual = USUAL.get(name, {})
        arguments: Sequence[Any] = node.args or ()
        if name in EXTRACTING and has_parameter(arguments[1:]):
            self._walk(extracted(node), scope)
            return
        if name in PATHS and len(arguments) > 1 and has_parameter(arguments[1]):
            self._key(arguments[0], arguments[1], PATHS[name], scope)
            for argument in arguments[2:]:
                self._walk(argument, scope)
            return
        if name == "extract" and arguments and isinstance(arguments[0], ast.ParamRef):
            self._called_by_name(node)
        if name not in READING and name not in LOCKS and has_parameter(arguments):
            self._given(node, scope)
            return
        if name == "generate_series" and isinstance(arguments[0], ast.ParamRef):
            self._give_type(arguments[0], "int")
        for place, argument in enumerate(arguments):
            if name in QUERIES and len(arguments) == 2:
                argument_use = use if place == 1 else Use("guess", guess="english")
            elif place in usual:
                argument_use = Use("guess", guess=usual[place])
            elif name in SUMMED:
                argument_use = Use("guess", guess="1", type="integer")
            elif name in LOCKS:
                argument_use = Use("guess", guess=None, type="bigint")
            else:
                argument_use = use if name in THROUGH and place == 0 else None
            self._walk(argument, scope, argument_use)
        for part in (node.agg_order, node.agg_filter, node.over):
            self._walk(part, scope)

    def _give_type(self, parameter: Any, type_: str) -> None:
        """Writes a type behind a parameter that had one as a constant."""
        end = parameter.location + len(f"${parameter.number}")
        self._edits.append((end, end, f"::{type_}"))

    def _given(self, node: Any, scope: Scope) -> None:
        """Records the uses of the arguments of a function of a user."""
        names = [part.sval for part in node.funcname]
        schema = names[-2] if len(names) > 1 else ""
        for place, expression in enumerate(node.args):
            named = expression.name if isinstance(expression, ast.NamedArgExpr) else ""
            argument = Argument(schema, names[-1], place, len(node.args), named)
            self._walk(expression, scope, Use("argument", argument=argument))

    def _called_by_name(self, node: Any) -> None:
        """Replaces `extract($1 FROM day)`, which no server prepares, by `date_part($1, day)`."""
        written = re.compile(r"extract\s*\(\s*(\$[0-9]+)\s+from\s", re.IGNORECASE)
        match = written.match(self._text, node.location)
        if match is not None:
            self._edits.append((match.start(), match.end(), f"pg_catalog.date_part({match[1]}, "))


__all__ = ["Calls"]
