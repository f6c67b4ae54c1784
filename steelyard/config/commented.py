"""`study.toml` as it is written: every key with what it means, what it may hold and its default.

The comments come from the sections' docstrings, as `docs/configuration.md` does. Ours begin with `#:` and are written
anew each time; all other comments are somebody's own and stay where they were.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from steelyard.config.section import Section

__all__ = ["is_cut", "with_comments"]

OURS = "#:"
WIDTH = 110
_ABOUT = (
    "The settings of a Steelyard study. Change a value, save the file, and start what runs again. Lines that begin "
    f"with “{OURS}” are written by Steelyard; comments of your own begin with “#” and are kept. More: docs/configuration.md."
)
END = f"{OURS} The end of the settings; whatever misses this line was cut short."
_BEGINNING = f"{OURS} The settings of a Steelyard study."
_VERSION = "The version of this file's form; Steelyard sets it."

_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"""'  # a text over several lines
    r"|'''.*?'''"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*|[\[\]{}]|\n",
    re.DOTALL,
)


def with_comments(config: Section, values: Mapping[str, Any], before: str = "") -> str:
    """A configuration as text.

    Args:
        config: the configuration, for what its keys mean.
        values: what is written, nested by section.
        before: the text it replaces, for comments that somebody wrote into it.
    """
    own = _Own.read(before, _places(values))
    lines = [*_ours(_ABOUT), ""]
    for key, value in values.items():
        if not _is_table(value):
            about = _VERSION if key == "version" else config.explain(key)
            lines += [*_ours(about), *own.above("", key), f"{key} = {_toml(value)}{own.beside('', key)}", ""]
    for name, section in values.items():
        if isinstance(section, dict):
            part = getattr(config, name)
            lines += ["", *_ours(part.summary()), *own.above(name), f"[{name}]{own.beside(name)}", ""]
            for key, value in section.items():
                line = f"{key} = {_toml(value)}{own.beside(name, key)}"
                lines += [*_ours(part.explain(key)), *own.above(name, key), line, ""]
    for name, tables in values.items():
        if _is_table(tables) and isinstance(tables, list):
            for number, table in enumerate(tables):
                part, place = getattr(config, name)[number], f"{name}.{number}"
                head = _ours(part.summary()) if number == 0 else []
                lines += ["", *head, *own.above(place), f"[[{name}]]{own.beside(place)}", ""]
                for key, value in table.items():
                    line = f"{key} = {_toml(value)}{own.beside(place, key)}"
                    said = _ours(part.explain(key)) if number == 0 else []
                    lines += [*said, *own.above(place, key), line, *([""] if number == 0 else [])]
                lines += [""] if number else []
    lines += [*own.end, *([""] if own.end else []), END]
    return "\n".join(lines) + "\n"


def is_cut(text: str) -> bool:
    """Whether a text that we wrote misses its end: cut within a comment it would be a study with other settings."""
    return _BEGINNING in text and END not in text


def _ours(text: str) -> list[str]:
    return [
        f"{OURS} {line}"
        for line in textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
    ]


def _toml(value: Any) -> str:
    """A value as TOML; tables within a section stand on one line, so that each key has one place."""
    import tomli_w

    if isinstance(value, dict):
        pairs = ", ".join(tomli_w.dumps({key: inner}).strip() for key, inner in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    text = tomli_w.dumps({"key": value}, multiline_strings=isinstance(value, str) and "\r" not in value)
    return text.strip().removeprefix("key = ")


def _is_table(value: Any) -> bool:
    """Whether a value is written as [section] or, a list of them, as [[sections]]."""
    return isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(one, dict) for one in value)
    )


def _places(values: Mapping[str, Any]) -> set[str]:
    """Where a comment can stand: keys and sections, as `ask.raters` and `ask`; one of several is `questions.0`."""
    sections = {name: section for name, section in values.items() if isinstance(section, dict)}
    for name, tables in values.items():
        if _is_table(tables) and isinstance(tables, list):
            sections |= {f"{name}.{number}": table for number, table in enumerate(tables)}
    return {*values, *sections, *(f"{name}.{key}" for name, section in sections.items() for key in section)}


@dataclass
class _Own:
    """Comments that people wrote, by the key or section they belong to; `end` are those behind the last one."""

    lines: dict[str, list[str]] = field(default_factory=dict)
    inline: dict[str, str] = field(default_factory=dict)
    end: list[str] = field(default_factory=list)

    def above(self, *place: str) -> list[str]:
        return self.lines.get(".".join(filter(None, place)), [])

    def beside(self, *place: str) -> str:
        found = self.inline.get(".".join(filter(None, place)))
        return f"  {found}" if found else ""

    @classmethod
    def read(cls, text: str, places: set[str]) -> _Own:
        """Find them; those of a key that is no longer written go to its section, or to the end."""
        own, section, waiting = cls(), "", list[str]()
        seen: Counter[str] = Counter()  # of [[sections]], by name
        for code, comments in _statements(text):
            kept = [comment for comment in comments if not comment.startswith(OURS)]
            if not code:
                waiting += kept
                continue
            if code.startswith("[["):
                name = _name(code.strip("[] \t"))
                place = section = f"{name}.{seen[name]}"
                seen[name] += 1
            elif code.startswith("["):
                place = section = _name(code.strip("[] \t"))
            else:
                place = ".".join(filter(None, (section, _name(code.partition("=")[0]))))
            while place and place not in places:
                place = place.rpartition(".")[0]
            if not place:
                own.end += waiting + kept
            elif len(kept) == 1 and "\n" not in code and place not in own.inline:
                own.lines.setdefault(place, []).extend(waiting)
                own.inline[place] = kept[0]
            else:
                own.lines.setdefault(place, []).extend(waiting + kept)
            waiting = []
        own.end += waiting
        return own


def _statements(text: str) -> Iterable[tuple[str, list[str]]]:
    """Each key with its value, each header and each line of comment: what is TOML in it, and the comments in and behind it."""
    code, comments, depth, at = "", list[str](), 0, 0
    for token in _TOKEN.finditer(text):
        code += text[at : token.start()]
        at, found = token.end(), token[0]
        if found.startswith("#"):
            comments.append(found.rstrip())
        elif found != "\n":
            depth += (found in "[{") - (found in "]}") if len(found) == 1 else 0
            code += found
        elif depth > 0:
            code += found
        else:
            yield code.strip(), comments
            code, comments, depth = "", [], 0
    yield (code + text[at:]).strip(), comments


def _name(written: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in written.split("."))
