"""How training went, epoch by epoch: as numbers, as JSON, as a line of text, as a CSV or for TensorBoard."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from steelyard.errors import RankerError
from steelyard.files import write_atomically

__all__ = ["Epoch", "write_log"]


@dataclass(frozen=True)
class Epoch:
    """How one epoch went; losses are means over pairs without the L2 term.

    Attributes:
        epoch: its number, from 0.
        loss: over the training pairs, under their draws.
        accuracy: share of training pairs without ties that the draws ordered as answered.
        validation_loss: with mean weights, NaN without validation pairs.
        validation_accuracy: with mean weights, NaN without validation pairs.
    """

    epoch: int
    loss: float
    accuracy: float
    validation_loss: float
    validation_accuracy: float

    def to_json(self) -> dict[str, float | None]:
        """Plain values; JSON has no NaN, so it is null there."""
        return {key: None if math.isnan(value) else value for key, value in asdict(self).items()}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Epoch:
        """What `to_json` gave."""
        numbers: dict[str, Any] = {key: math.nan if value is None else value for key, value in entry.items()}
        return cls(**numbers)

    @property
    def line(self) -> str:
        """One line for people, after the number of the epoch."""
        text = f"epochs: loss {self.loss:.4f}, accuracy {self.accuracy:.3f}"
        if not math.isnan(self.validation_loss):
            text += f", validation loss {self.validation_loss:.4f}, accuracy {self.validation_accuracy:.3f}"
        return text


def write_log(kind: str, folder: Path, history: list[Epoch]) -> None:
    """Write down how training goes, as `ranker.log` says: `log.csv` with every epoch, or the newest one for TensorBoard.

    Raises:
        RankerError: TensorBoard is not installed.
    """
    if kind == "csv":
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, list(asdict(history[0])))
        writer.writeheader()
        writer.writerows(asdict(entry) for entry in history)
        write_atomically(folder / "log.csv", text.getvalue())
    elif kind == "tensorboard":
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise RankerError(
                "ranker.log = 'tensorboard' needs tensorboard: pip install tensorboard"
            ) from None
        with SummaryWriter(str(folder / "tensorboard")) as writer:
            for key, value in asdict(history[-1]).items():
                if key != "epoch" and not math.isnan(value):
                    writer.add_scalar(key, value, history[-1].epoch)
