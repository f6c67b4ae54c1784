"""Where a training is: kept in memory by every process, on disk by the first, and taken up again from there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from steelyard.config import NetworkConfig
from steelyard.ranker import checkpoint
from steelyard.ranker.epochs import Epoch
from steelyard.ranker.network import Network

__all__ = ["State", "begin", "copied", "save_state"]


@dataclass
class State:
    """How far a training is; the same in every process.

    Attributes:
        history: one entry an epoch.
        best: weights of the best epoch so far.
        best_epoch: its number, -1 before the first.
        best_loss: what it was best by.
        finished: whether there is another epoch.
    """

    history: list[Epoch]
    best: dict[str, Tensor]
    best_epoch: int = -1
    best_loss: float = math.inf
    finished: bool = False


def begin(
    network: Network,
    optimizer: torch.optim.Optimizer,
    saved: checkpoint.Checkpoint | None,
    source: str,
) -> State:
    """The state to begin with: a new one, or where a run was when it was killed.

    Args:
        network: given the weights it had then.
        optimizer: given the moments it had then.
        saved: by `save_state`; None begins anew.
        source: where that was read, for messages.

    Raises:
        RankerError: weights that do not fit the network.
    """
    if saved is None:
        return State([], copied(network))
    checkpoint.fill(network, saved.weights, source=source)
    state = State(
        [Epoch.from_json(entry) for entry in saved.extra["history"]],
        copied(network),
        saved.extra["best_epoch"],
        saved.extra["best_loss"],
        saved.extra["finished"],
    )
    if not state.finished:
        _restore(network, optimizer, saved.optimizer, source)
    return state


def save_state(
    folder: Path,
    state: State,
    network: Network,
    optimizer: torch.optim.Optimizer,
    *,
    config: NetworkConfig,
    run: str,
) -> None:
    """Write a checkpoint to begin from; of a finished run only the best weights.

    Args:
        folder: what it held is replaced in one step.
        state: how far it is.
        network: as it is now.
        optimizer: as it is now.
        config: the settings.
        run: fingerprint of data, settings and first weights.
    """
    from steelyard import __version__

    extra = {
        "history": [entry.to_json() for entry in state.history],
        "best_epoch": state.best_epoch,
        "best_loss": state.best_loss,
        "finished": state.finished,
    }
    moments = None if state.finished else _moments(network, optimizer)
    checkpoint.save(
        folder,
        state.best,
        config=config,
        fingerprint=run,
        version=__version__,
        extra=extra,
        optimizer=moments,
    )


def copied(network: Network) -> dict[str, Tensor]:
    """The weights as they are now."""
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


def _moments(network: Network, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    state = {f"network/{name}": value for name, value in network.state_dict().items()}
    for number, parameter in enumerate(p for group in optimizer.param_groups for p in group["params"]):
        for key, value in optimizer.state[parameter].items():
            state[f"adam/{number}/{key}"] = value
    return state


def _restore(
    network: Network, optimizer: torch.optim.Optimizer, state: Mapping[str, Any], source: str
) -> None:
    weights = {
        name.removeprefix("network/"): value for name, value in state.items() if name.startswith("network/")
    }
    checkpoint.fill(network, weights, source=source)
    for number, parameter in enumerate(p for group in optimizer.param_groups for p in group["params"]):
        for key in ("step", "exp_avg", "exp_avg_sq"):
            if (saved := state.get(f"adam/{number}/{key}")) is not None:
                value = torch.from_numpy(np.array(saved)).to(parameter.device)
                # The moments lie in memory as their parameter does: the fused step walks through both in one go.
                optimizer.state[parameter][key] = (
                    value if key == "step" else torch.zeros_like(parameter).copy_(value)
                )
