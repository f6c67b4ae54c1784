"""What every route works with: the study and the few things that live as long as the server."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from anyio import CapacityLimiter
from fastapi import Depends, Request

from steelyard.config import StudyConfig
from steelyard.config.grades import GradeList
from steelyard.errors import ConfigError
from steelyard.store.records import Role, Scope
from steelyard.study import Study
from steelyard.study.asked import check_asked
from steelyard.study.wording import check_grades, show_wording
from steelyard.web.access import Access
from steelyard.web.addresses import in_links
from steelyard.web.asker import Asker
from steelyard.web.auth import Accounts, Principal
from steelyard.web.chooser import Chooser
from steelyard.web.courier import Courier
from steelyard.web.disputes import Disputes
from steelyard.web.examples import Examples
from steelyard.web.gone import Gone
from steelyard.web.guests import Guests
from steelyard.web.handing import Handing
from steelyard.web.ids import ImageIds
from steelyard.web.keeper import Keeper
from steelyard.web.pair_numbers import PairNumbers
from steelyard.web.pictures import Pictures
from steelyard.web.placer import Placer
from steelyard.web.problems import Problem
from steelyard.web.ranking import Rankings
from steelyard.web.scribe import Scribe
from steelyard.web.sight import Sight
from steelyard.web.trainer_words import waiting_for
from steelyard.web.training import Training

__all__ = ["START", "Admin", "Anyone", "Lead", "Owner", "Web", "WebOf", "maybe", "nobody"]


NOTE_SECONDS = 2.0
START = "/s"
"""From within a study: the start page of several. Below it are the studies."""


log = logging.getLogger("steelyard.web")


class Web:
    """The study and what lives as long as the server.

    Args:
        study: what is served.
        access: how people get in.
        apart: whether pairs are chosen in a process of their own.
        base: see below.
        home: of the study where people live, if that is another one.

    Attributes:
        listening: the address at which others of the network reach the server, for links; empty where it is not known.
        base: what stands before the path of every page where several studies are served, as `/s/colon`; empty for one.
        home: of the study where people live; None where they live in this one.
        guests: bases of the studies whose people live in this one.
    """

    listening: str = ""
    base: str = ""

    def __init__(
        self, study: Study, *, access: Access, apart: bool = False, base: str = "", home: Web | None = None
    ) -> None:
        self.study, self.base, self.home = study, base, home
        self.store = study.store
        self.guests: list[str] = []
        if home is None:
            self.accounts = Accounts(study.store, access)
        else:
            self.accounts = Guests(study.store, access, home.accounts, home.study.config.name)
            home.guests.append(base)
        self.chooser = Chooser(study.folder) if apart else None
        # One of many studies has a process that chooses only while somebody works on it.
        rest = self.chooser.stop if self.chooser and base else None
        self.asker = Asker(study, self.chooser.draft if self.chooser else None, rest=rest)
        self.rankings = Rankings(study)
        self.pictures = Pictures(study, study.folder / "cache" / "thumbnails")
        self.placer = Placer(study.folder)
        # Also of what browsers keep: two studies on one address must not share it.
        self.id = self.accounts.study
        self.ids = ImageIds(study)
        self.examples = Examples(study)
        self.gone = Gone(study.store)
        self.disputes = Disputes(study)
        self.handing = Handing(study)
        self.numbers = PairNumbers(study)
        self.training = Training(study, self.handing, self.numbers)
        self.sight = Sight(study.store, lambda: self.examples.rows() | self.training.example_rows())
        self.drawing = CapacityLimiter(4)
        # An uploaded picture may cost hundreds of megabytes while it is unpacked.
        self.placing = CapacityLimiter(1)
        self.being_placed = 0
        self.changing = threading.Lock()  # one change of the configuration or backup at a time
        self.scribe = Scribe(study.store)
        self.keeper = Keeper(study.store)
        self.courier = Courier(study)
        self.kept: dict[str, Any] = {}
        self._aspect: float | None = None
        self._note = ("", -NOTE_SECONDS)
        self._wording: tuple[StudyConfig | None, GradeList | None, str] = (None, None, "")
        show_wording(study, "server")

    def link(self, request: Request, path: str) -> str:
        """A whole address for somebody else, of a page that whoever asks sees under their own."""
        return in_links(request, self.accounts.access.public, self.listening) + self.base + path

    @property
    def aspect(self) -> float:
        """Width ÷ height of a typical image."""
        if self._aspect is None:
            self._aspect = self.rankings.aspect()
        return self._aspect

    def note(self) -> str:
        """What everybody waits for, in words; looked up once in a while, because every request for pairs wants it."""
        said, at = self._note
        if time.monotonic() - at > NOTE_SECONDS:
            store = self.store
            said = waiting_for(store.models.trainer.state(), model=store.models.newest() is not None)
            self._note = said, time.monotonic()
        return said

    @property
    def wording(self) -> str:
        """A name for what the study says and asks now, so that a page that says something else notices."""
        config = self.study.config
        if self._wording[0] is not config or self._wording[1] != self.study.grade_list:
            said = json.dumps(
                [
                    config.page.question,
                    config.page.words.to_dict(),
                    config.page.reasons,
                    self.study.grade_list.texts,
                    *([one.key, one.question, one.words.to_dict()] for one in config.questions),
                    *filter(
                        None, [config.people.instructions, config.people.examples, config.people.consent]
                    ),
                ]
            )
            name = hashlib.blake2b(said.encode(), digest_size=6).hexdigest()
            self._wording = (config, self.study.grade_list, name)
        return self._wording[2]

    def row(self, id: str) -> int:
        """The catalog row of an image of this study, by its public id.

        Raises:
            Problem: 404.
        """
        row = self.ids.row(id)
        if row is None:
            raise Problem(404, "There is no such image in this study.")
        return row

    def content(self, id: str) -> str:
        """The content id of an image, as the store and exports know it; errors as in `row`."""
        return self.ids.content(self.row(id))

    def judged(self, id: str) -> tuple[str, bool]:
        """The content id of an image that a judgement names, and whether it named it by the content as 0.1 did.

        Raises:
            Problem: 404.
        """
        row = self.ids.row(id)
        if row is None and self.ids.earlier(id) is not None:
            return id, True
        return self.content(id), False

    def images_changed(self) -> None:
        """Images were taken out or put back."""
        self.gone.changed()
        self.asker.changed()

    def reread(self) -> None:
        """Take up what somebody wrote into `study.toml` meanwhile: what is saved afterwards must not undo it.

        Raises:
            StudyError: its list of grades or its questions would give grades or answers another meaning.
            Problem: 409, it cannot be read; saving would write over what somebody is changing there.
        """
        try:
            found = StudyConfig.load(self.study.folder / "study.toml", any_strategy=True)
        except ConfigError as error:
            log.error("%s", error)
            raise Problem(
                409, "The file study.toml on the server cannot be read; mend it before you save something else.",
                code="configuration",
            ) from None  # fmt: skip
        if found != self.study.config:
            check_grades(self.store, found, self.study.catalog, "study.toml")
            check_asked(self.store, found, "study.toml")
            self.study.config = found
            show_wording(self.study, "server")
            self.asker.changed()

    def configure(self, config: StudyConfig, *, by: str) -> None:
        """Write another configuration and use it from now on."""
        config.save(self.study.folder / "study.toml")
        self.study.config = config
        show_wording(self.study, by)
        self.asker.changed()


def web_of(request: Request) -> Web:
    """The server's `Web`."""
    web: Web = request.app.state.web
    return web


async def _web(request: Request) -> Web:
    return web_of(request)  # FastAPI sends a plain function to a thread, and every request would wait for it


async def maybe(request: Request) -> Principal | None:
    """Who asks, or None; looked up once a request."""
    known = request.scope.setdefault("state", {})
    if "principal" not in known:
        known["principal"] = await web_of(request).accounts.recognise(request)
    principal: Principal | None = known["principal"]
    return principal


def nobody(request: Request) -> Problem:
    """What to tell somebody who is not known."""
    text = "Sign in first." if web_of(request).accounts.login else OPEN_THE_LINK
    return Problem(401, text, code="login", headers={"WWW-Authenticate": "Bearer"})


def _at_least(role: Role, *, changing: Scope = "full") -> Callable[[Request], Awaitable[Principal]]:
    """Somebody with at least this role and, where a token asks, its scope: `read` to read, `changing` to change."""

    async def check(request: Request) -> Principal:
        principal = await maybe(request)
        if principal is None:
            raise nobody(request)
        needed: Scope = "read" if request.method in ("GET", "HEAD") else changing
        if not principal.reaches(needed):
            raise Problem(
                403,
                f"This needs a token with the scope “{needed}”; this one has “{principal.scope}”.",
                code="scope",
            )
        if not principal.may(role):
            raise Problem(403, f"This needs the role “{role}”; yours is “{principal.role}”.", code="role")
        return principal

    return check


OPEN_THE_LINK = "Open the link that the server printed in its terminal; it carries the key of this start."
WebOf = Annotated[Web, Depends(_web)]
Anyone = Annotated[Principal, Depends(_at_least("annotator", changing="answer"))]
Owner = Annotated[Principal, Depends(_at_least("annotator"))]
Lead = Annotated[Principal, Depends(_at_least("lead"))]
Admin = Annotated[Principal, Depends(_at_least("admin"))]
