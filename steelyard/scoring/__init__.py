"""Very many images scored, or described for a study, in parts: here or on a cluster."""

from steelyard.scoring.features import Described, describe_many
from steelyard.scoring.run import Scored, score_many

__all__ = ["Described", "Scored", "describe_many", "score_many"]
