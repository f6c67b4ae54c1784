"""One training loop, read from top to bottom; Lightning Fabric supplies device, precision and processes.

`train` learns f(x) from comparisons (P3, P6); `fit_conventional` learns the compared classification. Both hand the loop
an objective: what the loss of some examples is, and how good the network is on validation data.

A step takes the *distinct* images of its pairs. Stages before the first dropout see each of them once, and frozen ones
are computed once for the whole training. Behind that an image takes part once per pair: each of its pairs has a draw of
its own (P9), so an image in three pairs meets three draws and there is nothing to share. (One draw for the whole batch
would allow it, and would still be an unbiased estimate of the lower bound, but all pairs of a step would then err
together; the variance of the gradient would no longer fall with the batch size.)

All chance comes from (seed, epoch, step) and an example's place in the step: a run that was killed and resumed ends with the
same weights, bit for bit, as one that was not; and several processes (`processes.py`), each with its share of every step
(`shares.py`), end with those of one process but for the order of sums.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from steelyard.config import NetworkConfig
from steelyard.errors import ProcessError, RankerError
from steelyard.progress import Progress
from steelyard.ranker import checkpoint, processes
from steelyard.ranker.device import cpu_threads
from steelyard.ranker.epochs import Epoch, write_log
from steelyard.ranker.held_out import hold_out_images
from steelyard.ranker.loss import l2_weights
from steelyard.ranker.network import Network
from steelyard.ranker.objective import Comparisons, Grades, Images, Objective, checked_grades, checked_pairs
from steelyard.ranker.resume import State, begin, copied, save_state
from steelyard.ranker.shares import Share, share_of, steps_of

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


@dataclass(frozen=True)
class _Job:
    """What every process needs to train its share.

    Attributes:
        network: changed in place.
        objective: what is minimised.
        config: the settings.
        seed: random seed.
        saved: where a killed run had come to; None starts anew.
        source: where that was read.
    """

    network: Network
    objective: Objective
    config: NetworkConfig
    seed: int
    saved: checkpoint.Checkpoint | None
    source: str


def _loop(
    network: Network,
    objective: Objective,
    config: NetworkConfig,
    seed: int,
    folder: Path | None,
    data: str,
    progress: Progress | None,
) -> TrainResult:
    matters = {k: v for k, v in config.to_dict().items() if k not in ("device", "threads", "log")}
    initial = {name: value.detach().cpu().numpy() for name, value in network.state_dict().items()}
    run = checkpoint.fingerprint_of(data, matters, seed, *initial.values())
    if config.log != "none" and folder is None:
        raise RankerError(f"ranker.log = {config.log!r} needs a folder to write to")
    saved = None
    if folder is not None and checkpoint.exists(folder):
        saved = checkpoint.load(folder, fingerprint=run)

    def keep(state: State, optimizer: torch.optim.Optimizer) -> None:
        if folder is not None:
            save_state(folder, state, network, optimizer, config=config, run=run)
            write_log(config.log, folder, state.history)
        if progress is not None:
            progress(len(state.history), config.epochs, state.history[-1].line)

    job = _Job(network, objective, config, seed, saved, str(folder))
    state = processes.run_everywhere(_epochs, job, keep)
    tau = network.tau
    return TrainResult(tuple(state.history), state.best_epoch, None if tau is None else tau.item())


def _epochs(job: _Job, keep: Callable[[State, torch.optim.Optimizer], None] | None = None) -> State:
    """Train, alone or with other processes; the first of them calls `keep` after each epoch."""
    network, objective, config = job.network, job.objective, job.config
    fabric = _fabric(config)
    decayed = l2_weights(network)
    known = {id(weight) for weight in decayed}
    others = [p for p in network.parameters() if p.requires_grad and id(p) not in known]
    optimizer = torch.optim.Adam(
        # P3's λ‖W‖² in the loss, not decoupled: its gradient 2λW joins the gradient before Adam sees it – and behind the mean
        # over processes, so that it counts once.
        [
            {"params": decayed, "weight_decay": 2 * config.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ],
        lr=config.learning_rate,
        fused=fabric.device.type in ("cpu", "cuda"),
    )
    module, adam = fabric.setup(network, optimizer)
    state = begin(network, optimizer, job.saved, job.source)
    with cpu_threads(config.threads):
        while len(state.history) < config.epochs and not state.finished:
            epoch = len(state.history)
            network.train()
            order = np.random.default_rng([job.seed, 1, epoch]).permutation(objective.size)
            total, right, counted = 0.0, 0.0, 0.0
            for step, chosen in enumerate(steps_of(order, config.batch_size)):
                share = share_of(chosen, processes.rank(), processes.size())
                loss, *hits = objective.loss(module, share, (job.seed, epoch, step, 0))
                value, *met = _over_all(share, loss.item(), *hits)
                if not math.isfinite(value):
                    raise RankerError(
                        f"the loss became {value} in epoch {epoch}, step {step}, at learning rate "
                        f"{config.learning_rate}; lower ranker.learning_rate, or look for broken images or features"
                    )
                adam.zero_grad()
                # Processes take the mean of their gradients, and this is the sum over the step's pairs by their number.
                fabric.backward(loss if share.processes == 1 else loss * (share.part * share.processes))
                adam.step()
                total += value * len(chosen)
                right, counted = right + met[0], counted + met[1]

            network.eval()
            held_loss, held_accuracy = objective.validate(module)
            done = Epoch(
                epoch=epoch,
                loss=total / objective.size,
                accuracy=right / counted if counted else math.nan,
                validation_loss=held_loss,
                validation_accuracy=held_accuracy,
            )
            if objective.held is not None and not math.isfinite(held_loss):
                raise RankerError(
                    f"the validation loss became {held_loss} in epoch {epoch}, at learning rate "
                    f"{config.learning_rate}; lower ranker.learning_rate, or look for broken images or features"
                )
            done = processes.told(done)  # one of them decides when to stop, lest a last bit part them
            state.history.append(done)
            watched = done.loss if objective.held is None else done.validation_loss
            if watched < state.best_loss:
                state.best, state.best_epoch, state.best_loss = copied(network), epoch, watched
            state.finished = epoch - state.best_epoch >= config.patience or epoch + 1 == config.epochs
            processes.by_the_first(None if keep is None else partial(keep, state, optimizer))
    network.load_state_dict(state.best)
    network.float().eval()  # scores are computed in float32, whatever training was done in
    return state


def _over_all(share: Share, loss: float, right: float, counted: float) -> tuple[float, float, float]:
    """Mean loss and hits of the whole step, from those of every process's share."""
    if share.processes == 1:
        return loss, right, counted
    own = [loss * share.part, right * share.weight, counted * share.weight]
    value, right, counted = processes.summed(torch.tensor(own, dtype=torch.float64)).tolist()
    return value, right, counted


def _leave_buffers() -> dict[str, Any]:
    """Statistics of batch norm are the same in all processes (`shared_norm.py`): they are not sent before each step."""
    known = inspect.signature(torch.nn.parallel.DistributedDataParallel).parameters
    name = (
        "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
    )  # before torch 2.13
    return {name: False}


def _fabric(config: NetworkConfig) -> Any:
    from lightning_fabric import Fabric  # takes seconds to import
    from lightning_fabric.strategies import DDPStrategy

    accelerator, _, number = config.device.partition(":")
    together = processes.size() > 1
    if together and number:
        raise ProcessError(
            f"ranker.device is {config.device!r}, and {processes.size()} processes take a device each; set it to {accelerator!r} or 'auto'"
        )
    try:
        if together:
            local = int(os.environ["LOCAL_WORLD_SIZE"])
            fabric = Fabric(
                accelerator=accelerator,
                devices=local,
                num_nodes=processes.size() // local,
                strategy=DDPStrategy(**_leave_buffers()),
                precision=config.precision,
            )
        else:
            devices = [int(number)] if number else 1
            fabric = Fabric(accelerator=accelerator, devices=devices, precision=config.precision)
    except Exception as error:  # Fabric checks names and hardware with errors of many kinds
        said = f"device {config.device!r} with precision {config.precision!r} does not work here: {error}; "
        if together:
            raise ProcessError(
                f"{said}start no more processes than there are GPUs, or set ranker.device to cpu"
            ) from None
        raise RankerError(f"{said}set ranker.device to auto or cpu and ranker.precision to 32-true") from None
    fabric.launch()
    return fabric
