"""Being recognised: what was looked up is remembered only as long as it is true."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from starlette.responses import Response

from steelyard.study import Study
from steelyard.web.access import Access
from steelyard.web.auth import Accounts, Principal, digest


def test_who_signs_out_while_a_request_is_under_way_stays_out(study: Study) -> None:
    """The request looked the session up before it ended, and says so after: that must not be remembered."""
    accounts = Accounts(study.store, Access(login=True))
    study.store.people.add("late")
    secret = digest("secret of a session")
    study.store.people.sessions.add(secret, "late", "token", expires=4e9)
    found, go = threading.Event(), threading.Event()

    def slowly(key: str) -> Principal | None:
        principal = accounts._by_session(key)
        found.set()
        go.wait(60)
        return principal

    async def both() -> Principal | None:
        request = asyncio.create_task(accounts._lookup(f"session:{secret}", slowly))
        await asyncio.to_thread(found.wait, 60)
        accounts.end_session(Principal("late", "annotator", "session", "token", secret), Response())
        go.set()
        assert (await request) is not None
        return await accounts._lookup(f"session:{secret}", accounts._by_session)

    # In a thread of its own: a browser of another test may have a loop running in this one.
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: asyncio.run(both())).result() is None
