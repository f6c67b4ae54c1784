"""Methods × folds × seeds, under the paper's protocol."""

from steelyard.experiment.config import ExperimentConfig
from steelyard.experiment.runner import run_experiment

__all__ = ["ExperimentConfig", "run_experiment"]
