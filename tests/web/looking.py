"""What the tests of several pages look at."""

from __future__ import annotations

from typing import Any

from tests.web.actors import Window

SIZES = {"desktop": (1440, 900), "tablet": (1024, 1366), "phone": (390, 844)}


def settle(user: Window, name: str) -> None:
    """Wait until a page shows what it is about."""
    page = user.page
    if name == "compare":
        user.pair()
    elif name == "grade":
        page.wait_for_function(
            "() => document.querySelector('.stage img.now')?.naturalWidth"
            " && document.querySelector('.frames').ariaBusy === 'false'"
        )
    elif name == "ranking":
        page.wait_for_function(
            "() => { const n = [...document.querySelectorAll('.cell img')]; return n.length > 10 && n.every((i) => i.complete && i.naturalWidth) }"
        )
    elif name == "progress":
        page.wait_for_function(  # a chart, or words where there is too little for one
            "() => document.querySelectorAll('.picture > svg.chart, .picture > .empty').length === 4"
        )
    elif name == "agreement":
        page.wait_for_function("() => document.body.dataset.ready === 'true'")
    elif name == "admin":
        page.wait_for_selector("#people tbody tr")
        page.wait_for_function(
            "() => !document.querySelector('#audit-more').hidden || document.querySelector('#audit tbody')"
        )


def serious(page: Any) -> list[str]:
    """What axe-core finds serious or critical."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        f"{rule['id']}: {rule['help']} – {[node['html'][:160] for node in rule['nodes'][:3]]}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
    ]
