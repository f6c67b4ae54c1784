"""A study ties images, store, ranker and acquisition together: ask, tell, fit, score."""

from steelyard.study.learning import TrainedModel
from steelyard.study.making import study_config
from steelyard.study.study import Study

__all__ = ["Study", "TrainedModel", "study_config"]
