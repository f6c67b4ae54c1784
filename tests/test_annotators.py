"""Virtual annotators answer as they say they do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from steelyard.annotators import (
    NoisyAnnotator,
    PerfectAnnotator,
    ReplayAnnotator,
    SideBiasedAnnotator,
    TieProneAnnotator,
    TiringAnnotator,
    VirtualAnnotator,
    annotator_names,
    make_annotator,
)
from steelyard.errors import ConfigError, PairError
from steelyard.options import parse_options

MANY = np.tile([[0, 1]], (20_000, 1))


def share(answers: np.ndarray, label: float) -> float:
    return float((answers == label).mean())


def close(measured: float, expected: float) -> bool:
    """Within four standard errors of a share of 20,000 answers."""
    return abs(measured - expected) < 4 * np.sqrt(max(expected * (1 - expected), 1e-4) / len(MANY))


def test_perfect_follows_the_grades_and_swapping_a_pair_mirrors_the_answer() -> None:
    rng = np.random.default_rng(0)
    grades = rng.integers(4, size=50)
    pairs = rng.integers(50, size=(300, 2))
    given = PerfectAnnotator(grades).answer(pairs, rng)
    assert given.tolist() == [(np.sign(grades[i] - grades[j]) + 1) / 2 for i, j in pairs]
    assert (PerfectAnnotator(grades).answer(pairs[:, ::-1], rng) == 1 - given).all()


@pytest.mark.parametrize(
    "annotator",
    [PerfectAnnotator([0.0, np.nan]), NoisyAnnotator([0.0, np.nan]), TieProneAnnotator([0.0, np.nan]),
     TieProneAnnotator([0.0, np.nan], scale=0.0), TiringAnnotator(PerfectAnnotator([0.0, np.nan])),
     SideBiasedAnnotator(PerfectAnnotator([0.0, np.nan]), strength=1.0), ReplayAnnotator([(0, 2)], [1.0])],
)  # fmt: skip
def test_an_image_of_unknown_severity_cannot_be_judged(annotator: VirtualAnnotator) -> None:
    assert np.isnan(annotator.answer([(0, 1), (1, 0)], np.random.default_rng(0))).all()


def test_noisy_is_logistic_in_the_difference() -> None:
    given = NoisyAnnotator([0.7, 0.2], scale=0.4).answer(MANY, np.random.default_rng(1))
    assert close(share(given, 1.0), float(expit(0.5 / 0.4)))
    assert close(share(given, 0.0), 1 - float(expit(0.5 / 0.4)))
    lapsing = NoisyAnnotator([9.0, 0.0], scale=0.1, lapse=0.2).answer(MANY, np.random.default_rng(1))
    assert close(share(lapsing, 1.0), 0.9)


def test_tie_prone_is_rao_kupper() -> None:
    given = TieProneAnnotator([0.3, 0.0], threshold=0.5, scale=0.25).answer(MANY, np.random.default_rng(2))
    first, second = float(expit((0.3 - 0.5) / 0.25)), float(expit((-0.3 - 0.5) / 0.25))
    assert close(share(given, 1.0), first)
    assert close(share(given, 0.0), second)
    assert close(share(given, 0.5), 1 - first - second)


def test_a_sharp_threshold_ties_exactly_up_to_it() -> None:
    sharp = TieProneAnnotator([0.0, 0.5, 0.75], threshold=0.5, scale=0.0)
    assert sharp.answer([(0, 1), (2, 0), (0, 2), (1, 2)], np.random.default_rng(0)).tolist() == [
        0.5,
        1.0,
        0.0,
        0.5,
    ]


def test_slips_grow_with_the_answers_and_a_break_ends_them() -> None:
    tired = TiringAnnotator(PerfectAnnotator([1.0, 0.0]), stamina=1000, worst=0.5)
    rng = np.random.default_rng(3)
    given = tired.answer(MANY, rng)
    since = np.arange(len(MANY))
    expected = 0.5 * since / (since + 1000)
    for part in (slice(0, 1000), slice(1000, 4000), slice(4000, None)):
        slips = float((given[part] == 0.0).mean())
        assert abs(slips - expected[part].mean()) < 4 * np.sqrt(0.25 / len(given[part]))
    assert tired.answer([(0, 1)] * 200, rng).mean() < 0.7
    tired.rest()
    assert tired.answer([(0, 1)] * 20, rng).mean() > 0.9


def test_asking_one_by_one_tires_as_much_as_asking_at_once() -> None:
    at_once = TiringAnnotator(PerfectAnnotator([1.0, 0.0]), stamina=10)
    one_by_one = TiringAnnotator(PerfectAnnotator([1.0, 0.0]), stamina=10)
    a = at_once.answer([(0, 1)] * 100, np.random.default_rng(4))
    rng = np.random.default_rng(4)
    b = [float(one_by_one.answer([(0, 1)], rng)[0]) for _ in range(100)]
    assert a.tolist() == b
    assert at_once.answered == one_by_one.answered == 100


def test_breaks_of_its_own_accord_keep_slips_low() -> None:
    resting = TiringAnnotator(PerfectAnnotator([1.0, 0.0]), stamina=100, worst=0.5, pause=10)
    assert close(
        share(resting.answer(MANY, np.random.default_rng(5)), 0.0),
        float(np.mean([0.5 * k / (k + 100) for k in range(10)])),
    )
    assert resting.answered == len(MANY) % 10


@pytest.mark.parametrize(("side", "label"), [("left", 1.0), ("right", 0.0)])
def test_a_side_is_preferred_in_doubt_and_sometimes_without(side: str, label: float) -> None:
    equal = SideBiasedAnnotator(PerfectAnnotator([1.0, 1.0]), side=side, strength=0.1, ties=0.5)  # type: ignore[arg-type]
    given = equal.answer(MANY, np.random.default_rng(6))
    assert close(share(given, label), 0.1 + 0.9 * 0.5)
    assert share(given, label) + share(given, 0.5) == 1.0
    clear = SideBiasedAnnotator(PerfectAnnotator([1 - label, label]), side=side, strength=0.1)  # type: ignore[arg-type]
    assert close(share(clear.answer(MANY, np.random.default_rng(6)), label), 0.1)


def test_annotators_wrap_annotators() -> None:
    both = TiringAnnotator(
        SideBiasedAnnotator(NoisyAnnotator([1.0, 0.0], scale=0.01), strength=0.0), worst=0.0
    )
    assert both.answer([(0, 1), (1, 0)], np.random.default_rng(0)).tolist() == [1.0, 0.0]


def test_replay_answers_in_either_order_and_draws_among_several() -> None:
    replay = ReplayAnnotator([(3, 1), (1, 3), (2, 0)], [1.0, 1.0, 0.5])
    given = replay.answer(np.tile([[1, 3]], (20_000, 1)), np.random.default_rng(7))
    assert close(share(given, 1.0), 0.5)
    assert replay.answer([(0, 2), (2, 0)], np.random.default_rng(0)).tolist() == [0.5, 0.5]


def test_replay_reads_words_and_numbers_from_csv(tmp_path: Path) -> None:
    file = tmp_path / "answers.csv"
    file.write_text(
        "image_a,image_b,answer\na,b,left\nb,c,0\na,c,cannot judge\nc,a,equal\n", encoding="utf-8"
    )
    replay = ReplayAnnotator.read_csv(file, {"a": 0, "b": 1, "c": 2})
    assert replay.answer([(1, 0), (1, 2), (0, 2)], np.random.default_rng(0)).tolist() == [0.0, 0.0, 0.5]
    rows = tmp_path / "rows.csv"
    rows.write_text("x,y,said\n5,4,1\n", encoding="utf-8")
    replay = ReplayAnnotator.read_csv(rows, first="x", second="y", answer="said")
    assert replay.answer([(4, 5)], np.random.default_rng(0)).tolist() == [0.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [("image_a,answer\na,1\n", "has no column 'image_b'; it has image_a, answer"),
     ("image_a,image_b,answer\na,q,1\n", "line 2: image 'q' is not in the catalog"),
     ("image_a,image_b,answer\na,b,1\na,b,both\n", "line 3: could not convert string to float: 'both'"),
     ("image_a,image_b,answer\na,b,0.7\n", "recorded answer 0 is 0.7")],
)  # fmt: skip
def test_a_bad_csv_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "answers.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(PairError, match=message):
        ReplayAnnotator.read_csv(file, {"a": 0, "b": 1})
    with pytest.raises(PairError, match="does not exist"):
        ReplayAnnotator.read_csv(tmp_path / "none.csv")


def test_bad_settings_are_refused() -> None:
    perfect = PerfectAnnotator([0, 1])
    for make, message in [
        (lambda: NoisyAnnotator([0], scale=0.0), "'scale' is above 0, not 0.0"),
        (lambda: NoisyAnnotator([0], lapse=2.0), "'lapse' is a share between 0 and 1, not 2.0"),
        (lambda: TieProneAnnotator([0], threshold=-1.0), "'threshold' is at least 0, not -1.0"),
        (lambda: TiringAnnotator(perfect, stamina=0), "'stamina' is above 0, not 0"),
        (lambda: SideBiasedAnnotator(perfect, side="up"), "'left' or 'right', not 'up'"),  # type: ignore[arg-type]
        (lambda: PerfectAnnotator([[0, 1]]), r"shape \(N,\), not \(1, 2\)"),
        (
            lambda: perfect.answer([(0, 2)], np.random.default_rng(0)),
            r"pair \(0, 2\) is outside the 2 images",
        ),
        (lambda: perfect.answer([(0.0, 1.0)], np.random.default_rng(0)), "whole numbers"),
        (lambda: ReplayAnnotator([(0, 1)], []), "1 recorded pairs and 0 answers"),
    ]:
        with pytest.raises(PairError, match=message):
            make()
    assert perfect.answer([], np.random.default_rng(0)).shape == (0,)


@pytest.mark.parametrize("name", annotator_names())
def test_annotators_by_name_answer_the_same_with_the_same_seed(name: str) -> None:
    pairs = np.tile([[1, 0]], (500, 1))
    one, two = (make_annotator(name, [0.0, 0.2]).answer(pairs, np.random.default_rng(0)) for _ in range(2))
    assert (one == two).all()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("noisey", "unknown annotator 'noisey' – did you mean 'noisy'"),
        ("noisy:sclae=1", "no option 'sclae'; it knows scale, lapse"),
        ("tiring:side=left", "no option 'side'; it knows stamina"),
        ("noisy:scale", "'scale' in 'noisy:scale' is not an option"),
    ],
)
def test_unknown_names_and_options_are_said(spec: str, message: str) -> None:
    def make() -> None:
        name, options = parse_options(spec)
        make_annotator(name, [0, 1], **options)

    with pytest.raises(ConfigError, match=message):
        make()


def test_options_stand_after_colons() -> None:
    assert parse_options("perfect") == ("perfect", {})
    assert parse_options("side_biased:side=right:strength=0.2") == (
        "side_biased",
        {"side": "right", "strength": 0.2},
    )
    biased = make_annotator("side_biased", [0.0, 9.0], side="right", strength=1.0)
    assert biased.answer([(1, 0)] * 5, np.random.default_rng(0)).tolist() == [0.0] * 5
