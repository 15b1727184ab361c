"""Docs can be relied on: links resolve, every page is reachable, sizes are kept, the glossary is unique."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "benchmarks/results").glob("*.md")])
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_PATH = re.compile(r"(?<![\w./-])((?:docs|benchmarks/results)/[\w./-]+\.(?:md|json))\b")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def links(page: Path) -> Iterator[str]:
    """Yields the targets of links that stay within the repository."""
    for target in _LINK.findall(_FENCED.sub("", page.read_text(encoding="utf-8"))):
        if not target.startswith(("http:", "https:", "mailto:")):
            yield target


def anchors(page: Path) -> set[str]:
    """Returns the anchors that a reader of Markdown makes of headings."""
    headings = re.findall(r"^#+ (.+)$", _FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    texts = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in texts}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_resolve(page: Path) -> None:
    for link in links(page):
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def _texts() -> Iterator[Path]:
    yield from (ROOT / "src").rglob("*.py")
    yield from (ROOT / "crates").rglob("*.rs")
    for folder in ("benchmarks", "campaigns", "changes", "tests"):
        yield from (path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md", ".toml"))
    yield from PAGES


def test_pages_that_code_and_messages_name_are_there() -> None:
    named = {(name(path), page) for path in _texts() for page in _PATH.findall(path.read_text("utf-8"))}
    assert len(named) > 50
    assert not [(where, page) for where, page in sorted(named) if not (ROOT / page).is_file()]
