"""Every command in the README's tested blocks runs as it stands there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from steelyard.images.synthetic import draw, write

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DATA = Path(os.environ.get("STEELYARD_DATA") or ROOT.parent / "shared" / "data")


def block(name: str) -> list[str]:
    """The commands of the block that follows `<!-- tested: name -->`."""
    found = re.search(rf"<!-- tested: {name} -->\n```bash\n(.*?)```", README, re.DOTALL)
    assert found, f"README has no tested block '{name}'"
    return [line for line in found.group(1).splitlines() if line.strip()]


def run(lines: list[str], folder: Path, data: Path = DATA) -> list[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    outputs = []
    for line in lines:
        done = subprocess.run(
            ["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=False,
            env={**os.environ, "PATH": path, "STEELYARD_DATA": str(data)},
        )  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        outputs.append(done.stdout)
    return outputs


@pytest.mark.slow
def test_a_study_from_a_folder_of_images(tmp_path: Path) -> None:
    write(tmp_path / "images", draw(30, size=64, seed=1))
    write(tmp_path / "more-images", draw(5, size=64, seed=2))
    (tmp_path / "images" / "labels.csv").rename(tmp_path / "labels.csv")
    made, state = run(block("folder"), tmp_path)
    assert "30 images" in made
    assert "serve" in state
    grades = pd.read_csv(tmp_path / "labels.csv").set_index("image")["severity"]
    import steelyard as sy

    with sy.Study.open(tmp_path / "colon") as study:
        for pair in study.ask(20):
            rows = [study.catalog.index_of(i) for i in (pair.left, pair.right)]
            left, right = (grades[str(study.catalog.paths[row])] for row in rows)
            study.tell(pair, sy.Answer.LEFT if left > right else sy.Answer.RIGHT, annotator="kt")
    outputs = run(block("results"), tmp_path)
    assert "20 answers" in outputs[0]
    assert len(pd.read_csv(tmp_path / "scores.csv")) == 30
    assert len(pd.read_csv(tmp_path / "new.csv")) == 5
    told = "".join(outputs)
    assert "5 images added; the study has 35" in told
    assert "0 answers added, 20 were already there" in told
    for column in pd.read_csv(tmp_path / "scores.csv").columns:
        assert re.search(rf"^\| [^|]*`{column}`[^|]* \|", README, re.MULTILINE), (
            f"README does not explain {column}"
        )
    assert "<html" in (tmp_path / "colon.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_paper_s_three_steps(tmp_path: Path) -> None:
    """On every sixteenth image of HyperKvasir, or on drawn ones where it is not there: on all they take minutes."""
    lines = [line.replace("-n 170", "-n 40").replace("-n 43", "-n 12") for line in block("steps")]
    source, own = DATA / "hyperkvasir_uc", tmp_path / "hyperkvasir_uc"
    if not source.is_dir():
        write(own, draw(54, size=64, seed=3))
        lines[0] = "steelyard init uc --images hyperkvasir_uc --labels hyperkvasir_uc/labels.csv"
    for path in sorted(source.glob("*/*.jpg"))[::16]:
        target = own / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    outputs = run(lines, tmp_path, data=tmp_path)
    assert "54 images in" in outputs[0]
    table = pd.read_csv(tmp_path / "grades.csv", dtype=str)
    assert len(table) == 54
    if source.is_dir():
        assert set(table["grade"]) <= {"0-1", "1", "1-2", "2", "2-3", "3"}
        assert (table["grade"] == table["known"]).mean() > 0.4, "well above the sixth that guessing gives"


def test_the_python_example_is_valid() -> None:
    found = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert found
    compile(found.group(1), "README.md", "exec")


def test_words_of_the_trade_are_explained_where_they_stand() -> None:
    """Whoever compares images knows none of these."""
    text = README.partition("## Inside")[0]
    for word, explained in {
        "EPIG": "teaches most about the whole order",
        "convex head": "Bayesian logistic regression",
        "ubs` is": "uncertainty-based sampling",
        "choix": "a Python package",
        "*features*": "describes each image once",
    }.items():
        assert explained in text[max(0, text.index(word) - 200) : text.index(word) + 200], word
    for word in ("reserved", "posterior"):
        assert word not in text, word


def test_links_between_pages_lead_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.relative_to(ROOT)} links to {link}"
