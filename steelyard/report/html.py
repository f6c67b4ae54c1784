"""One self-contained page: sections of text, figures and tables, numbered as they come."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from steelyard.report.figure import Figure
from steelyard.report.tables import Table

__all__ = ["Section", "page"]


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes:
        title: its heading.
        text: paragraphs.
        findings: a list of sentences.
        figures: drawn below the text.
        tables: below the figures.
        facts: names and values.
        code: commands.
        details: summaries and texts that are folded away.
    """

    title: str
    text: Sequence[str] = ()
    findings: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    facts: Sequence[tuple[str, str]] = ()
    code: Sequence[str] = ()
    details: Sequence[tuple[str, str]] = field(default_factory=tuple)


def page(
    title: str, lead: str, facts: Sequence[tuple[str, str]], sections: Sequence[Section], *, mark: str = ""
) -> str:
    """Put the page together.

    Args:
        title: of the page.
        lead: a sentence or two below it.
        facts: a row of names and values.
        sections: in order; empty ones are left out.
        mark: rows of tables that begin with this are set off.
    """
    from jinja2 import Environment, PackageLoader

    from steelyard import __version__

    environment = Environment(
        loader=PackageLoader("steelyard.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    figures = tables = 0
    shown: list[dict[str, Any]] = []
    for section in sections:
        content = {**vars(section), "figures": [], "tables": []}
        for figure in section.figures:
            figures += 1
            content["figures"].append({**vars(figure), "svg": _unique_ids(figure), "number": figures})
        for table in section.tables:
            tables += 1
            rows = [{"cells": row, "mark": bool(mark) and row[0] == mark} for row in table.rows]
            content["tables"].append({**vars(table), "rows": rows, "number": tables})
        if any(value for key, value in content.items() if key != "title"):
            shown.append(content)
    text = environment.get_template("report.html").render(
        title=title, lead=lead, facts=facts, sections=shown, version=__version__
    )
    return re.sub(r"(\d) ± (\d?\.\d+)", r'\1 <span class="sd">± \2</span>', text)


def _unique_ids(figure: Figure) -> str:
    """matplotlib numbers its clip paths and glyphs anew in each picture; on one page they must not meet."""
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{figure.name}-\1"', figure.svg)
    svg = re.sub(r'(xlink:href|href)="#([^"]+)"', rf'\1="#{figure.name}-\2"', svg)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{figure.name}-\1)", svg)
