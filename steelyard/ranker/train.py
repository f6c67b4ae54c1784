"""One training loop, read from top to bottom; Lightning Fabric supplies device, precision and processes.

`train` learns f(x) from comparisons (P3, P6); `fit_conventional` learns the compared classification. Both hand the loop
an objective: what the loss of some examples is, and how good the network is on validation data.

A step takes the *distinct* images of its pairs. Stages before the first dropout see each of them once, and frozen ones
are computed once for the whole training. Behind that an image takes part once per pair: each of its pairs has a draw of
its own (P9), so an image in three pairs meets three draws and there is nothing to share. (One draw for the whole batch
would allow it, and would still be an unbiased estimate of the lower bound, but all pairs of a step would then err
together; the variance of the gradient would no longer fall with the batch size.)

All chance comes from (seed, epoch, step): a run that was killed and resumed ends with the same weights, bit for bit, as
one that was not.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from steelyard.config import NetworkConfig
from steelyard.errors import RankerError
from steelyard.progress import Progress
from steelyard.ranker import checkpoint
from steelyard.ranker.device import cpu_threads
from steelyard.ranker.epochs import Epoch, write_log
from steelyard.ranker.held_out import hold_out_images
from steelyard.ranker.loss import l2_weights
from steelyard.ranker.network import Network
from steelyard.ranker.objective import Comparisons, Grades, Images, Objective, checked_grades, checked_pairs

__all__ = ["Epoch", "TrainResult", "fit_conventional", "train"]


@dataclass(frozen=True)
class TrainResult:
    """What training did; the network itself now has the weights of the best epoch.

    Attributes:
        history: one entry an epoch.
        best_epoch: whose weights were kept.
        tau: Rao–Kupper's τ, None where ties are 0.5 targets.
        held: pairs and answers that it was stopped by and not taught; None where there were none.
        unused: pairs that were neither, because one of their images was taught and the other held out.
    """

    history: tuple[Epoch, ...]
    best_epoch: int
    tau: float | None
    held: tuple[NDArray[np.int64], NDArray[np.float64]] | None = field(default=None, compare=False)
    unused: int = field(default=0, compare=False)


def train(
    network: Network,
    images: Images,
    pairs: ArrayLike,
    answers: ArrayLike,
    *,
    validation: tuple[ArrayLike, ArrayLike] | None = None,
    grades: ArrayLike | None = None,
    config: NetworkConfig,
    seed: int,
    folder: Path | None = None,
    fingerprint: str = "",
    progress: Progress | None = None,
) -> TrainResult:
    """Learn scores from comparisons: P3 by Adam, the best epoch on validation pairs kept.

    Warm starts are the caller's: training starts from the weights the network comes with.

    Args:
        network: from `build_network`; changed in place.
        images: uint8 (N, H, W, 3) or feature rows (N, D); a memory map is read batch by batch.
        pairs: rows of `images`, shape (n, 2).
        answers: P1, shape (n,): 1, 0.5 or 0.
        validation: pairs and answers for early stopping; None holds out images, so many that `config.validation_share` of the
            pairs lie among them (`held_out.py`), and with a share of 0 the training loss decides.
        grades: codes of all images, shape (N,), below 0 for unknown; used when `config.multitask` (P6).
        config: the settings.
        seed: random seed.
        folder: where a checkpoint is written after each epoch, and resumed from; at the end it holds the model.
        fingerprint: of the images; travels with the checkpoint.
        progress: called after each epoch.

    Raises:
        RankerError: pairs, answers or grades that do not fit; a loss that is not finite; a folder with another run.
    """
    rows, labels = checked_pairs(pairs, answers, len(images))
    if not len(rows):
        raise RankerError("there are no answered pairs to learn from; answer some first")
    given = len(rows)
    held: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None
    watched: NDArray[np.bool_] = np.zeros(given, dtype=bool)
    if validation is not None and len(np.asarray(validation[0])):
        held = checked_pairs(*validation, len(images))
    else:
        watched, taught = hold_out_images(rows, config.validation_share, np.random.default_rng([seed, 0]))
        if watched.any():
            held = rows[watched], labels[watched]
            rows, labels = rows[taught], labels[taught]
    codes = None
    if config.multitask:
        if grades is None:
            raise RankerError(
                "multitask training (P6) needs grades; give them or set ranker.multitask to false"
            )
        codes = np.asarray(grades, dtype=np.float32)
        if codes.shape != (len(images),) or not np.isfinite(codes).all():
            raise RankerError(f"grades are a code for each of {len(images)} images, below 0 for unknown")
    objective = Comparisons(network, images, rows, labels, held, codes, config)
    run = checkpoint.fingerprint_of(rows, labels, *(held or ()), codes, fingerprint)
    unused = given - len(rows) - int(watched.sum())
    return replace(_loop(network, objective, config, seed, folder, run, progress), held=held, unused=unused)


def fit_conventional(
    network: Network,
    images: Images,
    rows: ArrayLike,
    grades: ArrayLike,
    *,
    validation: tuple[ArrayLike, ArrayLike] | None = None,
    config: NetworkConfig,
    seed: int,
    folder: Path | None = None,
    fingerprint: str = "",
    progress: Progress | None = None,
) -> TrainResult:
    """Learn grades by cross-entropy: the "conventional" method the paper compares with.

    Args:
        network: from `build_network(…, outputs=G)`; changed in place.
        images: as for `train`.
        rows: rows of `images`, shape (n,).
        grades: their codes 0 … G−1, shape (n,).
        validation: rows and codes for early stopping; None watches the training loss.
        config: the settings.
        seed: random seed.
        folder: as for `train`.
        fingerprint: as for `train`.
        progress: as for `train`.

    Raises:
        RankerError: as for `train`.
    """
    index, codes = checked_grades(rows, grades, len(images), network.outputs)
    if not len(index):
        raise RankerError("there are no graded images to learn from")
    held = None
    if validation is not None and len(np.asarray(validation[0])):
        held = checked_grades(*validation, len(images), network.outputs)
    objective = Grades(network, images, index, codes, held, config)
    run = checkpoint.fingerprint_of(index, codes, *(held or ()), fingerprint)
    return _loop(network, objective, config, seed, folder, run, progress)


def _loop(
    network: Network,
    objective: Objective,
    config: NetworkConfig,
    seed: int,
    folder: Path | None,
    data: str,
    progress: Progress | None,
) -> TrainResult:
    fabric = _fabric(config)
    matters = {k: v for k, v in config.to_dict().items() if k not in ("device", "threads", "log")}
    initial = {name: value.detach().cpu().numpy() for name, value in network.state_dict().items()}
    run = checkpoint.fingerprint_of(data, matters, seed, *initial.values())
    if config.log != "none" and folder is None:
        raise RankerError(f"ranker.log = {config.log!r} needs a folder to write to")

    decayed = l2_weights(network)
    known = {id(weight) for weight in decayed}
    others = [p for p in network.parameters() if p.requires_grad and id(p) not in known]
    optimizer = torch.optim.Adam(
        # P3's λ‖W‖² in the loss, not decoupled: its gradient 2λW joins the gradient before Adam sees it.
        [
            {"params": decayed, "weight_decay": 2 * config.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ],
        lr=config.learning_rate,
        fused=fabric.device.type in ("cpu", "cuda"),
    )
    module, adam = fabric.setup(network, optimizer)

    history: list[Epoch] = []
    best, best_epoch, best_loss = _copied(network), -1, math.inf
    finished = False
    if folder is not None and checkpoint.exists(folder):
        saved = checkpoint.load(folder, fingerprint=run)
        history = [Epoch.from_json(entry) for entry in saved.extra["history"]]
        best_epoch, best_loss = saved.extra["best_epoch"], saved.extra["best_loss"]
        finished = saved.extra["finished"]
        checkpoint.fill(network, saved.weights, source=str(folder))
        best = _copied(network)
        if not finished:
            _restore(network, optimizer, saved.optimizer, str(folder))

    with cpu_threads(config.threads):
        for epoch in range(len(history), 0 if finished else config.epochs):
            network.train()
            order = np.random.default_rng([seed, 1, epoch]).permutation(objective.size)
            total, right, counted, examples = 0.0, 0.0, 0.0, 0.0
            for step, chosen in enumerate(
                _shares(order, config.batch_size, fabric.world_size, fabric.global_rank)
            ):
                loss, *hits = objective.loss(module, chosen, (seed, epoch, step, fabric.global_rank))
                value = loss.item()
                if not math.isfinite(value):
                    raise RankerError(
                        f"the loss became {value} in epoch {epoch}, step {step}, at learning rate "
                        f"{config.learning_rate}; lower ranker.learning_rate, or look for broken images or features"
                    )
                adam.zero_grad()
                fabric.backward(loss)
                adam.step()
                total, examples = total + value * len(chosen), examples + len(chosen)
                right, counted = right + hits[0], counted + hits[1]

            network.eval()
            held_loss, held_accuracy = fabric.broadcast(objective.validate(module))
            if objective.held is not None and not math.isfinite(held_loss):
                raise RankerError(
                    f"the validation loss became {held_loss} in epoch {epoch}, at learning rate "
                    f"{config.learning_rate}; lower ranker.learning_rate, or look for broken images or features"
                )
            sums = torch.tensor([total, right, counted, examples], dtype=torch.float64)
            total, right, counted, examples = fabric.all_reduce(sums, reduce_op="sum").tolist()
            done = Epoch(
                epoch=epoch,
                loss=total / examples,
                accuracy=right / counted if counted else math.nan,
                validation_loss=held_loss,
                validation_accuracy=held_accuracy,
            )
            history.append(done)
            watched = done.loss if objective.held is None else held_loss
            if watched < best_loss:
                best, best_epoch, best_loss = _copied(network), epoch, watched
            finished = epoch - best_epoch >= config.patience or epoch + 1 == config.epochs
            if folder is not None and fabric.is_global_zero:
                state = None if finished else _state(network, optimizer)
                _save(folder, best, state, config, run, history, best_epoch, best_loss, finished)
                write_log(config.log, folder, history)
            if progress is not None and fabric.is_global_zero:
                progress(epoch + 1, config.epochs, done.line)
            if finished:
                break
    network.load_state_dict(best)
    network.float().eval()  # scores are computed in float32, whatever training was done in
    tau = network.tau
    return TrainResult(tuple(history), best_epoch, None if tau is None else tau.item())


def _fabric(config: NetworkConfig) -> Any:
    from lightning_fabric import Fabric  # takes seconds to import

    accelerator, _, number = config.device.partition(":")
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    world = int(os.environ.get("WORLD_SIZE", "1"))
    try:
        if world > 1:  # started by torchrun, which has made the processes
            fabric = Fabric(
                accelerator=accelerator,
                devices=local,
                num_nodes=world // local,
                strategy="ddp",
                precision=config.precision,
            )
        else:
            devices = [int(number)] if number else 1
            fabric = Fabric(accelerator=accelerator, devices=devices, precision=config.precision)
    except Exception as error:  # Fabric checks names and hardware with errors of many kinds
        raise RankerError(
            f"device {config.device!r} with precision {config.precision!r} does not work here: {error}; "
            "set ranker.device to auto or cpu and ranker.precision to 32-true"
        ) from None
    fabric.launch()
    return fabric


def _shares(order: NDArray[np.int64], batch: int, world: int, rank: int) -> list[NDArray[np.int64]]:
    """The steps of an epoch; of each step, the equal share of this process (a remainder below `world` is left out)."""
    cuts = list(range(0, len(order), batch))
    if len(cuts) > 1 and len(order) - cuts[-1] == 1:
        cuts.pop()  # batch norm has nothing to say about a single example; it joins the step before
    steps = [order[at:end] for at, end in zip(cuts, [*cuts[1:], len(order)], strict=True)]
    shares = [step[rank : len(step) // world * world : world] for step in steps]
    return [share for share in shares if len(share)]


def _copied(network: Network) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


def _state(network: Network, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
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


def _save(
    folder: Path,
    best: dict[str, Tensor],
    state: dict[str, Tensor] | None,
    config: NetworkConfig,
    run: str,
    history: list[Epoch],
    best_epoch: int,
    best_loss: float,
    finished: bool,
) -> None:
    from steelyard import __version__

    entries = [entry.to_json() for entry in history]
    extra = {"history": entries, "best_epoch": best_epoch, "best_loss": best_loss, "finished": finished}
    checkpoint.save(
        folder, best, config=config, fingerprint=run, version=__version__, extra=extra, optimizer=state
    )
