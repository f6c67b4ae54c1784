"""What must not reach an annotator, and how it would be noticed."""

from __future__ import annotations

import uuid
from typing import Any

from starlette.routing import Mount, Route

FAR = 4_200_000.0  # added to every score here, so that a score cannot be taken for any other number


def new() -> str:
    return str(uuid.uuid4())


SIZES = ("thumb", "view", "full")


def routes(app: Any, prefix: str = "") -> list[tuple[str, str]]:
    """Every method and path that the app answers; static files are the same for everybody."""
    found = []
    for route in app.routes:
        if isinstance(route, Mount):
            assert route.name == "static", f"{route.path}: say here what is below it"
        elif (inner := getattr(route, "original_router", None)) is not None:  # FastAPI keeps routers whole
            found += routes(inner, prefix + route.include_context.prefix)
        else:
            assert isinstance(route, Route), route
            found += [(method, prefix + route.path) for method in sorted((route.methods or set()) - {"HEAD"})]
    return found
