"""The study under test: small pictures, many pairs to ask, a model that is always being fitted anew."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from steelyard.images.catalog import Catalog
from steelyard.pairs import Answer
from steelyard.study import Study

__all__ = ["make", "names"]


def names(images: int) -> list[str]:
    """File names of so many pictures."""
    return [f"{k:04d}.png" for k in range(images)]


def make(folder: Path, *, images: int, store: str = "", trainer: int = 400) -> Path:
    """Make it below a folder; gives the study's own folder.

    Args:
        folder: an empty one.
        images: how many.
        store: URL of an empty PostgreSQL database; empty for SQLite.
        trainer: new answers after which a model is fitted.
    """
    pictures = folder / "images"
    pictures.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name in names(images):
        Image.fromarray(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)).resize((48, 48)).save(
            pictures / name
        )
    changes = {
        # Features are computed once by the trainer and kept in the cache, which may be damaged as well.
        "ranker": {"backbone": "lite0", "image_size": 32, "components": 8},
        "ask": {"start": "random", "budget": "100000%", "raters": 3},  # never done; three people a pair
    }
    with Study.create(
        folder / "study",
        Catalog.from_folder(pictures),
        store=store,
        refit_after=trainer,
        name="chaos",
        **changes,
    ) as study:
        # A model and the features it needs are there from the start: those who answer at full speed leave little of a
        # machine for the trainer.
        for k, pair in enumerate(study.ask(30, annotator="teacher")):
            study.tell(pair, Answer.LEFT if k % 2 else Answer.RIGHT, annotator="teacher")
        study.fit()
        return study.folder
