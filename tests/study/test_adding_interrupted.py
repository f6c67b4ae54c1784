"""Adding images, killed in the middle or done by several at once: nothing is lost, nothing is there twice."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import steelyard as sy
from steelyard.study import Study
from tests.study.growing import N, answer, draw, sound

ADD = """
import os, signal, sys
from steelyard.images.catalog import Catalog
from steelyard.store.images import Images
from steelyard.study import Study

def dies(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

moment = sys.argv[3]
if moment == "before the store":
    Images.append = dies
elif moment == "before the catalog":
    Catalog.save = dies
elif moment == "in the catalog":
    import pyarrow as pa
    pa.ipc.RecordBatchFileWriter.write_table = dies
with Study.open(sys.argv[1]) as study:
    study.add(sys.argv[2])
"""


@pytest.mark.parametrize("moment", ["before the store", "before the catalog", "in the catalog"])
def test_killed_in_the_middle_it_opens_and_is_completed(
    make_growing: Callable[..., Study], later: Path, moment: str, store_url: str
) -> None:
    study = make_growing(store=store_url)
    answer(study, 4)
    done = subprocess.run([sys.executable, "-c", ADD, str(study.folder), str(later), moment], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(sy.Catalog.open(study.folder / "catalog.arrow")) == N
    there = len(study.store.images.all())
    assert there == (N if moment == "before the store" else N + 3)
    answer(study, 2)  # a process that was running goes on
    assert sound(study)
    with Study.open(study.folder) as again:
        assert len(again.catalog) == there  # opening completes what the store knows
        draw(later / "i13.png", 13)
        assert again.add(later).total == N + 4
        assert [image.id for image in again.store.images.all()] == again.catalog.ids.tolist()
        assert again.store.answers.count() == 6
        assert again.catalog.verify() == ()
        assert sound(again)


def test_several_add_and_answer_at_once(
    make_growing: Callable[..., Study], tmp_path: Path, store_url: str
) -> None:
    study = make_growing(store=store_url)
    for part in range(3):
        for k in range(4):
            draw(tmp_path / f"part{part}" / f"{k}.png", 20 + 4 * part + k)
        shutil.copy(tmp_path / "part0" / "0.png", tmp_path / f"part{part}" / "same.png")
    command = [sys.executable, "-m", "steelyard.cli", "add", str(study.folder)]
    running = [
        subprocess.Popen([*command, str(tmp_path / f"part{part}")], stdout=subprocess.DEVNULL)
        for part in range(3)
    ]
    given = 0
    while any(one.poll() is None for one in running):
        given += answer(study, 1)
    assert [one.wait() for one in running] == [0, 0, 0]
    with Study.open(study.folder) as after:
        assert len(after.catalog) == N + 12
        assert [image.id for image in after.store.images.all()] == after.catalog.ids.tolist()
        assert after.store.answers.count() == given
        assert after.catalog.verify() == ()
        assert sound(after)
