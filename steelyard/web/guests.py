"""People who live in another study of the same server: they sign in there, and are here whom this study says they are.

`steelyard serve colon skin --people colon` makes `colon` the home. A session of the home is a *name* in `skin`, and worth
something there only if `skin` has that name among its people, with the role it has in `skin`. Secrets of `skin` itself
(passwords, links, sessions) are not looked at: whoever administers it can make nobody of the home or of a third study.
What was looked up is remembered by the study it is about, so that each forgets by itself what it changes.
"""

from __future__ import annotations

from typing import NoReturn

from fastapi import Request, Response

from steelyard.store.records import Annotator
from steelyard.store.store import Store
from steelyard.study import Study
from steelyard.web.access import Access
from steelyard.web.auth import LOCAL_NAME, Accounts, Principal
from steelyard.web.problems import Problem

__all__ = ["Guests", "settle"]


class Guests(Accounts):
    """Being recognised where people live elsewhere.

    Args:
        store: of this study: names, roles, tokens.
        access: how people get in.
        home: the accounts of the study where people live.
        title: what that study is called.
    """

    def __init__(self, store: Store, access: Access, home: Accounts, title: str) -> None:
        super().__init__(store, access)
        self.home, self.title = home, title
        self.cookie = home.cookie

    async def _from_session(self, request: Request) -> Principal | None:
        at_home = await self.home._from_session(request)
        if at_home is None:
            return None
        found = await self._lookup("name:" + at_home.name, self._by_name)
        if found is None:
            raise Problem(
                403, "You are signed in, but nobody added you to this study; ask its admin.", code="unknown"
            )
        return Principal(found.name, found.role, "session", at_home.csrf, at_home.session)

    async def lets_in(self, name: str) -> bool:
        """Tokens are this study's own, but whoever is closed out at home is closed out here."""
        return await self.home._lookup("name:" + name, self.home._by_name) is not None

    def knows(self, name: str) -> bool:
        """Whether somebody of that name can sign in at home."""
        return self.home._by_name(name) is not None

    def offered(self) -> list[str]:
        """The names at home that could be added here."""
        here = {one.name for one in self.store.people.all()} | {LOCAL_NAME}
        return [one.name for one in self.home.store.people.all() if one.active and one.name not in here]

    def check_own(self) -> NoReturn:
        """Refuse what only the home may do."""
        raise Problem(
            403, f"People of this study sign in at “{self.title}”: passwords, links and sessions are made and ended there.",
            code="home",
        )  # fmt: skip

    def by_password(self, request: Request, name: str, password: str) -> Annotator:
        """Whoever signs a study is asked for the password they have at home."""
        return self.home.by_password(request, name, password)

    def start_session(self, annotator: Annotator, request: Request, response: Response) -> NoReturn:
        """Nobody signs in here."""
        self.check_own()

    def end_session(self, principal: Principal, response: Response) -> None:
        """Sign out at home, and so everywhere."""
        self.home.end_session(principal, response)
        self.forget()


def _hand_over(study: Study, home: Study) -> list[str]:
    """Where no admin of a study can sign in at home: make the home's admins its admins; gives their names.

    Done at the start of a server only, by whoever runs it: nobody becomes admin by opening a page. It gives the home's
    admins nothing they could not take, for they make passwords for every name of the home.
    """
    admins = [one.name for one in home.store.people.all() if one.active and one.role == "admin"]
    living = {one.name for one in home.store.people.all() if one.active}
    here = {one.name: one for one in study.store.people.all()}
    if any(one.active and one.role == "admin" and one.name in living for one in here.values()):
        return []
    # Somebody who works here blind stays blind as long as another can do it.
    chosen = [name for name in admins if name not in here] or admins
    for name in chosen:
        if name not in here:
            study.store.people.add(name, role="admin")
        study.store.people.update(name, role="admin", active=True)
        study.store.audit.add("server", "admin taken from where people live", {"name": name})
    return chosen


def settle(study: Study, home: Study) -> list[str]:
    """At the start of a server: see that a study whose people live at home has an admin; gives lines for the terminal."""
    said = [
        f"{study.config.name}: {name}, admin of {home.config.name}, is its admin now, for it had none who can sign in."
        for name in _hand_over(study, home)
    ]
    living = {one.name for one in home.store.people.all()}
    both = [
        one.name
        for one in study.store.people.all()
        if one.name in living and (one.password_hash or one.link_hash or one.subject)
    ]
    if both:
        said.append(
            f"Warning: {', '.join(both)} had an account of their own in {study.config.name}; whoever has that name in "
            f"{home.config.name} is now taken for them. Deactivate in {study.config.name} whoever is somebody else."
        )
    return said
