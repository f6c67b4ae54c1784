"""Are images that do not belong flagged, and images that do left alone? The figures of docs/statistics.md.

A pool is 70% of the groups of a set (clusters of near-duplicates where no patients are named), the rest are new images of the same
domain; ten splits. Against each pool: the new images (false alarms), the other set, altered new images, hidden images. What an
alteration costs is measured too: a ranker learns from as many answers as the pool has images, and pairs of an altered and a plain
new image of different grades are ordered by it; `cost` is the accuracy lost against plain pairs. An alteration counts as a shift
where that is more than two points. Settings were chosen on alterations of the colitis set; retina and drawn images are the test.

    python benchmarks/off_domain.py [--part uc|retina|drawn|pixels|trunk] [--splits 10]

Features of altered images are computed once (about ten minutes for each set) and kept beside the others.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

import numpy as np
from _data import CACHE, catalog, features, same
from _shifts import ALTERED, CAMERAS, drawn_with
from numpy.typing import NDArray

from steelyard.config import ranker_preset
from steelyard.images.decode import resize
from steelyard.images.synthetic import draw
from steelyard.ranker.appearance import appearance
from steelyard.ranker.convex import ConvexHead
from steelyard.ranker.domain import Domain, fit_domain, off_domain
from steelyard.ranker.features import extract
from steelyard.ranker.inputs import read_inputs

Rows = NDArray[np.int64]
FEW = 120  # altered images of each set


def flagged(domain: Domain, rows: NDArray[np.generic]) -> float:
    """Share of new images that are flagged."""
    return float(np.mean(off_domain(domain.unlike(rows), domain.groups).astype(bool)))


def divide(groups: NDArray[np.generic], seed: int, share: float = 0.7) -> tuple[Rows, Rows]:
    """Rows of the pool and of new images, no group in both."""
    names = np.unique(groups)
    chosen = np.random.default_rng(seed).permutation(names)[: round(share * len(names))]
    pool = np.isin(groups, chosen)
    return np.flatnonzero(pool), np.flatnonzero(~pool)


def measure(
    rows: NDArray[np.generic], groups: NDArray[np.generic], seed: int, *, told: bool = False
) -> tuple[Domain, Rows, Rows]:
    """A domain of one split, its pool and its new images; `told` gives it the groups as well."""
    pool, new = divide(groups, seed)
    fitted = fit_domain(rows, pool=pool, groups=groups if told else None, seed=seed)
    assert fitted is not None
    return fitted[0], pool, new


def hidden(
    own: NDArray[np.generic], foreign: NDArray[np.generic], share: float, seed: int
) -> tuple[float, float]:
    """Share of foreign images found that are hidden among a study's own, and of its own that are flagged beside them."""
    rng = np.random.default_rng(seed)
    some = foreign[rng.choice(len(foreign), max(1, round(share * len(own))), replace=False)]
    fitted = fit_domain(np.concatenate([own, some]), seed=seed)
    assert fitted is not None
    off = off_domain(fitted[1], fitted[0].groups).astype(bool)
    return float(off[len(own) :].mean()), float(off[: len(own)].mean())


def ranker(rows: NDArray[np.generic], severity: NDArray[np.generic], pool: Rows, seed: int) -> ConvexHead:
    """Fitted on as many random pairs as the pool has images, answered rightly."""
    i, j = np.random.default_rng(seed).choice(pool, (2, 2 * len(pool)))
    differ = np.flatnonzero(severity[i] != severity[j])[: len(pool)]
    pairs = np.column_stack([i, j])[differ]
    return ConvexHead.fit(
        rows, pairs, (severity[pairs[:, 0]] > severity[pairs[:, 1]]).astype(float), components=128
    )


def ordered(
    a: NDArray[np.floating],
    b: NDArray[np.floating],
    worse_a: NDArray[np.generic],
    worse_b: NDArray[np.generic],
) -> float:
    """Share of pairs of one of a and one of b, of different severity, that scores order rightly."""
    truth = np.sign(worse_a.astype(float)[:, None] - worse_b.astype(float))
    said = np.sign(a[:, None] - b)
    return float((said == truth)[truth != 0].mean())


def few_rows(groups: NDArray[np.int64], many: int = FEW) -> Rows:
    """Some images of different clusters; those that are altered."""
    order = np.random.default_rng(0).permutation(len(groups))
    first = np.unique(groups[order], return_index=True)[1]
    return np.sort(order[np.sort(first)[:many]])


def altered_features(name: str) -> tuple[Rows, dict[str, NDArray[np.float32]]]:
    """Features of altered images of a set, from the cache where they were computed before."""
    images = catalog(name)
    rows, path = few_rows(same(images)), CACHE / f"altered-{name}.npz"
    known = dict(np.load(path)) if path.exists() else {}
    for kind, alter in ALTERED.items():
        if kind not in known:
            known[kind] = extract([alter(images.read(int(row))) for row in rows])
            np.savez(path, **known)
    return rows, known


def show(name: str, *columns: list[float]) -> None:
    """A line: the mean over splits, and the range."""
    print(
        f"  {name:34}"
        + "".join(f"  {np.mean(c):6.3f} ({np.min(c):.3f} … {np.max(c):.3f})" if c else "" for c in columns)
    )


def real(name: str, splits: int) -> None:
    """One set as the pool; the other as foreign."""
    images, other = catalog(name), "retina" if name == "uc" else "uc"
    rows, groups, foreign = features(images), same(images), features(catalog(other))
    grades = np.asarray(images.grades)
    few, altered = altered_features(name)
    alarms: list[float] = []
    told: list[float] = []
    crossed: list[float] = []
    found: dict[str, list[float]] = {kind: [] for kind in altered}
    cost: dict[str, list[float]] = {kind: [] for kind in altered}
    for seed in range(splits):
        domain, pool, new = measure(rows, groups, seed)
        alarms.append(flagged(domain, rows[new]))
        told.append(flagged(measure(rows, groups, seed, told=True)[0], rows[new]))
        crossed.append(flagged(domain, foreign))
        head = ranker(rows, grades, pool, seed)
        unseen = np.isin(few, new)
        plain, there = head.posterior(rows[new]).mean, few[unseen]
        before = ordered(head.posterior(rows[there]).mean, plain, grades[there], grades[new])
        for kind, changed in altered.items():
            found[kind].append(flagged(domain, changed[unseen]))
            after = ordered(head.posterior(changed[unseen]).mean, plain, grades[there], grades[new])
            cost[kind].append(before - after)
    print(f"{name}: {len(rows)} images, pool {len(pool)}, {splits} splits; flagged, and accuracy lost")
    show("new images of the same domain", alarms)
    show("… where the pool's groups are told", told)
    show(f"all of {other}", crossed)
    for kind in altered:
        show(kind, found[kind], cost[kind])
    for share in (0.003, 0.01, 0.02, 0.04, 0.08):
        both = [hidden(rows, foreign, share, seed) for seed in range(min(splits, 5))]
        show(f"{share:.1%} of {other} hidden in it", [b[0] for b in both], [b[1] for b in both])


def drawn(splits: int, sizes: tuple[int, ...] = (300, 1000, 3000)) -> None:
    """Drawn mucosa, by patient, against cameras outside the range that it was drawn with."""
    options = {"image_size": 96, "flips": False}
    known = draw(3000, size=96, seed=12)
    rows = extract(known.images, **options)  # type: ignore[arg-type]
    cameras = {name: drawn_with(camera, 200, size=96, seed=500) for name, camera in CAMERAS.items()}
    seen = {name: extract(pictures, **options) for name, (pictures, *_) in cameras.items()}  # type: ignore[arg-type]
    severity = next(iter(cameras.values()))[2]
    patients = np.unique(known.groups)
    for size in sizes:
        found: dict[str, list[float]] = {name: [] for name in CAMERAS}
        cost: dict[str, list[float]] = {name: [] for name in CAMERAS}
        alarms: list[float] = []
        for seed in range(splits):
            mine = np.random.default_rng(seed).permutation(patients)[: size // 10]
            pool = np.flatnonzero(np.isin(known.groups, mine))
            rest = np.setdiff1d(np.arange(len(rows)), pool)
            fitted = fit_domain(rows, pool=pool, groups=known.groups, seed=seed)
            assert fitted is not None
            domain, head = fitted[0], ranker(rows, known.severity, pool, seed)
            if len(rest):
                alarms.append(flagged(domain, rows[rest]))
            plain = head.posterior(seen["the same cameras"]).mean
            before = ordered(plain, plain, severity, severity)
            for name, changed in seen.items():
                found[name].append(flagged(domain, changed))
                cost[name].append(before - ordered(head.posterior(changed).mean, plain, severity, severity))
        print(f"drawn: {size} images of {size // 10} patients, {splits} pools; flagged, and accuracy lost")
        if alarms:
            show("other patients, the same cameras", alarms)
        for name in CAMERAS:
            show(name, found[name], cost[name])


def pixels(splits: int, side: int = 128) -> None:
    """The same with nothing but pixels, as for a network that is trained from pixels on."""

    def seen(pictures: Iterable[NDArray[np.uint8]]) -> NDArray[np.float32]:
        return appearance(np.stack([resize(picture, side) for picture in pictures]))

    rows = {name: seen(map(catalog(name).read, range(len(catalog(name))))) for name in ("uc", "retina")}
    for name, other in (("uc", "retina"), ("retina", "uc")):
        images, groups = catalog(name), same(catalog(name))
        few = few_rows(groups)
        plain = [images.read(int(row)) for row in few]
        altered = {kind: seen(map(alter, plain)) for kind, alter in ALTERED.items()}
        alarms: list[float] = []
        crossed: list[float] = []
        found: dict[str, list[float]] = {kind: [] for kind in altered}
        for seed in range(splits):
            domain, _, new = measure(rows[name], groups, seed)
            alarms.append(flagged(domain, rows[name][new]))
            crossed.append(flagged(domain, rows[other][:400]))
            for kind, some in altered.items():
                found[kind].append(flagged(domain, some[np.isin(few, new)]))
        print(f"{name} by pixels: {splits} splits; flagged")
        show("new images of the same domain", alarms)
        show(f"400 of {other}", crossed)
        for kind in altered:
            show(kind, found[kind])


def trunk(splits: int, images: int = 400) -> None:
    """What the preset `tuned` compares: averages and deviations of the activations below the stages that it trains."""
    config = ranker_preset("tuned")
    own, foreign = catalog("uc"), catalog("retina")
    groups = same(own)
    rows = few_rows(groups, images)
    plain = [own.read(int(row)) for row in rows]
    seen = appearance(read_inputs(plain, config))
    far = appearance(read_inputs([foreign.read(row) for row in range(60)], config))
    kinds = (
        "blur σ = 1 px",
        "blur σ = 2 px",
        "white balance 0.7 : 1 : 1.4",
        "hue + 30°",
        "grey",
        "noise 10",
        "JPEG quality 30",
    )
    some = np.arange(0, images, images // 60)[:60]
    changed = {
        kind: appearance(read_inputs([ALTERED[kind](plain[k]) for k in some], config)) for kind in kinds
    }
    alarms: list[float] = []
    crossed: list[float] = []
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    for seed in range(splits):
        domain, _, new = measure(seen, groups[rows], seed)
        alarms.append(flagged(domain, seen[new]))
        crossed.append(flagged(domain, far))
        for kind in kinds:
            found[kind].append(flagged(domain, changed[kind][np.isin(some, new)]))
    print(f"uc by activations: {images} images, {splits} splits; flagged")
    show("new images of the same domain", alarms)
    show("60 of retina", crossed)
    for kind in kinds:
        show(kind, found[kind])


def main() -> None:
    """Print the tables."""
    parts = {
        "uc": lambda n: real("uc", n), "retina": lambda n: real("retina", n), "drawn": drawn, "pixels": pixels, "trunk": trunk,
    }  # fmt: skip
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", choices=list(parts))
    parser.add_argument("--splits", type=int, default=10)
    given = parser.parse_args()
    for part in [given.part] if given.part else parts:
        parts[part](given.splits)


if __name__ == "__main__":
    main()
