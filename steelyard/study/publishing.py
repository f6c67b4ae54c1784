"""From a folder that somebody trains in to a model that everybody uses; and away with what killed trainers leave.

    models/.training-<what is learnt>-<whose>/    a fit under way, or what is left of one
    models/round-003-5f0c12ab/                    a model; its name is never used again
    models/round-003/                             a model of 0.1

A folder is renamed and announced by whoever holds the trainer's lease, and the lease is checked first. Leftovers are removed
under the lease too, and only what was there before the lease was checked: whoever takes over later makes new names.
"""

from __future__ import annotations

import re
import secrets
import shutil
from dataclasses import replace
from pathlib import Path

from steelyard.files import sync_folder, sync_tree
from steelyard.store.errors import ConflictError
from steelyard.store.records import NewModel
from steelyard.store.store import Store
from steelyard.study.lease import LeaseLost, TrainerLease
from steelyard.study.sharing import Sharing

__all__ = ["publish", "sweep", "working_folder"]

_LEFTOVER = re.compile(r"\.training-.+|round-\d+(-[0-9a-f]{8})?(\.new)?")  # .new: 0.1 trained in these


def working_folder(study: Path, fingerprint: str) -> Path:
    """A folder to train in: with the checkpoint of a fit of the very same answers that was killed, or new.

    Args:
        study: its folder.
        fingerprint: of what is learnt, so that nothing else is taken up.
    """
    mine = study / "models" / f".training-{fingerprint}-{secrets.token_hex(4)}"
    for left in sorted(mine.parent.glob(f".training-{fingerprint}-*")):
        try:
            # Under a name of our own: should its maker still live, it goes on elsewhere.
            left.rename(mine)
        except OSError:
            continue
        return mine
    mine.mkdir(parents=True)
    return mine


def publish(
    study: Path, working: Path, model: NewModel, store: Store, lease: TrainerLease, sharing: Sharing
) -> tuple[Path, int]:
    """Give a trained model its name and announce it.

    Args:
        study: its folder.
        working: what is to become the model.
        model: what to announce; its path is filled in.
        store: of the study.
        lease: the lease it was trained under.
        sharing: puts it up for other machines first: what is announced can be fetched.

    Returns:
        Its folder and its number, by which people know it.

    Raises:
        LeaseLost: somebody else trains now; nothing was announced, no other model was touched.
    """
    folder = study / "models" / f"round-{model.round:03d}-{secrets.token_hex(4)}"
    sync_tree(working)  # a model that is announced is on disk
    lease.check()
    if sharing.shelf is not None:
        sharing.put_up(working, folder.relative_to(study).as_posix())
        lease.check()  # that may have taken a while
    working.rename(folder)
    sync_folder(folder.parent)
    try:
        number = store.models.add(
            replace(model, path=folder.relative_to(study).as_posix()), trainer=lease.owner
        )
    except ConflictError:  # lost in this very moment; nobody knows this folder but us
        shutil.rmtree(folder, ignore_errors=True)
        raise LeaseLost from None
    return folder, number


def sweep(study: Path, keep: Path, store: Store, lease: TrainerLease) -> None:
    """Remove what trainers that were killed have left: folders half-way, and models that were never announced.

    Args:
        study: its folder.
        keep: where we train ourselves.
        store: of the study.
        lease: ours.

    Raises:
        LeaseLost: somebody else trains now; nothing was removed.
    """
    # Listed before the lease is checked: what another trainer makes after taking the lease from us is not in the list.
    there = [p for p in (study / "models").iterdir() if _LEFTOVER.fullmatch(p.name) and p.is_dir()]
    known = {keep, *(study / model.path for model in store.models.all())}
    if left := [folder for folder in there if folder not in known]:
        lease.check()
        for folder in left:
            shutil.rmtree(folder, ignore_errors=True)
