"""What a study is set to: frozen, typed, documented, read from and written to `study.toml`.

An unknown key is an error that suggests the nearest known one; a bad value is an error that says what is expected; a
setting that would have no effect is an error that says why.
"""

from steelyard.config.ask import AskConfig, ask_preset
from steelyard.config.images import ImagesConfig
from steelyard.config.old import ranker_from_saved
from steelyard.config.page import PageConfig
from steelyard.config.people import PeopleConfig
from steelyard.config.presets import change_ranker, ranker_config, ranker_preset
from steelyard.config.questions import QuestionConfig
from steelyard.config.ranker import ConvexConfig, NetworkConfig, Preset, RankerConfig
from steelyard.config.study_config import StudyConfig

__all__ = [
    "AskConfig",
    "ConvexConfig",
    "ImagesConfig",
    "NetworkConfig",
    "PageConfig",
    "PeopleConfig",
    "Preset",
    "QuestionConfig",
    "RankerConfig",
    "StudyConfig",
    "ask_preset",
    "change_ranker",
    "ranker_config",
    "ranker_from_saved",
    "ranker_preset",
]
