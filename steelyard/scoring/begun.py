"""The model that a job was begun with, kept in the job's folder: a study that is served trains others, and lets go of this one,
before a job that was killed goes on.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from steelyard.files import sync_tree
from steelyard.privacy import keep_private
from steelyard.scoring.parquet import writing
from steelyard.study.scorer import ScorePlan, is_of_the_ranker, plan_fingerprint

__all__ = ["MODEL", "keep_model", "plan_from", "plan_to_dict"]

MODEL = "_model"


def keep_model(plan: ScorePlan, output: Path) -> ScorePlan:
    """Copy what scores other images, and give the plan that takes it from there.

    Raises:
        StudyError: it cannot be written.
    """
    kept = output / MODEL
    with writing(output):
        shutil.rmtree(kept, ignore_errors=True)  # of somebody who was killed here
        kept.mkdir()
        keep_private(kept, new=True)  # as the study keeps its models
        for file in sorted(plan.folder.iterdir()):
            if file.is_file() and is_of_the_ranker(file):
                shutil.copyfile(file, kept / file.name)
        sync_tree(kept)
    return replace(plan, folder=kept)


def plan_to_dict(plan: ScorePlan) -> dict[str, Any]:
    """For JSON; the folder is known."""
    return {key: value for key, value in asdict(plan).items() if key != "folder"}


def plan_from(told: object, output: Path) -> ScorePlan | None:
    """What `plan_to_dict` gave, if the model is still there as it was; None where it is not, or was never kept."""
    if not isinstance(told, dict):
        return None
    try:
        weights = tuple((str(key), weight) for key, weight in told["weights"])
        units = tuple(None if unit is None else (unit[0], unit[1]) for unit in told["units"])
        plan = ScorePlan(**{**told, "folder": output / MODEL, "weights": weights, "units": units})
        same = plan_fingerprint(plan.folder, plan.question, plan.weights, plan.units) == plan.fingerprint
    except (KeyError, TypeError, ValueError, IndexError, OSError):
        return None
    return plan if same else None
