"""Colours and type of figures: safe for colour-blind eyes, legible in grey, restrained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["INK", "MUTED", "RULE", "grade_colors", "method_styles", "style"]

INK, MUTED, RULE = "#1b1e23", "#6b7280", "#d5d9df"

# Okabe & Ito's palette without its yellow, which vanishes on white; paired with markers, so that colour is never alone.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#4d4d4d", "#8c6d31")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_FIXED = {"random": 6, "ubs": 1, "coreset": 2, "epig": 0}  # the usual ones look the same in every report


def method_styles(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, marker and dash of each method."""
    styles: dict[str, dict[str, Any]] = {}
    used = {_FIXED[m] for m in methods if m in _FIXED}
    free = [k for k in range(len(_COLORS)) if k not in used]
    others = 0
    for method in methods:
        if method in _FIXED:
            place, lap = _FIXED[method], 0
        else:
            place, lap = (
                free[others % len(free)] if free else others % len(_COLORS),
                others // max(len(free), 1),
            )
            others += 1
        styles[method] = {
            "color": _COLORS[place],
            "marker": _MARKERS[place],
            "linestyle": ("-", (0, (5, 1.5)), (0, (1.5, 1.2)))[lap % 3],
            # A colour that comes back is told by its hollow marker, also where a dash is too short to see.
            "markerfacecolor": "white" if lap % 2 else _COLORS[place],
        }
    return styles


def grade_colors(count: int) -> list[str]:
    """From mild to severe: light to dark, so that the order survives printing in grey."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    ramp = colormaps["OrRd"]
    return [to_hex(ramp(0.22 + 0.78 * k / max(count - 1, 1))) for k in range(count)]


def style() -> dict[str, Any]:
    """matplotlib settings of every figure."""
    return {
        "font.family": "sans-serif", "font.sans-serif": ["Source Sans 3", "Inter", "Helvetica", "Arial", "DejaVu Sans"],
        "font.size": 9, "axes.titlesize": 9.5, "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.labelsize": 9,
        "xtick.labelsize": 8.5, "ytick.labelsize": 8.5, "legend.fontsize": 8.5, "legend.frameon": False,
        "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": MUTED, "xtick.color": MUTED, "ytick.color": MUTED,
        "xtick.labelcolor": INK, "ytick.labelcolor": INK, "axes.linewidth": 0.8, "axes.spines.top": False,
        "axes.spines.right": False, "axes.grid": True, "grid.color": RULE, "grid.linewidth": 0.6, "axes.axisbelow": True,
        "lines.linewidth": 1.6, "lines.markersize": 4.5, "figure.facecolor": "white", "savefig.facecolor": "white",
        "svg.fonttype": "path", "svg.hashsalt": "steelyard", "pdf.fonttype": 42, "figure.constrained_layout.use": True,
    }  # fmt: skip
