"""Is “you can stop” true? Simulated studies, from the first answer to the end of the plan, against what came after the advice.

    python benchmarks/stopping.py                                 UC, Retina and drawn images: 300, 3,000 and 11,276
    python benchmarks/stopping.py --set uc --seeds 20             one set
    python benchmarks/stopping.py --set drawn300 --raters 2       two people answer each pair

Asked, learnt and advised by the code that ships (`steelyard.loop`, `steelyard.trust`), with the default settings: half as many answers
as images. A model is fitted after each 20 answers, later after each 4 %. The truth is the share of fresh answers about 20,000
random pairs of the pool that the model agrees with. A stop is *false* where what was still planned would have brought a point or
more (`gain`; for `answers=100`, the next hundred), or where the accuracy is below the level (`accuracy`). *Lost* is what the rest of
the plan would have brought. Perfect annotators know the grades, noisy ones err the more the closer two images are.

No constant was fitted. The form of the rule was chosen while looking at drawn images of another seed (300 and 3,000) and at UC and
Retina with run seeds 100 … 119; the table begins at seed 1000, of the real sets with the same images.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from steelyard.annotators import NoisyAnnotator, PerfectAnnotator
from steelyard.config import AskConfig, ranker_config
from steelyard.config.enough import read_enough
from steelyard.loop.chance import Chance, Purpose
from steelyard.loop.choose import next_pairs
from steelyard.loop.policy import Policy
from steelyard.loop.state import State
from steelyard.pairs import PairSet, random_pairs
from steelyard.ranker.learner import Learner
from steelyard.ranker.likelihood import curvature, slope
from steelyard.ranker.posterior import Posterior
from steelyard.trust.accuracy import estimate_accuracy, share_right
from steelyard.trust.evidence import judge, predict
from steelyard.trust.forecast import forecast, horizons, is_look, look_count
from steelyard.trust.stopping import advise, lower_limit

SETS = ("uc", "retina", "drawn300", "drawn3000", "drawn11276")
RULES = ("gain:points=1", "gain:points=1:answers=100")


@dataclass
class Study:
    """One simulated study.

    Attributes:
        budget: planned answers.
        at: answers that each model knew.
        truth: its accuracy.
        old: what 0.1 would have estimated, and from how many pairs.
        looks: (place of the model, stated accuracy) at each look.
        stops: by rule, the place of the first model at which stopping was advised before the end.
    """

    budget: int
    at: list[int] = field(default_factory=list)
    truth: list[float] = field(default_factory=list)
    old: list[tuple[float, int]] = field(default_factory=list)
    looks: list[tuple[int, Any]] = field(default_factory=list)
    stops: dict[str, int] = field(default_factory=dict)

    def gain(self, k: int, answers: int = 0) -> float:
        """What the rest of the plan, or so many answers, brought after model k."""
        upto = self.at[k] + answers if answers else self.budget
        return float(np.interp(upto, self.at, self.truth)) - self.truth[k]


def simulate(
    features: np.ndarray,
    severity: np.ndarray,
    grades: np.ndarray,
    *,
    annotator: str,
    seed: int,
    raters: int = 1,
) -> Study:
    """A study from its first answer to the end of its plan, with the advice after every model."""
    n, chance, rng = len(features), Chance(seed), np.random.default_rng([seed, 21])
    spread = float(np.std(severity))
    who = PerfectAnnotator(grades) if annotator == "perfect" else NoisyAnnotator(severity, scale=0.6 * spread)
    policy, state = Policy(AskConfig(raters=raters), n, learns_reserved=True), State(n)
    learner = Learner(
        ranker_config(preset="features", backbone="none", components=min(128, features.shape[1])), features, seed=0
    )  # fmt: skip
    fresh = random_pairs(min(20_000, n * (n - 1) // 2), n, taken=PairSet(n), rng=rng)
    said = np.stack([who.answer(fresh, rng) for _ in range(1 if annotator == "perfect" else 8)])
    study, metrics = Study(policy.budget), []
    pairs, answers, drawn = np.empty((0, 2), dtype=np.int64), np.empty(0), np.empty(0, dtype=bool)
    waiting: list[tuple[np.ndarray, np.ndarray]] = []
    start = None
    while len(pairs) < policy.budget:
        more = max(1, min(max(20, len(pairs) // 25), policy.budget - len(pairs)) // raters)
        if not waiting:
            quick = {"images": 1_500, "candidates": 6_000, "targets": 1_000}  # as for somebody who waits
            choice = next_pairs(
                state, more if len(pairs) else max(more, policy.schedule.total(0)), policy=policy, chance=chance,
                features=lambda: (features, np.empty(0, dtype=np.int64)), options=quick if state.posterior is not None else None,
            )  # fmt: skip
            state.put_up(choice.pairs)
            waiting.append((choice.pairs, np.array([role == "random" for role in choice.roles])))
        put, by_chance = waiting.pop()
        if len(put) > more:
            waiting.append((put[more:], by_chance[more:]))
        for _ in range(raters):
            pairs, drawn = np.concatenate([pairs, put[:more]]), np.concatenate([drawn, by_chance[:more]])
            answers = np.concatenate([answers, who.answer(put[:more], rng)])
        ranker = learner.fit(pairs, answers, start=start)
        start, posterior = ranker, learner.posterior(ranker)
        state.believe(posterior)
        ordered = posterior.difference(fresh)[0] > 0
        clear = said != 0.5
        study.at.append(len(pairs))
        study.truth.append(float(((ordered == (said == 1)) & clear).sum() / clear.sum()))
        study.old.append(stated_by_0_1(posterior, pairs[drawn], answers[drawn]))
        found: dict[str, Any] = {"answers": len(pairs)}
        if is_look(len(pairs), metrics) and len(pairs) < policy.budget:
            predictions = predict(
                posterior,
                pairs,
                answers,
                learns_reserved=True,
                pool=np.arange(n),
                rng=chance.rng(Purpose.POOL),
            )
            turned = pairs[:, 0] > pairs[:, 1]
            stated = estimate_accuracy(
                judge(predictions, posterior, np.sort(pairs, axis=1), np.where(turned, 1 - answers, answers), drawn),
                np.abs(predictions.pool_margin),
            )  # fmt: skip
            study.looks.append((len(study.at) - 1, stated))
            # The far end and the hundred are all that the rules of the table ask for.
            ends = [horizons(len(pairs), policy.budget, also=100)[-1], min(policy.budget, len(pairs) + 100)]
            seen = forecast(
                posterior.features_N_D, posterior.weights_D, pairs, answers, ties=posterior.tau > 0, until=ends,
                rng=chance.rng(Purpose.FORECAST, len(pairs)),
            )  # fmt: skip
            found |= {"forecast": seen.to_dict(), "accuracy_pairs": stated.pairs}
            if not np.isnan(stated.estimate):
                found |= {
                    "accuracy": stated.estimate,
                    "accuracy_low": stated.low,
                    "accuracy_high": stated.high,
                }
            for rule in RULES:
                told = advise(
                    stated,
                    answers=len(pairs),
                    budget=policy.budget,
                    enough=read_enough(rule),
                    models=[*metrics, found],
                )
                if told.stop and rule not in study.stops:
                    study.stops[rule] = len(study.at) - 1
        metrics.append(found)
    return study


def stated_by_0_1(posterior: Posterior, pairs: np.ndarray, answers: np.ndarray) -> tuple[float, int]:
    """Accuracy as version 0.1 estimated it, each random answer left out alone, and from how many."""
    mean, variance = posterior.difference(pairs)
    pull, bend = (f(mean, answers, posterior.tau) for f in (slope, curvature))
    found = share_right(mean - pull * variance / np.maximum(1 - bend * variance, 1e-6), answers)
    return found[0], found[3]


def first_old_stop(study: Study) -> int | None:
    """Version 0.1: no more than a point over three models, from 30 random pairs on."""
    for k in range(3, len(study.at) - 1):
        earlier = [share for share, _ in study.old[k - 3 : k + 1]]
        if study.old[k][1] >= 30 and max(earlier[1:]) - earlier[0] < 0.01:
            return k
    return None


def first_sure(study: Study, least: float, sure: float = 0.95) -> int | None:
    """The first look at which a level is surely reached."""
    each = 1 - (1 - sure) / look_count(study.budget)
    for k, stated in study.looks:
        if not np.isnan(stated.estimate) and lower_limit(stated.estimate, stated.low, each) >= least:
            return k
    return None


def line(studies: list[Study], stops: list[int | None], wrong: list[bool]) -> str:
    """How often a rule stopped, how often falsely, and what that cost."""
    lost = [0.0 if k is None else 100 * s.gain(k) for s, k in zip(studies, stops, strict=True)]
    where = [1.0 if k is None else s.at[k] / s.budget for s, k in zip(studies, stops, strict=True)]
    early = np.mean([k is not None for k in stops])
    return (
        f"{early:6.0%} {np.mean(wrong):7.0%} {np.median(lost):7.2f} {np.quantile(lost, 0.9):7.2f} "
        f"{max(lost):7.2f} {np.median(where):8.0%}"
    )


HEAD = f"{'early':>6} {'false':>7} {'lost':>7} {'90%':>7} {'most':>7} {'at':>8}"


def table(studies: list[Study]) -> list[str]:
    """A line for each rule."""
    found = []
    for rule in RULES:
        stops = [s.stops.get(rule) for s in studies]
        over = read_enough(rule).answers
        wrong = [k is not None and s.gain(k, over) >= 0.01 for s, k in zip(studies, stops, strict=True)]
        found.append(f"{rule:26} {line(studies, stops, wrong)}")
    for name, shift in (("accuracy: 5 points less", -0.05), ("accuracy: never reached", 0.005)):
        levels = [max(s.truth) + shift for s in studies]
        stops = [first_sure(s, level) for s, level in zip(studies, levels, strict=True)]
        wrong = [
            k is not None and s.truth[k] < level for s, k, level in zip(studies, stops, levels, strict=True)
        ]
        found.append(f"{name:26} {line(studies, stops, wrong)}")
    stops = [first_old_stop(s) for s in studies]
    wrong = [k is not None and s.gain(k) >= 0.01 for s, k in zip(studies, stops, strict=True)]
    found.append(f"{'version 0.1':26} {line(studies, stops, wrong)}")
    return found


@lru_cache(1)
def _all_of(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    import _data

    if name != "drawn":
        catalog = _data.catalog(name)
        grades = np.asarray(catalog.grades, dtype=np.float64)
        return _data.features(catalog), grades, grades
    kept: Path = _data.CACHE / "stopping-drawn11276.npz"
    if not kept.exists():
        from steelyard.images.synthetic import draw
        from steelyard.ranker.features import extract

        made = draw(11_276, size=96, seed=13)
        rows = extract(made.images, image_size=96, flips=False)
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.savez(kept, features=rows, severity=made.severity, grades=made.grades)
    with np.load(kept) as file:
        return file["features"], file["severity"], file["grades"].astype(np.float64)


def images_of(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, severities and grades; of drawn images a sample by seed, of real ones all."""
    if not name.startswith("drawn"):
        return _all_of(name)
    rows, severity, grades = _all_of("drawn")
    chosen = np.random.default_rng([seed, 22]).permutation(len(rows))[: int(name.removeprefix("drawn"))]
    return rows[chosen], severity[chosen], grades[chosen]


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--set", nargs="+", default=SETS, choices=SETS)
    options.add_argument("--seeds", type=int, default=20)
    options.add_argument("--first", type=int, default=1000)
    options.add_argument("--raters", type=int, default=1)
    options.add_argument("--annotators", nargs="+", default=["perfect", "noisy"])
    given = options.parse_args()
    for name in given.set:
        for annotator in given.annotators:
            started, studies = time.monotonic(), []
            for seed in range(given.first, given.first + given.seeds):
                features, severity, grades = images_of(name, seed)
                studies.append(
                    simulate(features, severity, grades, annotator=annotator, seed=seed, raters=given.raters)
                )
            ends = np.mean([s.truth[-1] for s in studies])
            print(
                f"\n{name}, {annotator}, raters {given.raters}: {len(studies)} studies of {studies[0].budget} answers, {ends:.3f} right in "
                f"the end ({time.monotonic() - started:.0f} s)\n{'':26} {HEAD}"
            )
            print("\n".join(table(studies)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
