"""The tree is the architecture: imports point upwards only, and the light parts stay light."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import steelyard

PACKAGE = Path(steelyard.__file__).parent

# Top to bottom, as in docs/architecture.md. A room may import rooms above it, and itself.
ROOMS = [
    "errors", "progress", "terminal", "arrays", "options", "privacy", "files", "environment", "config", "images", "pairs", "splits", "store", "ranker", "acquire",
    "annotators", "evaluate", "loop", "trust", "study", "rescue", "exchange", "engine", "scoring", "experiment", "demo", "doctor", "report", "web", "cli",
]  # fmt: skip


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("steelyard"):
            if node.module == "steelyard":
                found |= {
                    f"steelyard.{alias.name}"
                    for alias in node.names
                    if (PACKAGE / f"{alias.name}.py").exists()
                }
            else:
                found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("steelyard.")}
    return found


FILES = sorted(
    p for p in PACKAGE.rglob("*.py") if "migrations" not in p.parts and p != PACKAGE / "__init__.py"
)


def test_every_file_is_in_a_room() -> None:
    rooms = {p.relative_to(PACKAGE).parts[0].removesuffix(".py") for p in FILES}
    assert rooms <= set(ROOMS), rooms - set(ROOMS)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_upwards(path: Path) -> None:
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    for module in imports_of(path):
        room = room_of(module)
        assert ROOMS.index(room) <= ROOMS.index(own), f"{own} may not import {room}, which stands below it"


def loaded_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        (
            "import steelyard",
            {"pydantic", "torch", "pandas", "numpy", "matplotlib", "sklearn", "sqlalchemy", "pyarrow"},
        ),
        (
            "import steelyard.cli",
            {
                "pydantic",
                "torch",
                "pandas",
                "matplotlib",
                "sklearn",
                "sqlalchemy",
                "lightning_fabric",
                "fastapi",
            },
        ),
        ("import steelyard.store.store", {"torch", "pandas"}),
        ("import steelyard.ranker.posterior, steelyard.ranker.convex", {"torch"}),
        ("import steelyard.acquire; steelyard.acquire.get_strategy('epig')", {"torch"}),
        ("import steelyard.evaluate.accuracy", {"torch"}),
        ("import steelyard.study", {"torch", "scipy", "pandas"}),
        ("import steelyard.web.app", {"torch", "scipy", "pandas"}),
    ],
)
def test_light_parts_load_nothing_heavy(statement: str, heavy: set[str]) -> None:
    assert not loaded_after(statement) & heavy


def test_the_public_names_are_what_can_be_imported() -> None:
    assert set(dir(steelyard)) == set(steelyard.__all__)
    for name in steelyard.__all__:
        assert getattr(steelyard, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        steelyard.Nothing  # noqa: B018


def test_nothing_imports_torchvision() -> None:
    for path in FILES:
        assert "import torchvision" not in path.read_text(encoding="utf-8"), path


def test_the_tree_in_the_docs_is_the_tree() -> None:
    text = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    for room in ROOMS:
        assert f"{room}.py" in text or f"{room}/" in text, f"docs/architecture.md does not mention {room}"


def test_no_file_is_over_400_lines() -> None:
    root = PACKAGE.parent
    files = [
        path
        for folder in ("steelyard", "tests", "benchmarks")
        for kind in ("*.py", "*.js", "*.css")
        for path in (root / folder).rglob(kind)
    ]
    assert len(files) > 400
    lines = {str(p.relative_to(root)): p.read_text(encoding="utf-8").count("\n") for p in files}
    assert {name: n for name, n in lines.items() if n > 400} == {}


def test_the_walk_in_the_docs_names_functions_that_exist() -> None:
    text = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    steps = re.findall(r"`([a-z_]+/[a-z_/]+\.py):([a-z_]+)`", text)
    assert len(steps) >= 10
    for path, name in steps:
        tree = ast.parse((PACKAGE / path).read_text(encoding="utf-8"))
        names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert name in names, f"{path} has no function {name}"


def test_the_tree_in_the_docs_names_every_room() -> None:
    text = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    for room in ROOMS:
        assert re.search(rf"\b{room}(/|\.py)", text), f"docs/architecture.md does not tell what {room} is"
