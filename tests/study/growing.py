"""Small studies of drawn files, for tests in which images join later."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from steelyard.rescue import check_study
from steelyard.study import Study

N = 10
RANKER = {"image_size": 32, "epochs": 2, "draws": 4, "patience": 2}


def draw(path: Path, k: int) -> Path:
    """A picture that gets brighter with k."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(k).integers(0, min(30 + 8 * k, 255), (40, 40, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    return path


def answer(study: Study, n: int) -> int:
    """Higher file numbers are more severe; gives the number of answers."""
    asked = study.ask(n, strategy="random")
    names = {id: Path(path).name for id, path in zip(study.catalog.ids, study.catalog.paths, strict=True)}
    for pair in asked:
        study.tell(pair, "left" if names[pair.left] > names[pair.right] else "right")
    return len(asked)


def sound(study: Study) -> bool:
    return not [f for f in check_study(study.folder, images=True) if f.level == "problem"]
