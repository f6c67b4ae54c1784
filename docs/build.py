"""Turn docs/*.md into plain HTML in site/, with nothing but the `docs` extra."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import markdown

HERE = Path(__file__).parent
SITE = HERE.parent / "site"
STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.6 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
img { max-width: 100%; } table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { padding: .25rem .75rem; border-bottom: 1px solid #8884; text-align: left; }
pre { overflow-x: auto; padding: 1rem; background: #8881; } nav a { margin-right: 1rem; }
"""


def main() -> None:
    """Convert README and every page, keep images, turn links between pages into links between HTML files."""
    pages = [HERE.parent / "README.md", *sorted(HERE.rglob("*.md"))]
    shutil.rmtree(SITE, ignore_errors=True)
    for page in pages:
        inside = page.relative_to(HERE) if page.is_relative_to(HERE) else Path("index.md")
        target = SITE / inside.with_suffix(".html")
        target.parent.mkdir(parents=True, exist_ok=True)
        text = page.read_text(encoding="utf-8")
        if inside == Path("index.md"):
            text = text.replace("](docs/", "](")
        body = markdown.markdown(text, extensions=["tables", "fenced_code", "toc"])
        body = re.sub(r'href="([^":]+)\.md(#[^"]*)?"', r'href="\1.html\2"', body)
        up = "../" * (len(inside.parts) - 1)
        title = re.search(r"^# (.+)$", text, re.MULTILINE)
        target.write_text(
            f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f"<title>{title.group(1) if title else inside.stem} – Steelyard</title><style>{STYLE}</style>"
            f'<nav><a href="{up}index.html">Steelyard</a></nav>{body}</html>',
            encoding="utf-8",
        )
    for image in (*HERE.rglob("*.png"), *HERE.rglob("*.svg")):
        target = SITE / image.relative_to(HERE)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(image, target)
    print(f"{len(pages)} pages in {SITE.name}/")


if __name__ == "__main__":
    main()
