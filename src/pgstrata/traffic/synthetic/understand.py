"""What each parameter of a statement is for: the column it is compared with or put into, a count of rows, or
a value of which only the place is known. Found in PostgreSQL's own parse tree of the statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pglast import ast, parse_sql
from pglast.enums import SetOperation
from pglast.parser import ParseError

from pgstrata.sql_tokens import tokens
from pgstrata.traffic.synthetic.expressions import Expressions
from pgstrata.traffic.synthetic.inner import inner_text
from pgstrata.traffic.synthetic.names import Columns, Listed, OutputColumn, Scope, Tables
from pgstrata.traffic.synthetic.sampling import column_names, derived_from, listed_in, name_of
from pgstrata.traffic.synthetic.statistics import KnownColumn
from pgstrata.traffic.synthetic.use import NotUnderstoodError, Understood, Use, numbers_in


def understand(text: str, known_tables: Tables, *, masked: bool = False) -> Understood:
    """Parses a statement and finds the uses of its parameters. masked: its text is to say nothing of values;
    comments go.

    Raises NotUnderstoodError for what is no statement on rows, or cannot be parsed.
    """
    try:
        statements = parse_sql(text)
    except ParseError as error:
        if (newer := _numbered(text)) != text:
            return understand(newer, known_tables, masked=masked)
        # What it is near to may be a value.
        why = str(error.args[0]).partition(" at or near")[0]
        raise NotUnderstoodError(f"it cannot be parsed, and may be cut off: {why}") from None
    if len(statements) != 1:
        raise NotUnderstoodError("it is not one statement")
    node = statements[0].stmt
    # What is prepared is counted under the text that prepared it.
    if (inner := inner_text(text, node)) is not None:
        return understand(inner, known_tables, masked=masked)
    reader = _Reader(text, known_tables)
    reader.statement(node)
    return reader.result(masked=masked)


def _numbered(text: str) -> str:
    """Returns the statement with $n for each question mark, which stood for a constant before 10."""
    last = numbers_in(text)
    parts = []
    for kind, piece in tokens(text):
        last += kind == "other" and piece == "?"
        parts.append(f"${last}" if kind == "other" and piece == "?" else piece)
    return "".join(parts)


class _Reader(Expressions):
    """Walks the clauses of one statement."""

    def statement(self, node: Any, scope: Scope | None = None) -> list[OutputColumn]:
        """Reads any statement that works on rows, and returns its output columns. Raises NotUnderstoodError
        for a utility statement."""
        match node:
            case ast.SelectStmt():
                if node.intoClause is not None:
                    raise NotUnderstoodError("SELECT INTO makes a table")
                return self._select(node, scope)
            case ast.InsertStmt():
                return self._insert(node, scope)
            case ast.UpdateStmt():
                return self._update(node, scope)
            case ast.DeleteStmt():
                return self._delete(node, scope)
            case ast.MergeStmt():
                return self._merge(node, scope)
            case ast.CallStmt():
                self._walk(node.funccall, scope or Scope())
                self._found.reads = False
                return []
            case ast.RefreshMatViewStmt():
                self._found.reads = False
                return []
        raise NotUnderstoodError(f"utility statement: {command_of(node)}")

    def _select(self, node: Any, parent: Scope | None, into: Sequence[Use | None] = ()) -> list[OutputColumn]:
        """Reads a SELECT or VALUES and returns its output columns. into: the uses of its columns, of INSERT …
        SELECT and VALUES."""
        scope = Scope(parent)
        self._with(node.withClause, scope)
        if node.op != SetOperation.SETOP_NONE:
            self._found.single = False
            outputs = self._select(node.larg, scope, into)
            self._select(node.rarg, scope, into)
        elif node.valuesLists:
            width = len(node.valuesLists[0])
            for row in node.valuesLists:
                for place, value in enumerate(row):
                    self._walk(value, scope, into[place] if place < len(into) else None)
            outputs = [OutputColumn(f"column{number}", None) for number in range(1, width + 1)]
        else:
            for item in node.fromClause or ():
                self._source(item, scope)
            outputs = []
            for place, target in enumerate(node.targetList or ()):
                use = into[place] if place < len(into) else None
                if into and isinstance(target.val, ast.ColumnRef) and column_names(target.val) is None:
                    self._all_into(scope, into[place:])
                if use is None and isinstance(target.val, ast.ParamRef):
                    use = Use("guess", guess="1")
                self._walk(target.val, scope, use)
                outputs += self._outputs(target, scope)
            self._walk(node.whereClause, scope)
            for part in (node.groupClause, node.havingClause, node.windowClause):
                self._found.whole = self._found.whole and not part
                self._walk(_not_numbered(part), scope)
            if node.distinctClause:
                self._found.whole = False
                self._walk(node.distinctClause, scope)
        self._walk(_not_numbered(node.sortClause), scope)
        if node.limitCount is not None or node.limitOffset is not None:
            self._found.whole = False
            for count, kind in ((node.limitCount, Use("limit")), (node.limitOffset, Use("offset"))):
                if not isinstance(count, ast.A_Const):
                    self._walk(count, scope, kind)
        if node.lockingClause:
            self._found.reads = False
        return outputs

    def _all_into(self, scope: Scope, into: Sequence[Use | None]) -> None:
        """Records what `*` of arrays is put into."""
        columns = [column for _, columns in scope.sources for column in columns.values()]
        for column, use in zip(columns, into, strict=False):
            if isinstance(column, Listed) and use is not None:
                self._use_list(column, use)

    def _with(self, clause: Any, scope: Scope) -> None:
        if clause is None:
            return
        self._found.single = False
        for cte in clause.ctes:
            if clause.recursive:
                scope.common[cte.ctename] = {}
            outputs = self.statement(cte.ctequery, scope)
            names = [part.sval for part in cte.aliascolnames or ()] or [output.name for output in outputs]
            scope.common[cte.ctename] = {
                name: output.column for name, output in zip(names, outputs, strict=False)
            }

    def _insert(self, node: Any, parent: Scope | None) -> list[OutputColumn]:
        self._found.reads = self._found.single = False
        scope = Scope(parent)
        self._with(node.withClause, scope)
        table = self._table(node.relation)
        names = [target.name for target in node.cols] if node.cols else list(table)
        conflict = node.onConflictClause
        self._found.upserts = self._found.upserts or conflict is not None
        if node.selectStmt is not None:
            into = [Use("insert", table.get(name)) for name in names]
            self._select(node.selectStmt, scope, into)
        self._target(node.relation, table, scope)
        if conflict is not None:
            scope.sources.append(("excluded", table))
            self._assigned(conflict.targetList, table, scope)
            self._walk(conflict.whereClause, scope)
        return self._returned(node, scope)

    def _update(self, node: Any, parent: Scope | None) -> list[OutputColumn]:
        self._found.reads = False
        scope = Scope(parent)
        self._with(node.withClause, scope)
        table = self._table(node.relation)
        self._target(node.relation, table, scope)
        for item in node.fromClause or ():
            self._source(item, scope)
        self._assigned(node.targetList, table, scope)
        self._walk(node.whereClause, scope)
        return self._returned(node, scope)

    def _delete(self, node: Any, parent: Scope | None) -> list[OutputColumn]:
        self._found.reads = False
        scope = Scope(parent)
        self._with(node.withClause, scope)
        self._target(node.relation, self._table(node.relation), scope)
        for item in node.usingClause or ():
            self._source(item, scope)
        self._walk(node.whereClause, scope)
        return self._returned(node, scope)

    def _merge(self, node: Any, parent: Scope | None) -> list[OutputColumn]:
        self._found.reads = self._found.single = False
        scope = Scope(parent)
        self._with(node.withClause, scope)
        table = self._table(node.relation)
        self._target(node.relation, table, scope)
        self._source(node.sourceRelation, scope)
        self._walk(node.joinCondition, scope)
        for clause in node.mergeWhenClauses or ():
            self._walk(clause.condition, scope)
            if clause.values:
                names = [target.name for target in clause.targetList or ()] or list(table)
                for name, value in zip(names, clause.values, strict=False):
                    self._walk(value, scope, Use("insert", table.get(name)))
            else:
                self._assigned(clause.targetList, table, scope)
        return self._returned(node, scope)

    def _assigned(self, targets: Any, table: Mapping[str, KnownColumn], scope: Scope) -> None:
        """Reads assignments, SET a = …, (b, c) = (…, …)."""
        for target in targets or ():
            value = target.val
            if isinstance(value, ast.MultiAssignRef):
                row = value.source.args if isinstance(value.source, ast.RowExpr) else None
                if row and len(row) == value.ncolumns:  # and not ROW (excluded.*)
                    value = row[value.colno - 1]
                elif value.colno > 1:
                    continue  # a SELECT, which is walked once
                else:
                    value = value.source
            self._walk(value, scope, Use("set", table.get(target.name)))

    def _returned(self, node: Any, scope: Scope) -> list[OutputColumn]:
        # PostgreSQL 18 has a clause of its own for it.
        clause = getattr(node, "returningClause", None)
        targets = clause.exprs if clause is not None else getattr(node, "returningList", None)
        outputs: list[OutputColumn] = []
        for target in targets or ():
            self._walk(target.val, scope, Use("guess", guess="1"))
            outputs += self._outputs(target, scope)
        return outputs

    # --- sources ------------------------------------------------------------------------------------

    def _table(self, node: Any) -> Mapping[str, KnownColumn]:
        columns = self._known_tables.table(node.schemaname, node.relname) or {}
        first = next(iter(columns.values()), None)
        return self._behind_view(first, columns) if first is not None and first.definition else columns

    def _behind_view(
        self, first: KnownColumn, columns: Mapping[str, KnownColumn]
    ) -> Mapping[str, KnownColumn]:
        """Returns the columns of tables that a view shows, as far as they can be told."""
        key = first.schema, first.table
        views = self._known_tables.views
        if key not in views:
            views[key] = columns  # for whatever asks for it meanwhile: views may stand in a circle
            try:
                shown = _Reader(first.definition, self._known_tables).statement(
                    parse_sql(first.definition)[0].stmt
                )
            except (ParseError, NotUnderstoodError):
                shown = []
            view_columns = {
                name: output.known for name, output in zip(columns, shown, strict=False) if output.known
            }
            views[key] = {**columns, **view_columns}
        return views[key]

    def _target(self, node: Any, table: Columns, scope: Scope) -> None:
        self._tables += 1
        scope.sources.append((node.alias.aliasname if node.alias else node.relname, table))

    def _source(self, node: Any, scope: Scope) -> None:
        match node:
            case ast.RangeVar():
                common = None if node.schemaname else scope.common_table(node.relname)
                columns = common if common is not None else self._table(node)
                self._tables += 1
                self._named(node, columns, scope, node.relname)
            case ast.RangeSubselect():
                self._found.single = False
                outputs = self.statement(node.subquery, scope)
                self._named(node, {output.name: output.column for output in outputs}, scope, "")
            case ast.JoinExpr():
                self._found.single = False
                self._source(node.larg, scope)
                self._source(node.rarg, scope)
                self._walk(node.quals, scope)
            case ast.RangeTableSample():
                self._found.single = False
                self._source(node.relation, scope)
                self._walk(node.args, scope, Use("guess", guess="10"))
            case ast.RangeFunction():
                self._found.single = False
                self._walk_below(node, scope)
                self._named(node, self._of_function(node, scope), scope, "")
            case _:
                self._found.single = False
                self._walk_below(node, scope)
                self._named(node, {}, scope, "")

    def _of_function(self, node: Any, scope: Scope) -> Columns:
        """Returns the columns of a function behind FROM that makes rows of one document or array."""
        call = node.functions[0][0] if len(node.functions) == 1 else None
        if not isinstance(call, ast.FuncCall) or node.ordinality:
            return {}
        alias = node.alias.aliasname if node.alias is not None else name_of(call)
        if any(listed := listed_in(call)):
            return {f"{alias} {n}" if n else alias: column for n, column in enumerate(listed)}
        derived = derived_from(call, scope)
        if derived is None:
            return {}
        name = name_of(call)
        if name.startswith(("jsonb_each", "json_each")):
            parts = (
                (part, ast.A_Indirection(arg=derived.node, indirection=(ast.String(sval=part),)))
                for part in ("key", "value")
            )
            return {part: replace(derived, node=element) for part, element in parts}
        # A column that nothing names is called as the row is; of documents also `value`.
        return {alias: derived} | ({"value": derived} if "elements" in name else {})

    def _named(self, node: Any, columns: Columns, scope: Scope, name: str) -> None:
        alias = getattr(node, "alias", None)
        if alias is not None:
            name = alias.aliasname
            if alias.colnames:
                given = [part.sval for part in alias.colnames]
                columns = {
                    **dict(zip(given, columns.values(), strict=False)),
                    **dict(list(columns.items())[len(given) :]),
                }
        scope.sources.append((name, columns))

    def _outputs(self, target: Any, scope: Scope) -> list[OutputColumn]:
        value = target.val
        if isinstance(value, ast.ColumnRef) and isinstance(value.fields[-1], ast.A_Star):
            of = value.fields[-2].sval if len(value.fields) > 1 else None
            return [
                OutputColumn(name, column)
                for alias, columns in scope.sources
                if of in (None, alias)
                for name, column in columns.items()
            ]
        name = target.name
        if name is None and isinstance(value, ast.ColumnRef):
            name = value.fields[-1].sval
        elif name is None and isinstance(value, ast.FuncCall):
            name = value.funcname[-1].sval
        listed = listed_in(value) or [self._listed(value, scope)]
        column = self._column(value, scope).column or derived_from(value, scope) or listed[0]
        return [OutputColumn(name or "?column?", column)]


def _not_numbered(clause: Any) -> Any:
    """Returns GROUP BY and ORDER BY without the numbers of columns, which are no values."""
    if not isinstance(clause, tuple | list):
        return clause
    return [element for element in clause if not isinstance(getattr(element, "node", element), ast.A_Const)]


def command_of(node: Any) -> str:
    """Returns the name of a utility statement."""
    name = type(node).__name__.removesuffix("Stmt")
    if isinstance(node, ast.TransactionStmt):
        return str(node.kind.name).removeprefix("TRANS_STMT_").replace("_", " ")
    known = {"VariableSet": "SET", "VariableShow": "SHOW", "Copy": "COPY", "Explain": "EXPLAIN"}
    known |= {"DeclareCursor": "DECLARE", "Fetch": "FETCH", "ClosePortal": "CLOSE", "Execute": "EXECUTE"}
    spaced = "".join(f" {letter}" if letter.isupper() else letter for letter in name).strip()
    return known.get(name, spaced.upper())


__all__ = ["command_of", "understand"]
