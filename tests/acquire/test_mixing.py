from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.acquire import choose, get_strategy, registry, strategies
from steelyard.errors import AcquireError
from steelyard.pairs import PairSet


def test_shares_are_kept_and_named(make_posterior) -> None:
    taken = PairSet(60, [(i, i + 1) for i in range(40)])
    choice = choose(
        "dopt",
        make_posterior(size=60),
        40,
        taken=taken,
        rng=np.random.default_rng(0),
        random_share=0.25,
        repeat_share=0.1,
    )
    roles = np.array(choice.roles)
    assert {role: int((roles == role).sum()) for role in ("chosen", "random", "repeat")} == {
        "chosen": 26,
        "random": 10,
        "repeat": 4,
    }
    repeated = taken.contains(choice.pairs)
    assert (repeated == (roles == "repeat")).all()
    assert len(set(taken.keys(choice.pairs).tolist())) == 40
    assert (np.diff(choice.scores[roles == "chosen"]) <= 1e-12).all()  # the strategy's own order is kept
    assert 0 < np.flatnonzero(roles == "chosen").mean() < 39
    assert (roles[:26] != "chosen").any()  # mixed in, not appended


def test_a_share_of_single_questions_comes_out_on_average(make_posterior) -> None:
    posterior, taken, rng = make_posterior(), PairSet(30, [(0, 1), (2, 3)]), np.random.default_rng(0)
    roles = [
        choose("guro", posterior, 1, taken=taken, rng=rng, random_share=0.2, repeat_share=0.1).roles[0]
        for _ in range(600)
    ]
    assert abs(roles.count("random") / 600 - 0.2) < 0.05
    assert abs(roles.count("repeat") / 600 - 0.1) < 0.04


def test_random_picks_are_uniform_over_all_free_pairs(make_posterior) -> None:
    posterior, taken, rng = make_posterior(size=5), PairSet(5, [(0, 1)]), np.random.default_rng(0)
    drawn = np.concatenate(
        [choose("dopt", posterior, 1, taken=taken, rng=rng, random_share=1.0).pairs for _ in range(1800)]
    )
    counts = np.unique(taken.keys(drawn), return_counts=True)[1]
    assert len(counts) == 9
    assert counts.min() > 140  # 200 expected
    assert counts.max() < 260


def test_repeats_come_from_those_that_may_be_repeated(make_posterior) -> None:
    taken = PairSet(30, [(0, 1), (2, 3), (4, 5)])
    request: dict[str, Any] = {"taken": taken, "rng": np.random.default_rng(0), "repeat_share": 1.0}
    some = choose("dopt", make_posterior(), 2, repeatable=[(2, 3)], **request)
    assert some.pairs[np.array(some.roles) == "repeat"].tolist() == [[2, 3]]
    assert some.roles.count("chosen") == 1  # too few to repeat: the strategy fills up


@pytest.mark.parametrize(
    ("shares", "message"),
    [({"random_share": 1.5}, "'random_share' is a share between 0 and 1, not 1.5"),
     ({"repeat_share": -0.1}, "'repeat_share' is a share between 0 and 1, not -0.1"),
     ({"random_share": 0.7, "repeat_share": 0.7}, "add up to more than 1")],
)  # fmt: skip
def test_bad_shares_are_refused(make_posterior, shares: dict[str, float], message: str) -> None:
    with pytest.raises(AcquireError, match=message):
        choose("dopt", make_posterior(), 3, taken=PairSet(30), rng=np.random.default_rng(0), **shares)  # type: ignore[arg-type]


def test_options_of_a_study_pass_by_strategies_that_do_not_know_them(make_posterior) -> None:
    options = {
        "noise": 0.5,
        "balance": 1.0,
        "features": np.zeros((30, 2)),
        "reselect": True,
        "images": 20,
        "targets": 9,
    }
    for name in strategies():
        assert (
            len(
                choose(
                    name,
                    make_posterior(),
                    4,
                    taken=PairSet(30),
                    rng=np.random.default_rng(0),
                    options=options,
                )
            )
            == 4
        )
    for strategy, wrong, message in (
        ("variance", "resellect", "strategy 'variance' has no option 'resellect' – did you mean 'reselect'"),
        ("epig", "tragets", "strategy 'epig' has no option 'tragets'"),
    ):
        rng = np.random.default_rng(0)
        with pytest.raises(AcquireError, match=message):
            choose(strategy, make_posterior(), 4, taken=PairSet(30), rng=rng, options={wrong: 1})


def test_an_unknown_strategy_suggests_the_nearest() -> None:
    with pytest.raises(AcquireError, match="unknown strategy 'epgi' – did you mean 'epig'") as raised:
        get_strategy("epgi")
    assert "pair_bald" in str(raised.value)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plug-in of docs/acquire.md, installed as pip would: a module and its metadata on the path."""
    page = (Path(__file__).parents[2] / "docs" / "acquire.md").read_text(encoding="utf-8")
    code = page.split("```python\n# neighbours.py\n")[1].split("```")[0]
    assert len(code.strip().splitlines()) <= 12
    (tmp_path / "neighbours.py").write_text(code + "\nnumber = 3\n", encoding="utf-8")
    metadata = tmp_path / "neighbours-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: neighbours\nVersion: 1.0\n", encoding="utf-8"
    )
    (metadata / "entry_points.txt").write_text(
        f"[{registry.GROUP}]\nneighbours = neighbours:neighbours\nepig = neighbours:neighbours\n"
        "number = neighbours:number\ngone = neighbours:gone\nabsent = no_such_package:absent\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "neighbours", raising=False)


@pytest.mark.usefixtures("plugin")
def test_strategies_plug_in_by_entry_point(make_posterior) -> None:
    request: dict[str, Any] = {"taken": PairSet(30, [(1, 0)]), "rng": np.random.default_rng(0)}
    choice = choose("neighbours", make_posterior(), 3, **request, options={"noise": 1})
    assert choice.pairs.tolist() == [[1, 2], [2, 3], [3, 4]]
    assert "neighbours" in strategies()
    assert strategies().count("epig") == 1
    assert get_strategy("epig").__module__ == "steelyard.acquire.epig"  # ours are not replaced
    for name, message in [
        ("neighbors", "did you mean 'neighbours'"),
        ("number", "a strategy is a function"),
        ("gone", r"strategy 'gone' \(neighbours:gone\) cannot be loaded"),
        ("absent", r"strategy 'absent' \(no_such_package:absent\) cannot be loaded"),
    ]:
        with pytest.raises(AcquireError, match=message):
            get_strategy(name)
