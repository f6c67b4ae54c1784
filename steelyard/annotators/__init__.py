"""Virtual annotators: they answer pairs from what is known about the images, as people do or might.

    PerfectAnnotator(grades)            the higher grade is more severe, equal grades are equal (the paper's)
    NoisyAnnotator(values)              errs, the more the closer the two are
    TieProneAnnotator(values)           says "equal" when the two are close
    TiringAnnotator(annotator)          makes more and more slips of another annotator until it has had a break
    SideBiasedAnnotator(annotator)      prefers a side where another annotator is undecided, or now and then anyway
    ReplayAnnotator.read_csv(path)      what somebody really answered

All answer in the terms of P1: 1 the first image of the pair is more severe, 0.5 equal, 0 the second; NaN cannot judge.
The last three wrap or replay, so that `TiringAnnotator(SideBiasedAnnotator(NoisyAnnotator(values)))` is one too.
"""

from __future__ import annotations

from steelyard.annotators.knowing import NoisyAnnotator, PerfectAnnotator, TieProneAnnotator
from steelyard.annotators.named import annotator_names, make_annotator
from steelyard.annotators.replay import ReplayAnnotator
from steelyard.annotators.virtual import VirtualAnnotator
from steelyard.annotators.wrapping import SideBiasedAnnotator, TiringAnnotator

__all__ = [
    "NoisyAnnotator",
    "PerfectAnnotator",
    "ReplayAnnotator",
    "SideBiasedAnnotator",
    "TieProneAnnotator",
    "TiringAnnotator",
    "VirtualAnnotator",
    "annotator_names",
    "make_annotator",
]
