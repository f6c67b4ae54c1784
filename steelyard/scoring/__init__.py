"""Very many images scored in parts, here or on a cluster."""

from steelyard.scoring.run import Scored, score_many

__all__ = ["Scored", "score_many"]
