"""Parameters within expressions: what stands beside an operator, around a cast, in a function."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

from pglast import ast
from pglast.enums import A_Expr_Kind, BoolExprType, SubLinkType

from pgstrata.sql_tokens import tokens
from pgstrata.traffic.synthetic.calls import Calls
from pgstrata.traffic.synthetic.functions import (
    ARITHMETIC,
    COMPARED,
    DOCUMENT_KEYS,
    KEYS,
    PATH_OPERATORS,
    SAME,
    THROUGH,
    TURNED,
)
from pgstrata.traffic.synthetic.names import Listed, OutputColumn, Scope, Tables
from pgstrata.traffic.synthetic.sampling import (
    column_names,
    has_parameter,
    name_of,
    path_into,
    sampled_expression,
    uncast,
)
from pgstrata.traffic.synthetic.use import Kind, NotUnderstoodError, Understood, Use

KEY_UNKNOWN = "the key of a document is not known"


class Expressions(Calls):
    """Walks the expressions of one statement, and notes what its parameters are for."""

    def __init__(self, text: str, known_tables: Tables) -> None:
        self._text, self._known_tables = text, known_tables
        self._found = Understood(text)
        self._tables = 0
        self._edits: list[tuple[int, int, str]] = []  # from, to, new text
        self._constants = False

    def result(self, *, masked: bool) -> Understood:
        """Returns the understood statement. masked: without comments. Raises NotUnderstoodError if values are
        left then."""
        text = self._text
        if masked:
            self._strip()
        for begin, end, new in sorted(self._edits, reverse=True):
            text = text[:begin] + new + text[end:]
        return replace(self._found, text=text, single=self._found.single and self._tables == 1)

    def _strip(self) -> None:
        if self._constants:
            raise NotUnderstoodError("pg_stat_statements has left values in it, and a masked file has none")
        at = 0
        for kind, piece in tokens(self._text):
            if kind == "comment" or (kind == "space" and "--" in piece):
                self._edits.append((at, at + len(piece), " "))
            at += len(piece)

    @abstractmethod
    def statement(self, node: Any, scope: Scope | None = None) -> list[OutputColumn]:
        """Walks a statement within; returns its columns."""

    def _column(self, node: Any, scope: Scope) -> Use:
        """Returns the column that an expression is about, as a value compared with it would use it; without a
        column if there is none, or several."""
        nothing = Use("equal")
        match node:
            case ast.ColumnRef():
                names = [part.sval for part in node.fields if isinstance(part, ast.String)]
                if len(names) < len(node.fields):
                    return nothing
                return Use("equal", scope.column(names[-1], names[-2] if len(names) > 1 else None))
            case ast.TypeCast() | ast.CollateClause():
                return self._column(node.arg, scope)
            case ast.FuncCall() if node.args and name_of(node) in THROUGH:
                inner = self._column(node.args[0], scope)
                change = SAME.get(name_of(node))
                return replace(inner, change=change) if change is not None else inner
            case ast.CoalesceExpr() | ast.MinMaxExpr():
                uses = (self._column(argument, scope) for argument in node.args)
                return next((use for use in uses if use.column is not None), nothing)
            case ast.SubLink() if node.subLinkType == SubLinkType.EXPR_SUBLINK:
                select = node.subselect
                if not isinstance(select, ast.SelectStmt) or not select.targetList or not select.fromClause:
                    return nothing
                quiet = type(self)(self._text, self._known_tables)
                outputs = quiet.statement(select, scope)
                return Use("equal", outputs[0].known) if outputs else nothing
        return nothing

    def _walk(self, node: Any, scope: Scope, use: Use | None = None) -> None:
        """Walks through everything in an expression. use: the purpose of a parameter that stands for the
        whole of it."""
        match node:
            case None:
                return
            case ast.ParamRef():
                self._use(node.number, use)
            case ast.ColumnRef():
                listed = self._listed(node, scope)
                if listed is not None and use is not None and use.column is not None:
                    self._use_list(listed, use)
            case ast.A_Const():
                self._constants = self._constants or not node.isnull
            case ast.A_Expr():
                self._operator(node, scope, use)
            case ast.TypeCast():
                self._cast(node, scope, use)
            case ast.FuncCall():
                self._function(node, scope, use)
            case ast.CoalesceExpr() | ast.MinMaxExpr():
                column_use = self._column(node, scope)
                for expression in node.args:
                    self._walk(expression, scope, column_use if column_use.column is not None else use)
            case ast.CaseExpr():
                self._case(node, scope, use)
            case ast.SubLink():
                self._sublink(node, scope)
            case ast.BoolExpr():
                if node.boolop != BoolExprType.AND_EXPR:
                    self._found.single = False
                for expression in node.args:
                    self._walk(expression, scope)
            case ast.CollateClause() | ast.NamedArgExpr():
                self._walk(node.arg, scope, use)
            case ast.A_ArrayExpr():
                of_array = use is not None and use.kind in ("contains", "within")
                of_element = replace(use, kind="element") if use is not None and of_array else use
                for expression in node.elements or ():
                    if isinstance(expression, ast.ParamRef) and use is not None and use.column is not None:
                        # Of an array of what has no type the server makes one of texts.
                        self._give_type(expression, use.column.type.removesuffix("[]"))
                    self._walk(expression, scope, of_element)
            case tuple() | list():
                for expression in node:
                    self._walk(expression, scope, use)
            case ast.SelectStmt():
                self._found.single = False
                self.statement(node, scope)
            case ast.Node():
                self._walk_below(node, scope)

    def _walk_below(self, node: Any, scope: Scope) -> None:
        for name in node:
            value = getattr(node, name)
            if isinstance(value, ast.Node | tuple | list):
                self._walk(value, scope)

    def _use(self, number: int, use: Use | None) -> None:
        uses = self._found.uses.setdefault(number, [])
        if use is not None:
            uses.append(use)

    def _listed(self, node: Any, scope: Scope) -> Listed | None:
        """Returns the array of a parameter whose elements a column has; None where it has none."""
        names = column_names(node)
        if names is None:
            return None
        column = scope.derived(names[-1], names[0] if len(names) > 1 else None)
        return column if isinstance(column, Listed) else None

    def _use_list(self, listed: Listed, use: Use) -> None:
        self._use(listed.number, replace(use, kind="rows" if use.kind in ("insert", "set") else "any"))

    def _operator(self, node: Any, scope: Scope, use: Use | None) -> None:
        left, right = node.lexpr, node.rexpr
        name = node.name[-1].sval
        match node.kind:
            case A_Expr_Kind.AEXPR_OP if name in DOCUMENT_KEYS or (
                name in ("-", "@@") and self._is_document(left, scope)
            ):
                self._key(left, right, name, scope)
            case A_Expr_Kind.AEXPR_OP if name in ARITHMETIC and not (name == "%" and use is None):
                self._calculated(left, right, name, scope, use)
            case A_Expr_Kind.AEXPR_OP | A_Expr_Kind.AEXPR_DISTINCT | A_Expr_Kind.AEXPR_NOT_DISTINCT:
                if name in ARITHMETIC:
                    self._calculated(left, right, name, scope, use)
                else:
                    self._compared(left, right, COMPARED.get(name, "equal"), scope)
            case A_Expr_Kind.AEXPR_LIKE | A_Expr_Kind.AEXPR_ILIKE | A_Expr_Kind.AEXPR_SIMILAR:
                self._compared(left, right, "like", scope)
            case A_Expr_Kind.AEXPR_IN:
                kind = COMPARED[name]  # = of IN, <> of NOT IN
                left_use = replace(self._about(left, scope), kind=kind)
                self._walk(left, scope, self._of_list(right, scope))
                for element in right:
                    if isinstance(left, ast.RowExpr) and isinstance(element, ast.RowExpr):
                        self._rows(left, element, kind, scope)
                    else:
                        self._walk(element, scope, left_use)
            case A_Expr_Kind.AEXPR_OP_ANY | A_Expr_Kind.AEXPR_OP_ALL:
                left_use, other = self._column(left, scope), self._column(right, scope)
                self._walk(left, scope, replace(other, kind="element"))
                listed = isinstance(uncast(right), ast.A_ArrayExpr)
                self._walk(right, scope, left_use if listed else replace(left_use, kind="any"))
            case A_Expr_Kind.AEXPR_NULLIF:
                self._compared(left, right, "equal", scope)
            case _:  # BETWEEN in its four forms
                left_use = self._about(left, scope)
                self._walk(left, scope, self._of_list(right, scope))
                self._walk(right[0], scope, replace(left_use, kind="greater"))
                self._walk(right[1], scope, replace(left_use, kind="less"))

    def _about(self, node: Any, scope: Scope) -> Use:
        """Returns the column that an expression is about, or the expression itself if a server may be
        asked."""
        column_use = self._column(node, scope)
        if column_use.column is None and (sampled := sampled_expression(node, scope)) is not None:
            return replace(column_use, sampled=sampled)
        return column_use

    def _is_document(self, node: Any, scope: Scope) -> bool:
        column = self._column(node, scope).column
        return column is not None and column.type.startswith("json")

    def _key(self, left: Any, right: Any, name: str, scope: Scope) -> None:
        """Records the use of a parameter as a key: `document ->> $1`, `document ? $1`. Raises
        NotUnderstoodError for a key that cannot be known."""
        self._walk(left, scope)
        operand = uncast(right)
        if isinstance(operand, ast.ParamRef):
            sampled = sampled_expression(left, scope)
            if sampled is None:
                raise NotUnderstoodError(KEY_UNKNOWN)
            listed = isinstance(right, ast.TypeCast) and type_name(right.typeName).endswith("[]")
            self._use(operand.number, Use("key", sampled=sampled, guess="list" if listed else KEYS.get(name)))
        elif isinstance(operand, ast.A_ArrayExpr) and name in PATH_OPERATORS:
            self._walk(path_into(left, operand.elements or (), PATH_OPERATORS[name]), scope)
        elif isinstance(operand, ast.A_ArrayExpr):
            for element in operand.elements or ():
                self._key(left, element, "?", scope)
        elif has_parameter(right):
            raise NotUnderstoodError(KEY_UNKNOWN)

    def _of_list(self, nodes: Any, scope: Scope) -> Use | None:
        """Returns the use of a parameter compared with a list: `$1 IN (a, b)`, `$1 BETWEEN a AND b`; None
        without a column."""
        uses = (self._column(node, scope) for node in nodes)
        return next((use for use in uses if use.column is not None), None)

    def _compared(self, left: Any, right: Any, kind: Kind, scope: Scope) -> None:
        if isinstance(left, ast.RowExpr) and isinstance(right, ast.RowExpr):
            self._rows(left, right, kind, scope)
            return
        for side, other, how in ((left, right, TURNED.get(kind, kind)), (right, left, kind)):
            # What nothing is drawn for needs no use, which takes time to find.
            needs_use = has_parameter(side) or self._listed(side, scope) is not None
            self._walk(side, scope, self._against(other, how, scope) if needs_use else None)

    def _against(self, node: Any, kind: Kind, scope: Scope) -> Use | None:
        """Returns the use of a parameter that is compared with an expression; None if it is unknown."""
        other = self._about(node, scope)
        if other.column is not None or other.sampled is not None:
            return replace(other, kind=kind)
        if isinstance(node, ast.FuncCall) and name_of(node) in ("count", "length", "char_length"):
            return Use("guess", guess="1")
        if isinstance(node, ast.ParamRef):  # of two parameters, `$1 = $2`
            return Use("guess", guess="1")
        return None

    def _rows(self, left: Any, right: Any, kind: Kind, scope: Scope) -> None:
        """Compares rows column by column: the first decides which of them come, the rest only among equal
        ones."""
        for place, (part, other) in enumerate(zip(left.args or (), right.args or (), strict=False)):
            self._compared(part, other, kind if place == 0 else "equal", scope)

    def _calculated(self, left: Any, right: Any, name: str, scope: Scope, use: Use | None) -> None:
        """Records the use of a parameter in a calculation: it is small; of two that stand alone the first is
        the value."""
        plain = [isinstance(uncast(side), ast.ParamRef) for side in (left, right)]
        if all(plain) or left is None:
            neutral = "1" if name in "*/%^" else "0"
            if name != "||" and all(isinstance(side, ast.ParamRef) for side in (left, right)):
                self._give_type(right, "int")
            self._walk(left, scope, use)
            self._walk(right, scope, Use("guess", guess=neutral) if left is not None else use)
            return
        for side, other in ((left, right), (right, left)):
            operand = uncast(side)
            if isinstance(operand, ast.ParamRef):
                self._walk(side, scope, Use("guess", guess=self._small(other, operand, side, name, scope)))
            else:
                self._walk(side, scope)

    def _small(self, other: Any, parameter: Any, cast: Any, name: str, scope: Scope) -> str:
        """Returns a usual second operand, by the type of the first."""
        column = self._column(other, scope).column
        type_ = column.type if column is not None else ""
        day = isinstance(other, ast.SQLValueFunction) and other.op.name == "SVFOP_CURRENT_DATE"
        if type_ == "date" or day:
            if parameter is cast and name in "+-":
                # The server would take it for a date or an interval.
                self._give_type(parameter, "int")
            return "1"
        if type_.startswith(("timestamp", "time", "interval")):
            return "1 day"
        if name == "||":
            return "{}" if type_.startswith("json") or type_.endswith("[]") else "a"
        return "10" if name == "%" else "1"

    def _cast(self, node: Any, scope: Scope, use: Use | None) -> None:
        inner = node.arg
        if isinstance(inner, ast.ParamRef):
            name = type_name(node.typeName)
            begin = node.typeName.location
            # A cast that the grammar adds by itself stands nowhere.
            if begin is not None and 0 <= begin < inner.location:
                self._turn(node, inner)
            self._use(
                inner.number,
                replace(use, type=name) if use is not None else Use("equal", type=name),
            )
            return
        self._walk(inner, scope, use)
        sampled = sampled_expression(node, scope)
        if sampled is not None and sampled.keys:
            self._use(sampled.keys[-1], Use("cast", sampled=sampled))

    def _turn(self, node: Any, parameter: Any) -> None:
        """Rewrites `interval $1`, which pg_stat_statements makes of a constant and no server prepares, as
        `$1::interval`. CAST($1 AS interval) stays: its type stands behind."""
        begin, number = node.typeName.location, f"${parameter.number}"
        end = parameter.location + len(number)
        if node.typeName.typmods:
            raise NotUnderstoodError("a constant of a type with limits is not understood")
        written = self._text[begin : parameter.location].strip()
        self._edits.append((begin, end, f"{number}::{written}"))

    def _case(self, node: Any, scope: Scope, use: Use | None) -> None:
        compared = self._column(node.arg, scope) if node.arg is not None else None
        self._walk(node.arg, scope)
        results = [when.result for when in node.args] + [node.defresult]
        if use is None or use.kind == "guess":
            uses = (self._column(branch, scope) for branch in results if branch is not None)
            branch_use = next((candidate for candidate in uses if candidate.column is not None), None)
            use = branch_use or use or Use("guess", guess="1")
        for when in node.args:
            self._walk(when.expr, scope, compared)
        for branch in results:
            if use.type and isinstance(branch, ast.ParamRef):
                self._give_type(branch, use.type)  # nothing else says it to the server
            self._walk(branch, scope, use)

    def _sublink(self, node: Any, scope: Scope) -> None:
        self._found.single = False
        outputs = self.statement(node.subselect, scope)
        if node.testexpr is not None:
            column = outputs[0].known if outputs else None
            if outputs and isinstance(listed := outputs[0].column, Listed):
                self._use_list(listed, self._column(node.testexpr, scope))
            self._walk(node.testexpr, scope, Use("equal", column) if column is not None else None)


_OTHER_NAMES = {
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "float4": "real",
    "float8": "double precision",
    "bool": "boolean",
    "varchar": "character varying",
    "bpchar": "character",
    "timestamptz": "timestamp with time zone",
    "timestamp": "timestamp without time zone",
    "timetz": "time with time zone",
    "time": "time without time zone",
}


def type_name(node: Any) -> str:
    """Returns the name of a type as format_type writes it, without its limits."""
    name = str(node.names[-1].sval)
    return _OTHER_NAMES.get(name, name) + "[]" * len(node.arrayBounds or ())


__all__ = ["Expressions", "type_name"]
