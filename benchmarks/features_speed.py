"""How many images a second are described, from files to rows: the second recipe against the first, in one run.

    python benchmarks/features_speed.py [--images 16] [--large 6] [--rounds 3]

Files are drawn: JPEGs of 256 px, and of 4288 × 2848 px as cameras make them. One process, then two at a time, each with one
thread, take turns with the recipes; processes and networks are warm. Printed are images a second and process, processor time
of an image and its parts, and the ratios, by the clock and by processor time (what others do on the machine is in the first).
Fails below four times the images.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from PIL import Image

LARGE = (4288, 2848)
AIM = 4.0


def draw_files(folder: Path, count: int, size: tuple[int, int], seed: int) -> None:
    """Drawn mucosa with a sensor's grain, as JPEG."""
    from steelyard.images.synthetic import draw

    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    for k, pixels in enumerate(draw(count, size=256, seed=seed).images):
        image = Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC)
        grain = rng.integers(-5, 6, size=(size[1], size[0], 1))
        Image.fromarray(np.clip(np.asarray(image) + grain, 0, 255).astype(np.uint8)).save(
            folder / f"{k:03d}.jpg", quality=90
        )


def work(orders: Connection) -> None:
    """Describe the folder that is asked for, and say how long it took: clock, processor, processor for files alone."""
    from steelyard.images.catalog import Catalog
    from steelyard.images.decode import resize
    from steelyard.ranker.features import extract

    for recipe in (1, 2):
        extract(np.zeros((1, 260, 260, 3), dtype=np.uint8), threads=1, recipe=recipe)
    orders.send("ready")
    while (order := orders.recv()) is not None:
        recipe, folder = order
        catalog = Catalog.from_folder(folder)
        started, spent = time.perf_counter(), time.process_time()
        extract(catalog, threads=1, recipe=recipe)
        clock, processor = time.perf_counter() - started, time.process_time() - spent
        spent = time.process_time()
        for row in range(len(catalog)):
            resize(catalog.read_small(row, 520 if recipe == 2 else 0), 260)
        orders.send((len(catalog), clock, processor, time.process_time() - spent))


def measure(workers: list[Connection], folders: list[Path], recipe: int) -> np.ndarray:
    """Seconds per image – clock, processor, files – of the slowest, mean and mean of the workers."""
    for worker, folder in zip(workers, folders, strict=False):
        worker.send((recipe, folder))
    found = np.array([worker.recv() for worker in workers[: len(folders)]])
    seconds = found[:, 1:] / found[:, :1]
    return np.array([seconds[:, 0].max(), seconds[:, 1].mean(), seconds[:, 2].mean()])


def main() -> int:
    """Print the table; fails below the aim."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=16, help="files of 256 px of each process")
    parser.add_argument("--large", type=int, default=6, help="large files of each process")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        sets = {"256 px": ((256, 256), options.images), "4288 × 2848 px": (LARGE, options.large)}
        for name, (size, count) in sets.items():
            for number in range(2):
                draw_files(Path(scratch) / name / str(number), count, size, number)
        pipes = [context.Pipe() for _ in range(2)]
        processes = [context.Process(target=work, args=(theirs,)) for _, theirs in pipes]
        for process in processes:
            process.start()
        workers = [ours for ours, _ in pipes]
        for worker in workers:
            worker.recv()
        print(
            "files            processes  recipe  images/s and process   ms of processor: whole, files, network   ratio: clock, processor"
        )
        for name in sets:
            for count in (1, 2):
                folders = [Path(scratch) / name / str(number) for number in range(count)]
                runs = np.array(
                    [[measure(workers, folders, recipe) for recipe in (1, 2)] for _ in range(options.rounds)]
                )
                ratios = np.median(runs[:, 0] / runs[:, 1], axis=0)
                for recipe in (1, 2):
                    clock, whole, files = np.median(runs[:, recipe - 1], axis=0)
                    told = f"{ratios[0]:10.1f}× {ratios[1]:6.1f}×" if recipe == 2 else ""
                    print(
                        f"{name:16s} {count:9d} {recipe:7d} {1 / clock:16.1f} {whole * 1e3:24.0f} {files * 1e3:6.0f} "
                        f"{(whole - files) * 1e3:6.0f} {told:>28s}"
                    )
                failed |= bool(ratios[1] < AIM)
        for worker in workers:
            worker.send(None)
        for process in processes:
            process.join()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
