"""The figures of PAPER.md, with reliability and cost curves, drawn from a run's tables."""

from __future__ import annotations

from collections.abc import Callable

from steelyard.evaluate.cost import GRADE_SECONDS, PAIR_SECONDS
from steelyard.progress import Progress
from steelyard.report.analysis import Analysis
from steelyard.report.by_grade import map_figure, sampled_figure, scores_figure, uncertainty_figure
from steelyard.report.curves import accuracy_figure, cost_figure, reliability_figure
from steelyard.report.figure import FORMATS, Figure

__all__ = ["draw_figures"]


def draw_figures(
    analysis: Analysis,
    *,
    formats: tuple[str, ...] = FORMATS,
    pair_seconds: float = PAIR_SECONDS,
    grade_seconds: float = GRADE_SECONDS,
    progress: Progress | None = None,
) -> list[Figure]:
    """Draw every figure that the run has data for."""
    drawers: list[Callable[[], Figure | None]] = [
        lambda: accuracy_figure(analysis, formats),
        lambda: scores_figure(analysis, formats),
        lambda: sampled_figure(analysis, formats),
        lambda: uncertainty_figure(analysis, formats),
        lambda: map_figure(analysis, formats),
        lambda: reliability_figure(analysis, formats),
        lambda: cost_figure(analysis, formats, pair_seconds, grade_seconds),
    ]
    figures = []
    for k, draw in enumerate(drawers, start=1):
        figure = draw()
        if figure is not None:
            figures.append(figure)
        if progress is not None:
            progress(k, len(drawers), "figures")
    return figures
