"""Messages, help texts and pages use the words of the glossary, not those that it replaces."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
INSTEAD = {
    r"fragments?": "config file",
    r"unable": "unsupported",
    r"mended": "compatibility patch; corrected, repaired",
    r"lateness": "lag",
    r"(?:set|setting) aside": "skipped",
    r"shapes?": "normalized statement",
}
"""By word: what to write instead."""

OF_PLANS = {
    "judge/explain.py",
    "page/changed_plans.py",
    "report/sections/statement_plans.py",
    "report/sections/why.py",
}
"""Where a shape is that of a query plan."""
GENERATED = {"driver.md"}
"""Pages whose texts are those of the driver's types."""

BANNED = re.compile(rf"\b(?:{'|'.join(INSTEAD)})\b", re.IGNORECASE)
NAMES = re.compile(r"`[^`]*`|\$\w+|\{[^}]*\}|^ {4}.*$", re.MULTILINE)
"""Keys, parameters, blocks of code: these stay as they are."""


def sentences(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields the strings that a program may print, with their lines: those with a blank, no docstrings."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if " " in text and id(node) not in prose:
                yield node.lineno, text


def docstrings_of_commands(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields the docstrings that are help texts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any("command" in ast.dump(d) for d in node.decorator_list):
            yield node.lineno, ast.get_docstring(node) or ""


def old_words(text: str) -> list[str]:
    return [word.lower() for word in BANNED.findall(NAMES.sub("", text))]


def test_messages_and_help_texts() -> None:
    wrong, seen = [], 0
    for path in sorted((ROOT / "src/pgstrata").rglob("*.py")):
        where = path.relative_to(ROOT / "src/pgstrata").as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for line, text in (*sentences(tree), *docstrings_of_commands(tree)):
            seen += 1
            words = [word for word in old_words(text) if not (where in OF_PLANS and word.startswith("shape"))]
            wrong += [f"{where}:{line}: {word!r}" for word in words]
    assert seen > 5000
    assert not wrong, f"{wrong}; say instead: {INSTEAD}"


PAGES = [page for page in (ROOT / "docs").rglob("*.md") if page.name not in GENERATED]


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(PAGES)], ids=lambda page: page.name)
def test_pages(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert not old_words(text), INSTEAD


@pytest.mark.parametrize(
    ("function", "files"),
    [("shown", ["files/user_files.py"]), ("record", ["traffic/commands/record.py"]), ("step", [])],
)
def test_one_name_is_one_function(function: str, files: list[str]) -> None:
    """Several had each of these names, each with a meaning of its own."""
    begins = re.compile(rf"^def {function}\(", re.MULTILINE)
    sources = ROOT / "src/pgstrata"
    paths = [path for path in sorted(sources.rglob("*.py")) if begins.search(path.read_text("utf-8"))]
    assert [path.relative_to(sources).as_posix() for path in paths] == files


def test_an_old_word_is_seen_and_a_key_is_not() -> None:
    assert old_words("Fragments of a config are set aside") == ["fragments", "set aside"]
    assert old_words("files (`fragments`), {fragment.name}, $shape") == []


BANNED_NAMES = {"found", "one", "own", "made", "said", "told"}
KEYS_OF_FILES = {
    ("captured.py", "made"),
    ("loaded.py", "made"),
    ("cached.py", "made"),
    ("watching.py", "made"),
    ("text.py", "said"),
}
"""Fields that are written to files or printed as JSON by this name."""
NOUNS = """
address arguments assignments bits bounds cents columns commits comparisons connections cpus
differences digests digits errors executions extensions files folders headers instructions
intervals its is as keys labels lines means microseconds milliseconds minutes names numbers
overlays pages pairs parts percentiles pids points positions queries rates results roles rounds
rows samples seconds segments sentences servers sessions settings shapes sizes statements
statistics steps tables texts this totals values variants verdicts weights whether words
workloads
"""
"""First words of a docstring that end in s and are no verbs."""


def names_bound(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields the names that a file gives to functions, classes, parameters, fields and variables."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name


@pytest.mark.parametrize("folder", ["src", "tests", "benchmarks"])
def test_names_say_what_they_name(folder: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, name in names_bound(ast.parse(path.read_text()))
        if name in BANNED_NAMES and (path.name, name) not in KEYS_OF_FILES
    ]
    assert wrong == []


def first_words(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields the first word of each function's docstring; not of properties, which are nouns, and of
    commands, whose help texts are imperative."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or not (text := ast.get_docstring(node)):
            continue
        decorators = " ".join(map(ast.dump, node.decorator_list))
        is_command = re.search(r"id='(?:Annotated|\w*Option)'", ast.dump(node.args))
        if not is_command and not any(word in decorators for word in ("property", "command", "callback")):
            yield node.lineno, text.split()[0].strip("`*.,:;")


def test_docstrings_begin_with_a_verb() -> None:
    wrong, seen = [], 0
    for path in sorted((ROOT / "src/pgstrata").rglob("*.py")):
        for line, word in first_words(ast.parse(path.read_text())):
            seen += 1
            if word != "True" and (not word.endswith("s") or word.lower() in NOUNS.split()):
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {word}")
    assert seen > 3000
    assert wrong == []
