"""The paper's experiment in miniature: the documented commands, from LIMUC's folders and Keras' weights to the report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from steelyard.ranker.backbones import build
from steelyard.ranker.densenet_weights import keras_key

METHODS = "baseline,all,random,ubs,coreset,conventional"
COMMAND = (
    "steelyard experiment --images LIMUC --layout limuc --preset paper "
    f"--methods {METHODS} --seeds 1 --jobs 1 --classify --out runs/limuc"
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders as LIMUC has them, 7 patients with every grade, and a file of weights as Keras names them."""
    folder = tmp_path_factory.mktemp("limuc")
    rng = np.random.default_rng(0)
    for patient in range(1, 8):
        for grade in range(4):
            inside = folder / "LIMUC" / "patient_based_classified_images" / str(patient) / f"Mayo {grade}"
            inside.mkdir(parents=True)
            pixels = rng.integers(0, 60, (36, 36, 3)) + np.array([40 + 45 * grade, 60, 60])
            Image.fromarray(pixels.astype(np.uint8)).save(inside / f"UC_patient_{patient}_{grade}.bmp")
    torch.manual_seed(0)
    own = build("densenet169", weights="none")[0].state_dict()
    (folder / "weights").mkdir()
    np.savez(
        folder / "weights" / "densenet169_weights_tf_dim_ordering_tf_kernels_notop.npz",
        **{
            f"{keras_key(name)}:0": (value.permute(2, 3, 1, 0) if value.dim() == 4 else value).numpy()
            for name, value in own.items()
            if not name.endswith("num_batches_tracked")
        },
    )
    return folder


def steelyard(place: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", "from steelyard.cli import main; main()", *words],
        cwd=place, check=False, capture_output=True, text=True, timeout=400,
        env={**os.environ, "STEELYARD_WEIGHTS": str(place / "weights"), "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_documented_commands_repeat_the_paper_in_miniature(place: Path) -> None:
    docs = Path(__file__).parents[2] / "docs"
    assert COMMAND in (docs / "experiment.md").read_text(encoding="utf-8")
    assert COMMAND in (docs / "paper.md").read_text(encoding="utf-8")
    assert "densenet169_weights_tf" in steelyard(place, "doctor")
    # The command as it is documented, made small: one fold of three, two rounds, one epoch, two draws, 32 pixels.
    small = "--folds 3 --only-folds 0 --rounds 1 --r 40 --s 20 --draws 2 --test-pairs 20 --no-near-duplicates"
    ranker = "--ranker image_size=32 --ranker epochs=1 --ranker batch_size=8"
    words = [*COMMAND.split()[1:], *small.split(), *ranker.split()]
    told = json.loads(steelyard(place, *words, "--json"))
    assert set(told["last_round"]) == set(METHODS.split(","))
    run = place / "runs" / "limuc"
    about = json.loads((run / "experiment.json").read_text(encoding="utf-8"))
    assert about["data"]["groups"] == 7
    assert about["data"]["per_grade"] == [7, 7, 7, 7]
    assert (about["fixed"]["units"], about["data"]["inputs"]) == ("element", [32, 32, 3])
    results = pd.read_csv(run / "results.csv")
    rounds = results.groupby("method")["round"].max().to_dict()
    assert rounds == {"baseline": 1, "random": 1, "ubs": 1, "coreset": 1, "all": 0, "conventional": 0}
    assert results["overall"].between(0, 1).all()
    assert (pd.read_parquet(run / "scores.parquet").query("method == 'ubs'")["variance"] > 0).all()
    assert set(pd.read_csv(run / "classification.csv")["method"]) == set(METHODS.split(","))
    # Called again it has nothing left to do, and reports.
    steelyard(place, *words, "--resume")
    written = json.loads(steelyard(place, "report", "runs/limuc", "-o", "limuc.html", "--json"))
    files = {Path(file).name for file in written["files"]}
    figures = ("accuracy_labels", "scores_grades", "grades_asked", "uncertainty_grades", "map")
    assert {f"{name}.svg" for name in figures} <= files  # Figures 4 to 8
    assert {"accuracy.csv", "cost.csv", "classification.csv"} <= files  # Tables 1 to 3
    text = (place / "limuc.html").read_text(encoding="utf-8")
    assert "UBS (proposed)" in text
    assert "as the paper counts" in text
