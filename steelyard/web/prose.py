"""Instructions as they were written, in parts that a template can show: nothing in them is ever HTML.

A small part of Markdown: headings (`#`, `##`), lists (`-`, `*`, `1.`), `**strong**` and `*emphasised*` words, paragraphs
parted by empty lines. Everything else is text, and the template escapes it like any other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

__all__ = ["Block", "Run", "read_prose"]

_HEADING = re.compile(r"^(#{1,3})\s+(.+?)\s*#*$")
_POINT = re.compile(r"^\s*(?:[-*•]|(\d{1,3})[.)])\s+(.*)$")
_MARKED = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*|\*(?=\S)([^*]+?)(?<=\S)\*")


@dataclass(frozen=True)
class Run:
    """Words in one style."""

    text: str
    style: Literal["", "strong", "em"] = ""


@dataclass(frozen=True)
class Block:
    """A heading (`h2`, `h3`), a paragraph (`p`) or a list (`ul`, `ol`); only a list has more than one line."""

    kind: Literal["h2", "h3", "p", "ul", "ol"]
    lines: tuple[tuple[Run, ...], ...]


def read_prose(text: str) -> list[Block]:
    """The parts of a text.

    >>> [block.kind for block in read_prose("# Before\\n\\nLook *closely*.\\n- one\\n- two")]
    ['h2', 'p', 'ul']
    """
    blocks: list[Block] = []
    words: list[str] = []

    def end() -> None:
        if words:
            blocks.append(Block("p", (_runs(" ".join(words)),)))
            words.clear()

    for line in text.splitlines():
        heading, point = _HEADING.match(line), _POINT.match(line)
        if not line.strip():
            end()
        elif heading:
            end()
            blocks.append(Block("h2" if len(heading[1]) == 1 else "h3", (_runs(heading[2]),)))
        elif point:
            end()
            kind: Literal["ul", "ol"] = "ol" if point[1] else "ul"
            before = blocks.pop().lines if blocks and blocks[-1].kind == kind else ()
            blocks.append(Block(kind, (*before, _runs(point[2]))))
        else:
            words.append(line.strip())
    end()
    return blocks


def _runs(text: str) -> tuple[Run, ...]:
    runs, at = [], 0
    for found in _MARKED.finditer(text):
        runs.append(Run(text[at : found.start()]))
        runs.append(Run(found[1], "strong") if found[1] else Run(found[2], "em"))
        at = found.end()
    runs.append(Run(text[at:]))
    return tuple(run for run in runs if run.text)
