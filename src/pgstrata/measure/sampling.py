"""Sample statements of a step, to ask the server for their plans: values where the driver draws some.

The driver draws values at random; a sample takes the middle of each distribution (of the n-th of m
repeats: the n-th of m parts), so it is the same for every version. What cannot be worked out without
running the step, say a value an earlier statement returned, is 1.
"""

from __future__ import annotations

import ast
import operator
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
Scalar = int | float | str | bool | None

# Names for which sample data are made: a plan of COPY, BEGIN or VACUUM there is not.
_PLANNED = re.compile(r"\s*(select|insert|update|delete|with|values|table|merge)\b", re.IGNORECASE)
_PREPARE = re.compile(r"\s*prepare\s+(\w+)\s*\(([^()]*)\)\s*as\s+(.*)", re.IGNORECASE | re.DOTALL)
_EXECUTE = re.compile(r"\s*execute\s+(\w+)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Prepared:
    """A statement as it is prepared: text with `$1`, `$2`, …, and for each the type the driver declares
    (`unknown` where the server finds it out) and a sample value.
    """

    text: str
    types: tuple[str, ...]
    values: tuple[Scalar, ...]


@dataclass(frozen=True)
class Sample:
    """A statement with sample values. name: as in `statements_by_name`; sql: complete, without `;`.

    prepared: None for a statement that the step does not run as a prepared one.
    """

    name: str
    sql: str
    prepared: Prepared | None = None


Params = list[tuple[str, Scalar]]
"""Type and value of each parameter."""


def samples(spec: Mapping[str, Any]) -> list[Sample]:
    """The statements of a step's spec that have a plan, each name and text once."""
    found: dict[tuple[str, str], Sample] = {}
    for role in spec["roles"]:
        variables: dict[str, Scalar] = {"client": 1, "client_id": 0, **role.get("variables", {})}
        known: Known = {}
        for op in role.get("start", []):
            _collect([op], role, variables, found, known)
        for script in role["scripts"]:
            if "text" in script:
                _collect_text(script["text"], role, dict(variables), found)
            else:
                ops = [*script.get("before", []), *script["ops"]]
                _collect(ops, role, dict(variables), found, known)
    return list(found.values())


Found = dict[tuple[str, str], Sample]
Known = dict[str, tuple[tuple[str, ...], str]]
"""What the role has prepared in SQL: name → types and text."""


def _keep(name: str, sql: str, prepared: Prepared | None, found: Found) -> None:
    sql = sql.strip()
    if _PLANNED.match(sql):
        shown = name or " ".join(sql.split())[:80]
        found.setdefault((shown, re.sub(r"\d+", "0", sql)), Sample(shown, sql, prepared))


def _collect(
    ops: Sequence[Json], role: Json, variables: dict[str, Scalar], found: Found, known: Known
) -> None:
    for op in ops:
        if "set" in op:
            variables[op["set"]] = evaluate(op["expr"], variables)
        elif "sql" in op:
            sql = sample_text(op["sql"], variables)
            if prepare := _PREPARE.fullmatch(sql):
                types = tuple(kind.strip() for kind in prepare[2].split(","))
                known[prepare[1]] = types, prepare[3].strip()
            elif (execute := _EXECUTE.match(sql)) and execute[1] in known:
                prepared = _executed(op, variables, known[execute[1]])
                _keep(op.get("name", ""), with_values(prepared), prepared, found)
            else:
                _keep(op.get("name", ""), sql, _prepared(op, role, variables), found)
        elif "every" in op:
            _collect(op["ops"], role, variables, found, known)
        elif "if" in op:
            for _, branch in op["if"]:
                _collect(branch, role, variables, found, known)
            _collect(op.get("else", []), role, variables, found, known)


def _executed(op: Json, variables: Mapping[str, Scalar], statement: tuple[tuple[str, ...], str]) -> Prepared:
    """What EXECUTE runs: its arguments are the values of the statement that was prepared in SQL."""
    params: Params = []
    sample_text(op["sql"], variables, params=params)
    return Prepared(statement[1], statement[0], tuple(value for _, value in params))


def with_values(prepared: Prepared) -> str:
    """The text of a prepared statement with literals in place of `$1`, `$2`, …"""
    return re.sub(r"\$(\d+)", lambda found: literal(prepared.values[int(found[1]) - 1]), prepared.text)


def _prepared(op: Json, role: Json, variables: Mapping[str, Scalar]) -> Prepared | None:
    if op.get("mode", role.get("mode")) != "prepared":
        return None
    params: Params = []
    text = sample_text(op["sql"], variables, params=params)
    declares = role.get("declare_types", False)
    declared = tuple(kind if declares and kind != "text" else "unknown" for kind, _ in params)
    return Prepared(text.strip(), declared, tuple(value for _, value in params))


def sample_text(
    parts: Sequence[str | Json],
    variables: Mapping[str, Scalar],
    at: float = 0.5,
    params: Params | None = None,
) -> str:
    """The text of a statement from its parts (docs/driver.md). at: where in each distribution, 0 … 1.

    params: receives the values, and the text has `$1`, `$2`, … in their places; None: literals.
    """
    return "".join(_part_text(part, variables, at, params) for part in parts)


def _part_text(part: str | Json, variables: Mapping[str, Scalar], at: float, params: Params | None) -> str:
    if isinstance(part, str):
        return part
    if "text" in part:
        return str(part["from"])
    if "repeat" in part:
        n = int(part["repeat"])
        each = [sample_text(part["of"], variables, (i + 0.5) / n, params) for i in range(n)]
        return str(part.get("separator", ",")).join(each)
    kind, value = _sample_value(part, variables, at)
    if params is None:
        return literal(value)
    params.append((kind, value))
    return f"${len(params)}"


def _sample_value(part: Json, variables: Mapping[str, Scalar], at: float) -> tuple[str, Scalar]:
    """Type as the part names it, and value."""
    if "expr" in part:
        value = evaluate(part["expr"], variables, at)
        kind = str(part.get("type", "int8"))
        return kind, str(value) if kind in ("text", "varchar") else value
    if "digits" in part:
        return str(part.get("type", "text")), part["digits"].replace("#", "5")
    if "fill" in part:
        return "text", "a" * int(part["fill"]["min"])
    return "text", time.strftime("%Y-%m-%d %H:%M:%S")


def literal(value: Scalar) -> str:
    """A value as SQL text."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


# --- expressions -------------------------------------------------------------------------------

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    # pgbench divides integers towards zero
    ast.Div: lambda a, b: int(a / b) if isinstance(a, int) and isinstance(b, int) else a / b,
    ast.Mod: lambda a, b: a - b * int(a / b),
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "int": int,
    "double": float,
    "greatest": max,
    "least": min,
    "mod": lambda a, b: a - b * int(a / b),
    "sqrt": lambda a: a**0.5,
    "power": pow,
    "pow": pow,
}


def evaluate(expr: str, variables: Mapping[str, Scalar], at: float = 0.5) -> Scalar:
    """A pgbench expression with the `at` part of every uniform range, and 1 where it cannot be known."""
    try:
        tree = ast.parse(re.sub(r":([A-Za-z_]\w*)", r"\1", expr).strip(), mode="eval")
        value: Scalar = _value(tree.body, variables, at)
    except (SyntaxError, ValueError, TypeError, ArithmeticError, KeyError, RecursionError):
        return 1
    return value


def _value(node: ast.expr, variables: Mapping[str, Scalar], at: float) -> Any:
    match node:
        case ast.Constant(value=bool() | int() | float() | str()):
            return node.value
        case ast.Name(id=name):
            return _number(variables[name])
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner, variables, at)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left, variables, at), _value(right, variables, at))
        case ast.Call(func=ast.Name(id=name), args=args):
            values = [_value(arg, variables, at) for arg in args]
            if name in ("random", "random_gaussian"):
                return values[0] + int((values[1] - values[0]) * at)
            if name in ("random_zipfian", "random_exponential"):
                return values[0]  # the value drawn most often
            return _FUNCTIONS[name](*values)
    raise ValueError("not known before the step runs")


def _number(value: Scalar) -> Scalar:
    """Variables given on a command line are text; those that look like numbers are numbers."""
    if isinstance(value, str):
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                continue
    return value


# --- scripts in pgbench's language -------------------------------------------------------------

_TOKEN = re.compile(
    r"""(?P<meta>^[ \t]*\\(?P<word>\w+)(?P<rest>(?:\\\r?\n|[^\n])*))
      | (?P<end>\\(?:gset|aset)\b[^\n]*|\\;|;)
      | (?P<keep>'(?:[^']|'')*' | "(?:[^"]|"")*" | (?P<tag>\$\w*\$).*?(?P=tag) | ::)
      | (?P<comment>--[^\n]*|/\*.*?\*/)
      | :(?P<variable>[^\W\d]\w*)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


def script_statements(
    text: str, variables: dict[str, Scalar], *, parameters: bool = False
) -> Iterator[tuple[str, str, tuple[str, list[str]]]]:
    """Statements of a pgbench script: as written, with sample values, and with parameters in place of the
    variables that are named beside it. `\\set` is carried out.

    parameters: whether whatever looks like a variable is one, as in the extended protocol.
    """
    written = sample = prepared = ""
    names: list[str] = []
    for match in _TOKEN.finditer(text):
        if match["meta"] is not None:
            if match["word"] == "set":
                name, _, expr = match["rest"].strip().partition(" ")
                variables[name] = evaluate(expr.replace("\\\n", " "), variables)
        elif match["end"] is not None:
            if sample.strip():
                yield written.strip(), sample.strip(), (prepared.strip(), names)
            written = sample = prepared = ""
            names = []
        elif match["variable"] is not None:
            written += match[0]
            name = match["variable"]
            known = parameters or name in variables
            sample += literal(variables.get(name, 1)) if known else match[0]
            names.append(name)
            prepared += f"${len(names)}"
        else:
            same = " " if match["comment"] is not None else match[0]
            written, sample, prepared = written + same, sample + same, prepared + same
    if sample.strip():
        yield written.strip(), sample.strip(), (prepared.strip(), names)


def _collect_text(text: str, role: Json, variables: dict[str, Scalar], found: Found) -> None:
    parameters = role.get("mode", "simple") != "simple"
    for written, sample, (with_params, names) in script_statements(text, variables, parameters=parameters):
        prepared = None
        if role.get("mode") == "prepared":
            # what an earlier statement returned is not known here
            values = tuple(variables.get(name, 1) for name in names)
            prepared = Prepared(with_params, ("unknown",) * len(names), values)
        _keep(" ".join(written.split()), sample, prepared, found)
