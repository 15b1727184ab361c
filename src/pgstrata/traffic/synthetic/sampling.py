"""Expressions that a server may be asked for on sampled rows of one table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pglast import ast
from pglast.enums import A_Expr_Kind
from pglast.stream import RawStream

from pgstrata.traffic.synthetic.functions import (
    AGGREGATES,
    ARITHMETIC,
    DOCUMENT_KEYS,
    EXTRACTING,
    PATH_OPERATORS,
    QUERIES,
    READING,
    USUAL,
)
from pgstrata.traffic.synthetic.names import Derived, Listed, Scope
from pgstrata.traffic.synthetic.statistics import KnownColumn
from pgstrata.traffic.synthetic.use import Sampled


def sampled_expression(node: Any, scope: Scope) -> Sampled | None:
    """Returns an expression as SQL: columns of one table, operators and functions of PostgreSQL's that only
    read; None for another."""
    derived = derived_from(node, scope)
    return (
        None
        if derived is None
        else Sampled(derived.table, derived.alias, RawStream()(derived.node), derived.keys)
    )


def derived_from(node: Any, scope: Scope) -> Derived | None:
    """Returns what `sampled_expression` does, as a part of the parse tree."""
    if not isinstance(node, _ASKED):
        return None
    reading = _Sampling(scope)
    copy = reading.copied(node)
    if copy is None or reading.table is None:
        return None
    return Derived(reading.table, reading.alias, copy, tuple(reading.keys))


_ASKED = (ast.A_Expr, ast.FuncCall, ast.ColumnRef, ast.TypeCast, ast.CoalesceExpr, ast.A_Indirection)


_NEUTRAL = {"||": " ", "*": "1", "/": "1", "+": "0", "-": "0"}
"""Values of parameters in calculations, which change little."""


class _Sampling:
    """Copies an expression for a question; parameters within become the values that are guessed for them,
    but for keys of documents."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.table: KnownColumn | None = None
        self.alias = ""
        self.keys: list[int] = []

    def copied(self, node: Any, guess: str | None = None) -> Any:
        """Returns the copy; None where it cannot be asked for."""
        match node:
            case ast.A_Const():
                return node
            case ast.ParamRef():
                return ast.A_Const(isnull=False, val=ast.String(sval=guess)) if guess is not None else None
            case ast.ColumnRef():
                return self._column(node)
            case ast.TypeCast():
                arg = self.copied(node.arg, guess)
                return None if arg is None else ast.TypeCast(arg=arg, typeName=node.typeName)
            case ast.FuncCall():
                return self._function(node)
            case ast.CoalesceExpr():
                arguments = [self.copied(argument, "") for argument in node.args]
                return None if None in arguments else ast.CoalesceExpr(args=tuple(arguments))
            case ast.A_Expr() if node.kind == A_Expr_Kind.AEXPR_OP and len(node.name) == 1:
                return self._operator(node)
            case ast.A_Indirection():
                arg = self.copied(node.arg)
                return None if arg is None else ast.A_Indirection(arg=arg, indirection=node.indirection)
        return None

    def _column(self, node: Any) -> Any:
        names = column_names(node)
        if names is None:
            return None
        name, of = names[-1], names[0] if len(names) > 1 else None
        derived = self._scope.derived(name, of)
        if isinstance(derived, Derived):
            self.keys += derived.keys
            return derived.node if self._is_of(derived.table, derived.alias) else None
        source = self._scope.source(name, of)
        if source is None:
            return None
        alias, column = source
        if column.definition or not self._is_of(column, alias):
            return None
        return ast.ColumnRef(fields=(ast.String(sval=alias), ast.String(sval=column.name)))

    def _is_of(self, table: KnownColumn, alias: str) -> bool:
        """True if all columns so far are of one table, under one name."""
        if self.table is None:
            self.table, self.alias = table, alias
        same = (self.table.schema, self.table.table, self.alias) == (table.schema, table.table, alias)
        return same

    def _function(self, node: Any) -> Any:
        name = name_of(node)
        qualified = len(node.funcname) > 1 and node.funcname[0].sval != "pg_catalog"
        if qualified or name not in READING or name in AGGREGATES or node.over is not None:
            return None
        if name in EXTRACTING:
            return self.copied(extracted(node))
        usual = {0: "english"} if name in QUERIES and len(node.args or ()) == 2 else USUAL.get(name, {})
        arguments = [
            self.copied(argument, usual.get(place)) for place, argument in enumerate(node.args or ())
        ]
        if None in arguments:
            return None
        # By this name: a function of the same name in another schema is somebody's own.
        full = (ast.String(sval="pg_catalog"), ast.String(sval=name))
        return ast.FuncCall(funcname=full, args=tuple(arguments), agg_within_group=False)

    def _operator(self, node: Any) -> Any:
        name = node.name[-1].sval
        if name not in DOCUMENT_KEYS and name not in ARITHMETIC:
            return None
        parameter = uncast(node.rexpr)
        if name in PATH_OPERATORS and isinstance(parameter, ast.A_ArrayExpr):
            return self.copied(path_into(node.lexpr, parameter.elements or (), PATH_OPERATORS[name]))
        left = None if node.lexpr is None else self.copied(node.lexpr, _NEUTRAL.get(name))
        if name in DOCUMENT_KEYS and isinstance(parameter, ast.ParamRef):
            self.keys.append(parameter.number)
            right: Any = ast.ParamRef(number=parameter.number)
        else:
            right = self.copied(node.rexpr, _NEUTRAL.get(name))
        if right is None or (left is None and node.lexpr is not None):
            return None
        return ast.A_Expr(kind=node.kind, name=node.name, lexpr=left, rexpr=right)


def listed_in(node: Any) -> list[Listed | None]:
    """Returns the columns of `unnest($1, $2)`; none for another function."""
    if not isinstance(node, ast.FuncCall) or name_of(node) != "unnest":
        return []
    return [
        Listed(inner.number) if isinstance(inner := uncast(argument), ast.ParamRef) else None
        for argument in node.args
    ]


def column_names(node: Any) -> list[str] | None:
    """Returns the name of a column and that of its table, if it is written; None for what is no column."""
    if not isinstance(node, ast.ColumnRef):
        return None
    names = [part.sval for part in node.fields if isinstance(part, ast.String)]
    return names if len(names) == len(node.fields) <= 2 else None


def extracted(node: Any) -> Any:
    """Returns `document -> key ->> key` for a function that is given the document and its keys."""
    document, *keys = node.args
    return path_into(document, keys, EXTRACTING[name_of(node)])


def path_into(document: Any, keys: Sequence[Any], last: str) -> Any:
    """Returns `document -> key ->> key`. last: the operator of the last key."""
    for place, key in enumerate(keys, 1):
        operator = last if place == len(keys) else "->"
        document = ast.A_Expr(
            kind=A_Expr_Kind.AEXPR_OP, name=(ast.String(sval=operator),), lexpr=document, rexpr=key
        )
    return document


def name_of(node: Any) -> str:
    """Returns the name of a function without its schema."""
    return str(node.funcname[-1].sval)


def uncast(node: Any) -> Any:
    """Returns what a cast is applied to."""
    while isinstance(node, ast.TypeCast):
        node = node.arg
    return node


def has_parameter(node: Any) -> bool:
    """Returns whether a parameter stands anywhere in a part of the tree."""
    if isinstance(node, ast.ParamRef):
        return True
    if isinstance(node, tuple | list):
        return any(map(has_parameter, node))
    return isinstance(node, ast.Node) and any(has_parameter(getattr(node, name)) for name in node)


__all__ = [
    "column_names",
    "derived_from",
    "extracted",
    "has_parameter",
    "listed_in",
    "name_of",
    "path_into",
    "sampled_expression",
    "uncast",
]
