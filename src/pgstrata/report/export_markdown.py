"""The report as Markdown: the same tables and sentences, for a mail, an issue or a repository."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pgstrata.page.blocks import (
    Bars,
    Block,
    Cell,
    Chart,
    Facts,
    Findings,
    Listing,
    Picture,
    Prose,
    Section,
    Table,
)

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~$#])")


def escape(text: str) -> str:
    """Escapes text that Markdown and the HTML inside it would change; line breaks become spaces."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split())).replace("&", "&amp;")


def fence(text: str) -> str:
    """Returns a fenced block that no run of backticks inside the text can close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}text\n{text.rstrip()}\n{ticks}"


def _cell(cell: Cell) -> str:
    text = " ".join(part for part in (cell.sign, cell.text, cell.small) if part)
    return escape(text)


def table_lines(table: Table) -> list[str]:
    """Returns the lines of a pipe table: units behind the titles, numbers right-aligned."""
    titles = [escape(f"{c.title} [{c.unit}]" if c.unit else c.title) for c in table.columns]
    rules = ["---:" if c.align == "right" else ":---" for c in table.columns]
    lines = ["| " + " | ".join(titles) + " |", "| " + " | ".join(rules) + " |"]
    for row in table.rows:
        cells = [_cell(cell) for cell in row.cells]
        if row.kind in ("target", "group"):
            cells = [f"**{text}**" if text else "" for text in cells]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _block(block: Block) -> list[str]:
    if isinstance(block, Table):
        lines = [f"**{escape(block.title)}**", "", *table_lines(block), ""]
        lines += [escape(note) + "\n" for note in block.notes]
        return [*lines, f"*How to read this.* {escape(block.how)}", ""]
    if isinstance(block, Bars):
        lines = [f"**{escape(block.title)}**", ""]
        for bar in block.bars:
            parts = (f"{bar.label}:", bar.text, bar.small, bar.note)
            lines.append(f"- {escape(' '.join(part for part in parts if part))}")
        return [*lines, ""]
    if isinstance(block, Chart):
        return [f"*Chart in index.html: {escape(block.title)}.*", ""]
    if isinstance(block, Picture):
        return [f"![{escape(block.title)}]({block.file})", ""]
    if isinstance(block, Prose):
        return [escape(block.text), ""]
    if isinstance(block, Listing):
        return [f"{escape(block.title)}:", "", fence(block.text), ""]
    if isinstance(block, Facts):
        lines = [
            f"- **{escape(term.name)}**: {escape(term.value)}"
            + (f" ({escape(term.note)})" if term.note else "")
            for term in block.terms
        ]
        return [*lines, ""]
    return [*_findings(block), ""]


def _findings(block: Findings) -> list[str]:
    lines = []
    for finding in block.findings:
        lines.append(f"- **{escape(finding.variant)}** {escape(finding.headline)}")
        for _, words, steps in finding.items:
            named = ", ".join(f"{escape(step)} {escape(text)}".strip() for step, text, _ in steps)
            lines.append(f"  - {escape(words)}: {named}" if named else f"  - {escape(words)}")
    return lines


def _section(section: Section, level: int, *, alone: bool) -> list[str]:
    lines = ["#" * min(level, 6) + " " + escape(section.title), ""]
    if section.brief:
        lines += [escape(section.brief), ""]
    for block in section.blocks:
        lines += _block(block) if not (alone and isinstance(block, Chart)) else []
    for part in section.parts:
        lines += _section(part, level + 1, alone=alone)
    return lines


def write_markdown(title: str, lede: str, sections: Iterable[Section], *, alone: bool = False) -> str:
    """Returns the whole report as one Markdown document. alone: no page with the charts lies beside it."""
    lines = [f"# {escape(title)}", "", escape(lede), ""]
    for section in sections:
        lines += _section(section, 2, alone=alone)
    return "\n".join(lines).rstrip() + "\n"
