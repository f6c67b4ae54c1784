"""The steps that benchmarks/costs.py measures, each in a process of its own: `python benchmarks/_cost_steps.py STEP FOLDER JSON`.

The JSON names sizes; printed is another one: `ours` and `database`, seconds of processor time, `peak`, MB that were resident at most,
and `disk`, bytes that were written for good. A folder is shared by the steps of one study, made by the step `study`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

if TYPE_CHECKING:
    from steelyard.store.store import Store

__all__ = ["STEPS", "database_seconds", "used"]

Sizes = dict[str, int]
WIDTH = 128  # what `quick` keeps of 1,280 features


@dataclass
class Meter:
    """What a block took, apart from what came before it."""

    database: psutil.Process | None = None
    ours: float = 0.0
    other: float = 0.0
    disk: int = 0
    began: list[float] = field(default_factory=list)

    def __enter__(self) -> Meter:
        self.began = [time.process_time(), database_seconds(self.database)]
        return self

    def __exit__(self, *_: object) -> None:
        self.ours = time.process_time() - self.began[0]
        self.other = database_seconds(self.database) - self.began[1]

    def told(self) -> dict[str, float]:
        """As the step prints it."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {"ours": self.ours, "database": self.other, "peak": peak, "disk": float(self.disk)}


def database_seconds(server: psutil.Process | None) -> float:
    """Processor time of a PostgreSQL server: its backends, those that have ended, and what writes for them."""
    if server is None:
        return 0.0
    spent = sum(server.cpu_times()[:4])
    for child in server.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            spent += sum(child.cpu_times()[:2])
    return float(spent)


def used(path: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file() and not file.is_symlink())


# ---------------------------------------------------------------------- images


def files(folder: Path, sizes: Sizes) -> Meter:
    """A folder of files becomes a catalog: found, read, hashed, written."""
    from steelyard.images.catalog import Catalog
    from steelyard.images.synthetic import draw

    place = folder / "files"
    place.mkdir()
    encoded = io.BytesIO()
    from PIL import Image

    Image.fromarray(draw(1, size=256, seed=0).images[0]).resize((640, 640)).save(
        encoded, format="JPEG", quality=90
    )
    for k in range(sizes["images"]):
        (place / f"{k:06d}.jpg").write_bytes(encoded.getvalue() + f"{k}".encode())
    with Meter() as meter:
        Catalog.from_folder(place).save(folder / "catalog.arrow")
    meter.disk = len(encoded.getvalue())  # of one file: what was hashed
    return meter


def features(folder: Path, sizes: Sizes) -> Meter:
    """Rows of `quick` from JPEGs of 640 px, one thread; the network is loaded."""
    from features_speed import draw_files

    from steelyard.images.catalog import Catalog
    from steelyard.ranker.features import extract

    draw_files(folder / "drawn", sizes["images"], (640, 640), 0)
    catalog = Catalog.from_folder(folder / "drawn")
    extract(np.zeros((1, 260, 260, 3), dtype=np.uint8), threads=1)
    with Meter() as meter:
        rows = extract(catalog, threads=1)
    meter.disk = rows.nbytes
    return meter


def catalog_saved(folder: Path, sizes: Sizes) -> Meter:
    """A catalog is written, ids sorted."""
    from catalog_open import make

    from steelyard.images.catalog import Catalog

    table = make(sizes["images"])
    with Meter() as meter:
        Catalog(table, root=folder, grade_names=("0", "1", "2", "3")).save(folder / "catalog.arrow")
    meter.disk = (folder / "catalog.arrow").stat().st_size
    return meter


def catalog_opened(folder: Path, sizes: Sizes) -> Meter:
    """It is opened, and one image looked up; the peak is what the process holds then."""
    from steelyard.images.catalog import Catalog

    with Meter() as meter:
        catalog = Catalog.open(folder / "catalog.arrow")
        catalog.index_of(str(catalog.ids[sizes["images"] // 2]))
    return meter


# ---------------------------------------------------------------------- the store


def _store(folder: Path, kind: str) -> tuple[str, psutil.Process | None, Callable[[], None]]:
    if kind == "sqlite":
        return f"sqlite:///{folder}/study.db", None, lambda: None
    import psycopg
    from server_load import new_postgres

    url, end = new_postgres()
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        backend = psutil.Process(connection.info.backend_pid)
        return url, psutil.Process(backend.ppid()), end


def _bytes_of(url: str, folder: Path) -> int:
    if url.startswith("sqlite"):
        return sum(file.stat().st_size for file in folder.glob("study.db*"))
    import psycopg

    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        found = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert found is not None
    return int(found[0])


def stored(folder: Path, sizes: Sizes, kind: str, what: str) -> Meter:
    """Images, or pairs with an answer each, are written to a store of that kind."""
    from steelyard.pairs import PairSet, random_pairs
    from steelyard.store.records import NewImage
    from steelyard.store.store import Store

    n, rng = sizes[what], np.random.default_rng(0)
    images = n if what == "images" else 2_000
    ids = [f"{rng.bytes(16).hex()}" for _ in range(images)]
    url, server, end = _store(folder, kind)
    try:
        new = [
            NewImage(row, id, f"{row // 20}/UC_patient_{row}.jpg", f"{row // 20}")
            for row, id in enumerate(ids)
        ]
        with Store.open(url) as store:
            if what == "answers":
                store.images.add_all(new)
        before = _bytes_of(url, folder)  # closed: nothing waits in a log beside the file
        with Store.open(url) as store:
            if what == "images":
                with Meter(server) as meter:
                    store.images.add_all(new)
            else:
                chosen = random_pairs(n, images, taken=PairSet(images), rng=rng).tolist()
                with Meter(server) as meter:
                    for at in range(0, n, 10_000):
                        _answer(store, chosen[at : at + 10_000], ids)
        meter.disk = _bytes_of(url, folder) - before
        return meter
    finally:
        end()


def _answer(store: Store, pairs: list[list[int]], ids: list[str]) -> None:
    from steelyard.pairs import Answer
    from steelyard.store.records import NewComparison, NewPair

    numbers = store.pairs.add_all(
        [NewPair(i, j, 0, "epig", "these two look equally severe", 0.1) for i, j in pairs]
    )
    store.answers.add_all(
        [
            NewComparison(number, f"p{k % 1000}", Answer.LEFT, ids[i], ids[j], 1.0, 3.0)
            for k, (number, (i, j)) in enumerate(zip(numbers, pairs, strict=True))
        ]
    )


# ---------------------------------------------------------------------- a study


def study(folder: Path, sizes: Sizes) -> Meter:
    """A study with that many images and answers is made, for the steps after it."""
    from ask_latency import build

    with Meter() as meter:
        made, _ = build(folder, sizes["images"], sizes["answers"], WIDTH)
        made.close()
    meter.disk = used(folder / "study")
    return meter


def _opened(folder: Path) -> Any:
    from steelyard.study import Study

    return Study.open(folder / "study")


def fit(folder: Path, sizes: Sizes) -> Meter:
    """A model is fitted on all answers, with scores, accuracy, forecast, card, and published."""
    before = used(folder / "study")
    with _opened(folder) as opened, Meter() as meter:
        opened.fit()
    meter.disk = used(folder / "study") - before
    return meter


def first_ask(folder: Path, sizes: Sizes) -> Meter:
    """A process opens the study and chooses its first pair: model, pairs so far, answers."""
    with Meter() as meter, _opened(folder) as opened:
        opened.questions.draft(1)
    return meter


def next_ask(folder: Path, sizes: Sizes) -> Meter:
    """It chooses twenty more, one by one: seconds of one."""
    with _opened(folder) as opened:
        opened.questions.draft(1)
        with Meter() as meter:
            for _ in range(20):
                opened.questions.draft(1)
    meter.ours /= 20
    return meter


def scores(folder: Path, sizes: Sizes) -> Meter:
    """The table of scores, uncertainties and ranks of all images."""
    with _opened(folder) as opened, Meter() as meter:
        opened.score()
    return meter


def export(folder: Path, sizes: Sizes) -> Meter:
    """All answers as CSV."""
    from steelyard.exchange.exporting import export_file

    with _opened(folder) as opened, Meter() as meter:
        export_file(opened, folder / "answers.csv")
    meter.disk = (folder / "answers.csv").stat().st_size
    return meter


def status(folder: Path, sizes: Sizes) -> Meter:
    """Where the study stands."""
    with _opened(folder) as opened, Meter() as meter:
        opened.status()
    return meter


# ---------------------------------------------------------------------- arrays


def choose(folder: Path, sizes: Sizes) -> Meter:
    """EPIG chooses pairs among images whose rows are on disk."""
    import choose_million

    path = folder / f"features-{sizes['images']}.npy"
    if not path.exists():
        choose_million.write_features(path, sizes["images"])
    with Meter() as meter, contextlib.redirect_stdout(io.StringIO()):
        choose_million.run_one(path, "epig", sizes["pairs"])
    return meter


def rows(folder: Path, sizes: Sizes) -> Meter:
    """Rows of 1,280 features are scored with their variance by a fitted head, as a part of a large job does."""
    from steelyard.pairs import PairSet, random_pairs
    from steelyard.ranker.convex import ConvexHead

    n, rng = sizes["images"], np.random.default_rng(0)
    own = rng.standard_normal((2_000, 1280)).astype(np.float32)
    pairs = random_pairs(500, len(own), taken=PairSet(len(own)), rng=rng)
    head = ConvexHead.fit(own, pairs, rng.integers(0, 2, len(pairs)).astype(float))
    path = folder / "rows.npy"
    matrix = np.lib.format.open_memmap(path, "w+", np.float32, (n, 1280))
    for start in range(0, n, len(own)):
        matrix[start : start + len(own)] = own[: n - start]
    matrix.flush()
    del matrix
    with Meter() as meter:
        posterior = head.posterior(np.load(path, mmap_mode="r"))
        assert np.isfinite(posterior.mean).all()
        assert np.isfinite(posterior.variance).all()
    meter.disk = path.stat().st_size
    return meter


STEPS: dict[str, Callable[[Path, Sizes], Meter]] = {
    step.__name__: step
    for step in (
        files,
        features,
        catalog_saved,
        catalog_opened,
        study,
        fit,
        first_ask,
        next_ask,
        scores,
        export,
        status,
        choose,
        rows,
    )
} | {
    f"{what}_{kind}": lambda folder, sizes, kind=kind, what=what: stored(folder, sizes, kind, what)  # type: ignore[misc]
    for what in ("images", "answers")
    for kind in ("sqlite", "postgresql")
}


def main() -> None:
    """Run one step and print what it took."""
    name, folder, sizes = sys.argv[1:]
    os.chdir(tempfile.gettempdir())
    print(json.dumps(STEPS[name](Path(folder), json.loads(sizes)).told()))


if __name__ == "__main__":
    main()
