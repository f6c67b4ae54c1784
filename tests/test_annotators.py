"""Virtual annotators err as often as they say, in the way they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steelyard.annotators import (
    NoisyAnnotator,
    PerfectAnnotator,
    ReplayAnnotator,
    SideBiasedAnnotator,
    TieProneAnnotator,
    TiringAnnotator,
    annotator_names,
    make_annotator,
    parse_annotator,
)
from steelyard.errors import ConfigError, PairError

MANY = np.tile([[1, 0]], (40_000, 1))


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_the_perfect_one_follows_the_grades_and_ties() -> None:
    answers = PerfectAnnotator([0, 1, 1, 3]).answer([(3, 0), (0, 3), (1, 2), (2, 1)], rng())
    assert answers.tolist() == [1.0, 0.0, 0.5, 0.5]


@pytest.mark.parametrize("gap", [0.0, 0.3, 1.0])
def test_the_noisy_one_errs_as_the_logistic_says(gap: float) -> None:
    share = NoisyAnnotator([0, gap], scale=0.5).answer(MANY, rng()).mean()
    assert share == pytest.approx(1 / (1 + np.exp(-gap / 0.5)), abs=0.01)
    lapsing = NoisyAnnotator([0, 100.0], lapse=0.2).answer(MANY, rng()).mean()
    assert lapsing == pytest.approx(0.9, abs=0.01)


def test_the_tie_prone_one_is_rao_kupper() -> None:
    answers = TieProneAnnotator([0, 0.4], tau=0.5, scale=0.25).answer(MANY, rng())
    first, second = 1 / (1 + np.exp(0.1 / 0.25)), 1 / (1 + np.exp(0.9 / 0.25))
    assert (answers == 1).mean() == pytest.approx(first, abs=0.01)
    assert (answers == 0).mean() == pytest.approx(second, abs=0.01)
    assert (answers == 0.5).mean() == pytest.approx(1 - first - second, abs=0.01)


def test_the_tiring_one_gets_worse_and_a_break_helps() -> None:
    tired = TiringAnnotator(PerfectAnnotator([0, 1]), stamina=500, most=0.6)
    answers = tired.answer(MANY[:4000], rng())
    early, late = answers[:200].mean(), answers[2000:].mean()
    assert early > 0.92
    assert late == pytest.approx(0.7, abs=0.04)
    tired.rest()
    assert tired.answer(MANY[:100], rng()).mean() > 0.9
    resting = TiringAnnotator(PerfectAnnotator([0, 1]), stamina=500, most=0.6, session=50)
    assert resting.answer(MANY[:4000], rng()).mean() > 0.96


def test_the_one_sided_one_prefers_a_side() -> None:
    left = SideBiasedAnnotator(PerfectAnnotator([0, 1]), bias=0.3)
    assert left.answer(MANY, rng()).mean() == 1.0
    assert left.answer(MANY[:, ::-1], rng()).mean() == pytest.approx(0.3, abs=0.01)
    right = SideBiasedAnnotator(PerfectAnnotator([0, 1]), bias=-0.3)
    assert right.answer(MANY, rng()).mean() == pytest.approx(0.7, abs=0.01)


def test_recorded_answers_are_replayed_in_either_order(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("left,right,answer\nx,y,left\ny,z,equal\nz,x,cannot judge\nx,w,0\n")
    replay = ReplayAnnotator.from_csv(tmp_path / "a.csv", {"x": 0, "y": 1, "z": 2, "w": 3})
    answers = replay.answer([(0, 1), (1, 0), (2, 1), (0, 2), (3, 0)], rng())
    assert answers[:3].tolist() == [1.0, 0.0, 0.5]
    assert np.isnan(answers[3])
    assert answers[4] == 1.0
    several = ReplayAnnotator([(0, 1)] * 3, [1, 1, 0]).answer(np.tile([[0, 1]], (3000, 1)), rng())
    assert several.mean() == pytest.approx(2 / 3, abs=0.03)


@pytest.mark.realdata
def test_real_observers_can_be_replayed() -> None:
    import os

    import pandas as pd

    data = Path(os.environ.get("STEELYARD_DATA") or Path(__file__).parents[2] / "shared" / "data")
    trials = pd.read_csv(data / "observers" / "ex3_tmo_cmp_data.csv")
    names = sorted(set(trials["condition_A"]) | set(trials["condition_B"]))
    rows = {name: k for k, name in enumerate(names)}
    pairs = np.array(
        [[rows[a], rows[b]] for a, b in zip(trials["condition_A"], trials["condition_B"], strict=True)]
    )
    replay = ReplayAnnotator(pairs, trials["is_A_selected"].astype(float))
    answers = replay.answer(pairs, rng())
    assert not np.isnan(answers).any()
    assert (answers == trials["is_A_selected"]).mean() > 0.6, "observers mostly agree with each other"


def test_the_same_seed_answers_the_same() -> None:
    for name in annotator_names():
        one, two = (make_annotator(name, [0.0, 0.2]).answer(MANY[:500], rng()) for _ in range(2))
        assert (one == two).all(), name


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("noisey", {}, "unknown annotator 'noisey' – did you mean 'noisy'"),
        ("noisy", {"sclae": 1}, "no option 'sclae'; it knows scale, lapse"),
        ("noisy", {"scale": 0}, "'scale' is above 0"),
        ("noisy", {"lapse": 2}, "share between 0 and 1"),
        ("side_biased", {"bias": 3}, "between -1"),
        ("tiring", {"session": -1}, "0 .no break."),
    ],
)
def test_bad_names_and_options_are_said(name: str, options: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_annotator(name, [0, 1], **options)


def test_bad_arrays_are_said(tmp_path: Path) -> None:
    with pytest.raises(PairError, match="not finite"):
        PerfectAnnotator([0, np.nan])
    with pytest.raises(PairError, match="knows 2"):
        PerfectAnnotator([0, 1]).answer([(0, 2)], rng())
    with pytest.raises(PairError, match="one for each"):
        ReplayAnnotator([(0, 1)], [])
    for text, message in [
        ("left,right\n", "lacks the column 'answer'"),
        ("left,right,answer\nq,x,left\n", "line 2: image 'q' is not known"),
        ("left,right,answer\nx,y,both\n", "line 2: 'both' is no answer"),
    ]:
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(PairError, match=message):
            ReplayAnnotator.from_csv(tmp_path / "a.csv", {"x": 0, "y": 1})


def test_annotators_are_written_with_options_after_colons() -> None:
    assert parse_annotator("perfect") == ("perfect", {})
    assert parse_annotator("tiring:session=50:most=0.2") == ("tiring", {"session": 50, "most": 0.2})
    with pytest.raises(ConfigError, match="'scale' in annotator 'noisy:scale' is no option"):
        parse_annotator("noisy:scale")
