"""Docs can be relied on: links resolve, every page is reachable, sizes are kept, the glossary is unique."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgstrata.campaign.file.reading import read_campaign

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


def words(text: str) -> int:
    """Counts words: what stands between blanks and has a letter or a digit."""
    return sum(1 for word in text.split() if re.search(r"\w", word))


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 80


INDEX = DOCS / "README.md"


def test_every_page_is_one_click_from_the_index() -> None:
    linked = {(INDEX.parent / link.partition("#")[0]).resolve() for link in links(INDEX)}
    pages = {page for page in DOCS.rglob("*.md") if page != INDEX}
    assert not sorted(name(page) for page in pages - linked)


def test_every_measurement_is_one_click_from_its_index() -> None:
    index = ROOT / "benchmarks/results/README.md"
    linked = {(index.parent / link).resolve() for link in links(index)}
    assert not sorted(name(page) for page in set(index.parent.glob("*.md")) - linked - {index})


def test_a_measurement_has_its_date_and_machine() -> None:
    for page in (ROOT / "benchmarks/results").glob("*.md"):
        if page.name != "README.md":
            text = page.read_text(encoding="utf-8")
            assert re.search(r"^Date: .*\d{4}-\d\d-\d\d.* Machine: ", text, re.MULTILINE), page.name
            assert re.search(r"^ {4}\S", text, re.MULTILINE), f"{page.name} has no command"


QUESTIONS = (
    "Two builds of mine",
    "RDS",
    "only my own query",
    "Is 2 % real",
    "every night and get an alert",
    "to CI",
    "Small Datum's tables",
    "plot a rate over versions",
    "from Python",
    "changed setting",
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_first_question_is_answered_by_one_link(question: str) -> None:
    rows = re.findall(r"^\| (.+) \| \[[^]]+\]\(([^)]+)\) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    (page,) = (target for asked, target in rows if question in asked)
    commands = re.findall(r"^(?: {4})?pgstrata \w+", (ROOT / page).read_text(), re.MULTILINE)
    assert commands or "import pgstrata" in (ROOT / page).read_text()


def test_the_glossary_is_short_and_defines_each_word_once() -> None:
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    entries = re.findall(r"^\| \*\*([^*]+)\*\* \| (.+) \|$", text, re.MULTILINE)
    assert len(entries) == text.count("| **") <= 60
    assert len({word for word, _ in entries}) == len(entries)
    assert all(re.match(r"[A-Z].*\.$", meaning) for _, meaning in entries)


MOST_WORDS = 600
MOST_WORDS_OF_ALL = 40_000
GENERATED = ("campaign", "cli", "driver", "results")
"""Pages of the reference that the program makes."""


def test_all_pages_together_are_short() -> None:
    of_each = {page: words(page.read_text(encoding="utf-8")) for page in DOCS.rglob("*.md")}
    assert sum(of_each.values()) <= MOST_WORDS_OF_ALL
    written = sum(of_each.values()) - sum(of_each[DOCS / f"reference/{page}.md"] for page in GENERATED)
    assert written <= 28_000


@pytest.mark.parametrize("page", sorted((DOCS / "guides").glob("*.md")), ids=name)
def test_a_guide_is_short_and_begins_with_a_command(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert words(text) <= MOST_WORDS
    assert "## Limits" in text or "## Different from pgbench" in text
    assert re.search(r"^(?: {4})?(?:pgstrata|helm|pip|openssl) ", text, re.MULTILINE)


def campaigns() -> Iterator[tuple[str, str]]:
    """Yields the campaign files that guides show, with the names of their pages."""
    for page in sorted((DOCS / "guides").glob("*.md")):
        for text in re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            if "[[workloads]]" in text:
                yield page.name, text


@pytest.mark.parametrize(("page", "text"), list(campaigns()), ids=lambda text: text.partition("\n")[0])
def test_a_shown_campaign_is_valid(page: str, text: str, tmp_path: Path) -> None:
    for extension in ("pgvector", "my-extension", "my-extension-1.0"):
        (tmp_path / extension).mkdir()
        (tmp_path / extension / "Makefile").write_text("EXTENSION = mine\n")
    place = tmp_path / "study"
    (place / "queries").mkdir(parents=True)
    (place / "queries/q1.sql").write_text("SELECT 1")
    for named in re.findall(r"[\w/]+\.(?:sql|dump|traffic|patch|py)\b", text):
        (place / named).write_text("SELECT 1;\n")
    for code in re.findall(r"```python\n(.*?)```", (DOCS / "guides" / page).read_text(), re.DOTALL):
        (place / "mine.py").write_text(code)
    file = place / "campaign.toml"
    whole = "servers" in text or "[[variants]]" in text
    file.write_text(text if whole else 'servers = ["pg:17"]\n' + text)
    campaign = read_campaign(file)
    assert campaign.variants and campaign.workloads


@pytest.mark.program
def test_the_script_of_the_night_is_one() -> None:
    (script,) = re.findall(r"```sh\n(.*?)```", (DOCS / "guides/nightly.md").read_text(), re.DOTALL)
    done = subprocess.run(["sh", "-n"], input=script, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
