"""How long a catalog of a million images takes to open and to use, next to the same table in Parquet and pandas.

    python benchmarks/catalog_open.py [--rows 1000000]

Seconds depend on the machine; the ratio to pandas in the same run is what to compare. Files are in the page cache for
both (each is read once before it is timed).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from steelyard.images.cache import cached_rows
from steelyard.images.catalog import Catalog
from steelyard.images.columns import category_column, number_column, text_column


def make(rows: int) -> pa.Table:
    """Random ids, paths as LIMUC has them, patients of 20 images, four grades."""
    rng = np.random.default_rng(0)
    digits = rng.bytes(16 * rows).hex()
    ids = [digits[32 * k : 32 * k + 32] for k in range(rows)]
    patients = [str(k // 20) for k in range(rows)]
    grades = rng.integers(0, 4, rows)
    paths = [
        f"{patient}/Mayo {grade}/UC_patient_{patient}_{k}.bmp"
        for k, (patient, grade) in enumerate(zip(patients, grades.tolist(), strict=True))
    ]
    return pa.table(
        {
            "id": text_column(ids),
            "path": text_column(paths),
            "group": category_column(patients),
            "grade": number_column(grades),
        }
    )


def timed(job: Callable[[], object], repeat: int = 5) -> float:
    """The shortest of a few runs, in seconds."""
    best = np.inf
    for _ in range(repeat):
        start = time.perf_counter()
        job()
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    """Make the files, time both, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows: int = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = make(rows)
        catalog_file, parquet_file = folder / "catalog.arrow", folder / "catalog.parquet"
        save = timed(
            lambda: Catalog(table, root=folder, grade_names=("0", "1", "2", "3")).save(catalog_file), repeat=1
        )
        pq.write_table(table, parquet_file)
        asked = np.random.default_rng(1).choice(rows, min(rows, 1000), replace=False)
        ids = Catalog.open(catalog_file).ids[asked]
        table = None  # its memory would hide what opening costs

        process = psutil.Process()
        before = process.memory_info().rss
        catalog = Catalog.open(catalog_file)
        catalog.index_of(ids[0])
        grown = process.memory_info().rss - before

        import pandas as pd

        pd.read_parquet(parquet_file)
        read = timed(lambda: pd.read_parquet(parquet_file), repeat=3)
        frame = pd.read_parquet(parquet_file).set_index("id")
        rng = np.random.default_rng(2)
        some = rng.permutation(rows)[: rows // 5]

        print(f"{rows:,} rows, catalog file {catalog_file.stat().st_size / 1e6:.0f} MB")
        print(f"{'':46}{'seconds':>10}{'× pandas':>12}")
        for what, ours, theirs in (
            ("open", timed(lambda: Catalog.open(catalog_file)), read),
            ("open and find 1,000 ids", timed(lambda: Catalog.open(catalog_file).rows_of(ids)), None),
            (
                "find 1,000 ids",
                timed(lambda: catalog.rows_of(ids)),
                timed(lambda: frame.index.get_indexer(ids)),
            ),
            (
                "find one id",
                timed(lambda: catalog.index_of(ids[0])),
                timed(lambda: frame.index.get_loc(ids[0])),
            ),
            ("subset of a fifth", timed(lambda: catalog.subset(some)), timed(lambda: frame.iloc[some])),
            ("fingerprint", timed(catalog.fingerprint), None),
            ("save (sorts the ids)", save, None),
        ):
            ratio = f"{ours / theirs:12.4f}" if theirs else f"{'':>12}"
            print(f"{what:46}{ours:10.4f}{ratio}")
        print(f"memory after opening and one look-up: {grown / 1e6:.1f} MB")

        def compute(positions: np.ndarray) -> np.ndarray:
            return np.zeros((len(positions), 64), np.float32)

        def features(batch: int = 65536) -> np.ndarray:
            return cached_rows(
                folder / "cache",
                catalog.ids,
                compute,
                row_shape=(64,),
                dtype=np.float32,
                settings={},
                batch=batch,
            )

        fill = timed(features, repeat=1)
        print(f"cache of {rows:,} × 64 float32: fill {fill:.2f} s, open {timed(features):.3f} s, mapped: "
              f"{isinstance(features(), np.memmap)}")  # fmt: skip


if __name__ == "__main__":
    main()
