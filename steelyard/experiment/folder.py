"""RUN, a folder: `experiment.json`, one folder a finished cell, and the tables that are put together from them.

    RUN/
      experiment.json         settings, versions, data fingerprint, grades, folds
      images.parquet          row, image, grade, group, part
      embedding.npy           leading principal components of the features, for pictures
      cells/METHOD-f0-s0/     rows.json, scores.parquet, outcomes.parquet, asked.parquet – renamed into place when finished
      results.csv  classification.csv  scores.parquet  outcomes.parquet  asked.parquet

A cell is written beside its place and renamed, so whatever stands in `cells/` is whole, however a run ended.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import ExperimentError, command
from steelyard.evaluate.accuracy import neighbor_names
from steelyard.experiment.cell import Cell, CellResult
from steelyard.experiment.config import fixed_of_old
from steelyard.files import replacing, sync_folder, sync_tree, write_atomically

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RunFolder", "result_columns"]

TABLES = ("scores", "outcomes", "asked")
_HOST = platform.node().partition(".")[0]


def result_columns(grades: int) -> list[str]:
    """Columns of `results.csv` for G grades."""
    return [
        "method", "fold", "seed", "round", "pairs", "images", "label_ratio", "overall", "neighboring",
        *neighbor_names(grades), "train_s", "score_s", "select_s",
    ]  # fmt: skip


class RunFolder:
    """Reads and writes RUN."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.cells = self.path / "cells"

    # ------------------------------------------------------------------ what the run is

    def describe(self) -> dict[str, Any]:
        """The content of `experiment.json`.

        Raises:
            ExperimentError: there is none.
        """
        try:
            found: dict[str, Any] = json.loads((self.path / "experiment.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ExperimentError(
                f"{self.path} holds no experiment (experiment.json is missing); make one with: {command('experiment', '--out', self.path)}"
            ) from None
        except json.JSONDecodeError as error:
            raise ExperimentError(f"{self.path / 'experiment.json'} is damaged: {error}") from None
        return found

    def open(self, description: dict[str, Any], *, resume: bool) -> dict[str, Any]:
        """Begin a run, or take one up again.

        Args:
            description: with keys `config` (all settings), `fixed` (those that may not differ) and `data`.
            resume: go on where a run in this folder stopped.

        Returns:
            The description that is now in the folder: of a resumed run the old one, with methods and seeds added.

        Raises:
            ExperimentError: the folder is in use by another experiment, or has results and `resume` was not given.
        """
        if not (self.path / "experiment.json").exists():
            if self.path.exists() and any(self.path.iterdir()):
                raise ExperimentError(
                    f"{self.path} is not empty and holds no experiment; choose another folder with --out"
                )
            self.cells.mkdir(parents=True)
            self.write_json("experiment.json", description)
            return description
        old = self.describe()
        if not resume:
            raise ExperimentError(
                f"{self.path} already holds an experiment; go on with it with --resume, or choose another folder with --out"
            )
        fixed = fixed_of_old(old["fixed"])
        for key, value in description["fixed"].items():
            if fixed.get(key) != value:
                raise ExperimentError(
                    f"{self.path} was made with {key}={fixed.get(key)!r}, not {value!r}; "
                    "use the same settings to resume it, or choose another folder with --out"
                )
        if old["data"]["fingerprint"] != description["data"]["fingerprint"]:
            raise ExperimentError(
                f"{self.path} was made with other data (fingerprint {old['data']['fingerprint']}, now "
                f"{description['data']['fingerprint']}); give the same data to resume it, or choose another folder with --out"
            )
        old["methods"] += [m for m in description["methods"] if m not in old["methods"]]
        old["commands"] += [c for c in description["commands"] if c not in old["commands"]]
        self._sweep()
        self.write_json("experiment.json", old)
        return old

    def deals(self) -> str:
        """How the images were dealt into folds; `each` where there is no run yet."""
        if not (self.path / "experiment.json").exists():
            return "each"
        return str(fixed_of_old(self.describe()["fixed"])["deals"])

    def _sweep(self) -> None:
        """Remove what killed processes of this machine left half-written; others may be at work on a shared folder."""
        for path in self.cells.glob(f".*.{_HOST}.*"):
            process = path.name.rpartition(".")[2]
            if process.isdigit() and not _alive(int(process)):
                shutil.rmtree(path, ignore_errors=True)

    def write_json(self, name: str, value: Any) -> None:
        """Write a JSON file in one step."""
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        write_atomically(self.path / name, text, private=False)

    # ------------------------------------------------------------------ cells

    def finished(self, cell: Cell) -> bool:
        """Whether a cell is there."""
        return (self.cells / cell.name).is_dir()

    def save(self, cell: Cell, result: CellResult) -> None:
        """Write a finished cell in one step; if somebody else finished it meanwhile, theirs stays."""
        import pandas as pd

        place = self.cells / cell.name
        working = self.cells / f".{cell.name}.{_HOST}.{os.getpid()}"
        shutil.rmtree(working, ignore_errors=True)
        working.mkdir()
        for name in TABLES:
            parts = [pd.DataFrame(columns) for columns in getattr(result, name)]
            if parts:
                table = _small(pd.concat(parts, ignore_index=True))
                table.to_parquet(working / f"{name}.parquet", compression="zstd", index=False)
        if result.features is not None:
            np.save(working / "embedding.npy", _leading(result.features))
        text = json.dumps({"cell": vars(cell), "rows": result.rows, "grading": result.grading}, indent=1)
        (working / "rows.json").write_text(text, encoding="utf-8")
        sync_tree(working)
        try:
            working.rename(place)
        except OSError:
            if not place.is_dir():
                raise
            shutil.rmtree(working, ignore_errors=True)
        sync_folder(self.cells)

    def write_embedding(self, features: NDArray[Any]) -> None:
        """Keep what a map of the images is drawn from."""
        with replacing(self.path / "embedding.npy", private=False) as file:
            np.save(file, _leading(np.asarray(features, dtype=np.float32)))

    def embedding(self, cell: Cell) -> NDArray[np.float32] | None:
        """A few numbers for each image to draw it by: of the cell's own network where it has any, else of the inputs."""
        for path in (self.cells / cell.name / "embedding.npy", self.path / "embedding.npy"):
            if path.exists():
                return np.asarray(np.load(path), dtype=np.float32)
        return None

    def rows(self) -> list[dict[str, Any]]:
        """`rows.json` of every finished cell: keys `cell`, `rows`, `grading`, and `folder`."""
        found = []
        for path in sorted(self.cells.iterdir()):
            if path.name.startswith("."):
                continue
            content = json.loads((path / "rows.json").read_text(encoding="utf-8"))
            found.append({**content, "folder": path})
        return found

    # ------------------------------------------------------------------ tables

    def assemble(self) -> None:
        """Put the tables together from the finished cells; the same cells give the same files."""
        import pandas as pd

        about = self.describe()
        order = {method: k for k, method in enumerate(about["methods"])}
        cells = [c for c in self.rows() if c["cell"]["method"] in order]
        cells.sort(key=lambda c: (order[c["cell"]["method"]], c["cell"]["fold"], c["cell"]["seed"]))
        rows = [row for cell in cells for row in cell["rows"]]
        columns = result_columns(len(about["grades"]))
        self._replace_csv(pd.DataFrame(rows, columns=columns), "results.csv")
        grading = [cell["grading"] for cell in cells if cell["grading"]]
        if grading:
            self._replace_csv(pd.DataFrame(grading), "classification.csv")
        for name in TABLES:
            self._join(name, cells)

    def _join(self, name: str, cells: list[dict[str, Any]]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        def read(cell: dict[str, Any]) -> pa.Table:
            table = pq.read_table(cell["folder"] / f"{name}.parquet")
            for column, value in reversed(list(cell["cell"].items())):
                kind = pa.string() if isinstance(value, str) else pa.int16()
                table = table.add_column(0, column, pa.array([value] * len(table), kind))
            return table

        cells = [cell for cell in cells if (cell["folder"] / f"{name}.parquet").exists()]
        if not cells:
            return
        first = read(cells[0])
        with (
            replacing(self.path / f"{name}.parquet", private=False) as file,
            pq.ParquetWriter(file, first.schema, compression="zstd") as writer,
        ):
            writer.write_table(first)
            for cell in cells[1:]:
                writer.write_table(read(cell).cast(first.schema))

    def _replace_csv(self, table: pd.DataFrame, name: str) -> None:
        write_atomically(self.path / name, table.to_csv(index=False), private=False)

    def table(self, name: str) -> pd.DataFrame:
        """One of the tables: `results`, `classification`, `images`, `scores`, `outcomes`, `asked`.

        Raises:
            ExperimentError: it is not there.
        """
        import pandas as pd

        for ending, read in (("csv", pd.read_csv), ("parquet", pd.read_parquet)):
            path = self.path / f"{name}.{ending}"
            if path.exists():
                return read(path)
        raise ExperimentError(
            f"{self.path} has no table '{name}'; let its run finish with: steelyard experiment … --resume"
        )


def _leading(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """50 principal components. Only for drawing: nothing is learnt from them, so all images may be in it."""
    from steelyard.ranker.reduction import Reduction

    return np.asarray(Reduction.fit(features, components=50).transform(features), dtype=np.float32)


def _alive(process: int) -> bool:
    if os.name != "posix":  # elsewhere signal 0 is no question but a kill; what is left over does no harm
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _small(table: pd.DataFrame) -> pd.DataFrame:
    """Numbers in as few bytes as they need."""
    for name in table.columns:
        if name in ("round", "weight"):
            table[name] = table[name].astype(np.int32)
        elif name in ("image", "first", "second"):
            table[name] = table[name].astype(np.int64)
        elif name in ("score", "variance", "probability", "correct", "answer"):
            table[name] = table[name].astype(np.float32)
    return table
