"""One figure: painted with matplotlib in our style, saved in several formats."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard.report.palette import style

__all__ = ["FORMATS", "Figure", "legend", "narrow", "render"]

FORMATS = ("svg", "pdf", "png")


@dataclass(frozen=True)
class Figure:
    """A drawn figure.

    Attributes:
        name: of its files.
        title: short.
        caption: what is to be seen, for people who cannot see it as well.
        svg: for the page.
        files: other formats by ending.
    """

    name: str
    title: str
    caption: str
    svg: str
    files: dict[str, bytes]

    def write(self, folder: Path) -> list[Path]:
        """Write one file per format."""
        folder.mkdir(parents=True, exist_ok=True)
        written = []
        for ending, content in {"svg": self.svg.encode(), **self.files}.items():
            path = folder / f"{self.name}.{ending}"
            path.write_bytes(content)
            written.append(path)
        return written


def render(
    name: str,
    title: str,
    caption: str,
    formats: tuple[str, ...],
    size: tuple[float, float],
    paint: Callable[[Any], None],
) -> Figure:
    """Draw with our style and save in several formats.

    Args:
        name: of the files.
        title: short.
        caption: for the page.
        formats: endings besides SVG, which is always made.
        size: in inches.
        paint: is given the matplotlib figure.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    with mpl.rc_context(style()):
        canvas = Canvas(figsize=size)
        FigureCanvasAgg(canvas)
        paint(canvas)
        files: dict[str, bytes] = {}
        for ending in dict.fromkeys(("svg", *formats)):
            stream = io.BytesIO()
            # No dates inside, so that the same run gives the same bytes.
            metadata: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(ending, {})
            canvas.savefig(stream, format=ending, metadata=metadata, dpi=200)
            files[ending] = stream.getvalue()
            canvas.set_layout_engine("none")  # laid out once is enough, and the same in every format
    svg = files.pop("svg").decode()
    return Figure(name, title, caption, svg[svg.index("<svg") :], files)


def legend(canvas: Any, ax: Any) -> None:
    """Below the panels; the figure grows by what the legend needs."""
    handles, labels = ax.get_legend_handles_labels()
    most = 6 if max(map(len, labels)) < 16 else 3 if max(map(len, labels)) < 34 else 2
    lines = -(-len(labels) // most)
    columns = -(-len(labels) // lines)
    canvas.set_figheight(canvas.get_figheight() + 0.19 * (lines - 1))
    canvas.legend(
        handles, labels, loc="outside lower center", ncols=columns, handlelength=3.2, columnspacing=1.4
    )


def narrow(title: str, width: int = 18) -> str:
    """A title that fits above one panel of several: broken into lines."""
    return textwrap.fill(title, width)
