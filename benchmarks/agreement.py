"""Do the figures about people hold? Raters with planted agreement; coverage of intervals and rates of false alarms.

    python benchmarks/agreement.py [--studies 200]

Every study has images with true scores θ ~ N(0, σ²); people answer pairs by Rao and Kupper's law with a sharpness of their own
(1 as the law has it, 0 guessing), a share of lapses, a side that they prefer. α's truth is α of a study of the same people
with 40,000 pairs. A flag is a false alarm where everybody is sound; it is counted by study (anybody flagged) and by person.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from dataclasses import dataclass

import numpy as np

from steelyard.evaluate.krippendorff import alpha_interval, krippendorff_alpha
from steelyard.evaluate.reliability import Answered, people_of
from steelyard.evaluate.separation import separation
from steelyard.ranker.answers_alone import fit_alone
from steelyard.ranker.likelihood import outcomes


@dataclass(frozen=True)
class Rater:
    """How somebody answers: differences times `sharp`, shifted by `side` towards the left, at random in `lapse`."""

    sharp: float = 1.0
    lapse: float = 0.0
    side: float = 0.0
    hasty: float = 0.0


SOUND = Rater()


def simulate(
    raters: list[Rater],
    *,
    images: int,
    pairs: int,
    each: int,
    spread: float,
    tau: float,
    rng: np.random.Generator,
    repeated: float = 0.1,
) -> tuple[Answered, np.ndarray]:
    """Answers about random pairs, each asked of `each` different people, some asked of the same person again; and the truth."""
    theta = rng.normal(0, spread, images)
    index = rng.integers(images, size=(2 * pairs, 2))
    index = index[index[:, 0] != index[:, 1]][:pairs]
    who = np.stack([rng.permutation(len(raters))[:each] for _ in range(len(index))])
    asked, people = np.repeat(index, each, axis=0), who.reshape(-1)
    again = rng.random(len(asked)) < repeated
    asked, people = np.concatenate([asked, asked[again]]), np.concatenate([people, people[again]])
    left = rng.random(len(asked)) < 0.5
    get = lambda name: np.array([getattr(r, name) for r in raters])[people]  # noqa: E731
    seconds = rng.gamma(4, 1, len(asked))
    quick = seconds < 3.67
    delta = get("sharp") * (theta[asked[:, 0]] - theta[asked[:, 1]])
    delta = np.where(quick, 1 - get("hasty"), 1.0) * delta + np.where(left, 1, -1) * get("side")
    chance = outcomes(delta, 0.0, tau)
    lapse = get("lapse")[:, None]
    chance = (1 - lapse) * chance + lapse / 3 if tau > 0 else (1 - lapse) * chance + lapse * [0.5, 0, 0.5]
    luck = rng.random(len(asked))
    said = np.where(luck < chance[:, 0], 1.0, np.where(luck < chance[:, 0] + chance[:, 1], 0.5, 0.0))
    alone = fit_alone(asked, said, images, rng=rng)
    names = tuple(f"rater {k}" for k in range(len(raters)))
    told = Answered(
        asked, said, people, names, left, seconds, np.ones(len(asked), dtype=bool), alone.outcomes(), "the others"
    )  # fmt: skip
    return told, theta


def alpha_coverage(
    studies: int, pairs: int, each: int, spread: float, tau: float, seed: int = 0
) -> dict[str, tuple[float, float, float]]:
    """Coverage of the 95% interval, bias and half-width, nominal and ordinal; no repeats and no fit are needed."""
    rng = np.random.default_rng(seed)

    def table(n: int) -> np.ndarray:
        theta = rng.normal(0, spread, (n, 2))
        chance = outcomes(theta[:, 0] - theta[:, 1], 0.0, tau)
        return np.stack([rng.multinomial(each, p) for p in chance])

    found = {}
    large = table(40_000)
    for level in ("nominal", "ordinal"):
        truth = krippendorff_alpha(large, level)  # type: ignore[arg-type]
        stated = [alpha_interval(table(pairs), level, rng, draws=500) for _ in range(studies)]  # type: ignore[arg-type]
        held = np.mean([one.low <= truth <= one.high for one in stated])
        bias = np.mean([one.value for one in stated]) - truth
        found[level] = float(held), float(bias), float(np.mean([(s.high - s.low) / 2 for s in stated]))
    return found


def flags(
    studies: int,
    raters: list[Rater],
    *,
    images: int,
    pairs: int,
    each: int,
    spread: float,
    tau: float,
    seed: int = 0,
) -> tuple[dict[str, float], dict[str, float], np.ndarray]:
    """Share of studies in which anybody is flagged, share of them that flag rater 0, and mean infit and outfit of rater 0."""
    anybody, first, fits = dict.fromkeys(KINDS, 0.0), dict.fromkeys(KINDS, 0.0), []
    for k in range(studies):
        rng = np.random.default_rng([seed, k])
        told, _ = simulate(raters, images=images, pairs=pairs, each=each, spread=spread, tau=tau, rng=rng)
        people = people_of(told)
        for kind in KINDS:
            anybody[kind] += any(kind in p.flags for p in people) / studies
            first[kind] += (kind in people[0].flags) / studies
        fits.append((people[0].infit, people[0].outfit))
    return anybody, first, np.mean(np.array(fits, dtype=float), axis=0)


KINDS = ("side", "guessing", "erratic", "quick")


def separation_check(
    studies: int, images: int, answers: int, spread: float, seed: int = 0
) -> tuple[float, ...]:
    """Mean SSR, mean squared correlation with the truth, coverage of it by the interval, mean half-width."""
    found = []
    for k in range(studies):
        rng = np.random.default_rng([seed, k])
        theta = rng.normal(0, spread, images)
        index = rng.integers(images, size=(2 * answers, 2))
        index = index[index[:, 0] != index[:, 1]][:answers]
        chance = outcomes(theta[index[:, 0]] - theta[index[:, 1]], 0.0, 0.5)
        luck = rng.random(len(index))
        said = np.where(luck < chance[:, 0], 1.0, np.where(luck < chance[:, :2].sum(1), 0.5, 0.0))
        ssr = separation(index, said, images, rng)
        fit = fit_alone(index, said, images, rng=rng)
        assert ssr is not None
        truth = float(np.corrcoef(fit.score[fit.asked], theta[fit.asked])[0, 1] ** 2)
        found.append((ssr.value, truth, ssr.low <= truth <= ssr.high, (ssr.high - ssr.low) / 2))
    return tuple(np.mean(np.array(found, dtype=float), axis=0))


def main() -> None:
    """Print the tables of docs/statistics.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=200)
    options = parser.parse_args()
    n = options.studies
    print("Krippendorff's α: pairs, people a pair, spread, τ | covers, bias, ± (nominal; ordinal)")
    for pairs, each, spread, tau in ((20, 2, 1.5, 0.5), (50, 2, 1.5, 0.5), (200, 2, 1.5, 0.5), (50, 3, 3.0, 1.0), (50, 2, 1.5, 0.0)):  # fmt: skip
        found = alpha_coverage(5 * n, pairs, each, spread, tau)
        print(f"  {pairs:4} {each} {spread} {tau} |", "; ".join("{:.1%} {:+.3f} {:.3f}".format(*v) for v in found.values()))  # fmt: skip
    print("flags: anybody / rater 0 (side, guessing, erratic, quick), infit and outfit of rater 0")
    size = {"images": 40, "pairs": 400, "each": 2, "spread": 1.5, "tau": 0.5}
    for name, raters in {
        "all sound": [SOUND] * 5,
        "all blunt": [Rater(sharp=0.5)] * 5,
        "all lapse in 5%": [Rater(lapse=0.05)] * 5,
        "one guesses": [Rater(sharp=0.0), *[SOUND] * 4],
        "one lapses in 30%": [Rater(lapse=0.3), *[SOUND] * 4],
        "one prefers the left (0.7 logits)": [Rater(side=0.7), *[SOUND] * 4],
        "one guesses when quick": [Rater(hasty=1.0), *[SOUND] * 4],
    }.items():
        anybody, first, fit = flags(n // 2, raters, **size)  # type: ignore[arg-type]
        shown = ", ".join(f"{anybody[kind]:.0%} / {first[kind]:.0%}" for kind in KINDS)
        print(f"  {name:36} {shown}   infit {fit[0]:.2f} outfit {fit[1]:.2f}")
    print("SSR: images, random answers, spread | SSR, squared correlation with the truth, covers it, ±")
    for images, answers, spread in (
        (50, 100, 1.5),
        (50, 300, 1.5),
        (100, 300, 3.0),
        (100, 200, 0.7),
    ):
        print(f"  {images} {answers} {spread} |", "{:.2f} {:.2f} {:.1%} {:.2f}".format(*separation_check(n // 4, images, answers, spread)))  # fmt: skip


if __name__ == "__main__":
    main()
