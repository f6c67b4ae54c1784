"""What a study says of its images follows from its question, and reads as it did for severity."""

from __future__ import annotations

import pytest

from steelyard.config import StudyConfig
from steelyard.config.page import PageConfig
from steelyard.config.words import read_words
from steelyard.errors import ConfigError


def test_an_old_study_reads_as_before() -> None:
    words = PageConfig().words
    assert (words.chosen, words.more, words.less) == ("is more severe", "more severe", "less severe")
    assert (words.most, words.least, words.order) == (
        "most severe",
        "least severe",
        "from least to most severe",
    )
    assert words.score == "severity score"


@pytest.mark.parametrize(
    ("question", "chosen", "less", "order", "score"),
    [
        ("Which has more bleeding?", "has more bleeding", "less bleeding", "from least to most bleeding", "bleeding score"),
        ("Which image shows more polyps?", "shows more polyps", "fewer polyps", "from fewest to most polyps", "score"),
        ("Which of the two looks worse", "looks worse", "better", "from best to worst", "score"),
        ("Which is less severe?", "is less severe", "more severe", "from most to least severe", "score"),
        ("Which is clearly more severe, overall?", "is clearly more severe", "less severe", "from least to most severe", "severity score"),
        ("Which would you say is more inflamed?", "is more inflamed", "less inflamed", "from least to most inflamed", "score"),
        ("Which has the larger ulcer?", "has the larger ulcer", "lower", "from lowest to highest", "score"),
        ("Which would you treat first?", "ranks higher", "lower", "from lowest to highest", "score"),
        ("Welches ist schwerer?", "ranks higher", "lower", "from lowest to highest", "score"),
        ("", "ranks higher", "lower", "from lowest to highest", "score"),
    ],
)  # fmt: skip
def test_words_follow_from_the_question(
    question: str, chosen: str, less: str, order: str, score: str
) -> None:
    words = read_words(question)
    assert (words.chosen, words.less, words.order, words.score) == (chosen, less, order, score)


def test_what_is_set_goes_before_what_is_read() -> None:
    words = PageConfig(question="Welches blutet mehr?", more="blutet mehr", scale="bleeding").words
    assert (words.chosen, words.more, words.score) == ("blutet mehr", "mehr", "bleeding score")
    assert PageConfig(question="Which?", more="more red").words.chosen == "is more red"


def test_reasons_are_general_and_a_study_of_0_1_keeps_its_own() -> None:
    assert StudyConfig().page.reasons == ("blurred", "obscured", "does not belong", "duplicate", "other")
    old = StudyConfig.from_dict({"version": 1, "page": {"question": "Which is worse?"}})
    assert old.page.reasons == ("blurred", "stool", "wrong organ", "duplicate", "other")
    own = StudyConfig.from_dict({"version": 1, "page": {"reasons": ["dark "]}})
    assert own.page.reasons == ("dark",)


@pytest.mark.parametrize(
    ("reasons", "message"),
    [
        ([], r"'page\.reasons': 0 reasons are too few: each has a digit for its key, so there are 1 to 9; name at least"),
        ([f"r{i}" for i in range(10)], r"10 reasons are too many: .* 1 to 9; join some of them"),
        (["dark", " Dark"], r"the reason 'Dark' is there twice"),
        (["x" * 41], r"1 to 40 characters on one line"),
        (["a\nb"], r"1 to 40 characters on one line"),
        (["dark", "  "], r"1 to 40 characters on one line"),
        ("dark", r"a list of texts"),
    ],
)  # fmt: skip
def test_reasons_fit_their_keys(reasons: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        StudyConfig.from_dict({"page": {"reasons": reasons}})
