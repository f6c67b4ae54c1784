"""People at the API, who send everything with an id of their own and again until it is acknowledged, as the page does."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.chaos.api import Api, Away, Reply
from tests.chaos.journal import Journal

__all__ = ["Answerer", "Curator", "Person"]

WORDS = ("left", "right", "equal", "cannot judge")


class Person(threading.Thread):
    """Somebody who works until told to stop.

    Attributes:
        acknowledged: how much was acknowledged to them.
        failed: how many attempts brought no reply or one that asks to try again.
        statuses: how often each status came that is not an acknowledgement.
        refused: what was refused for good (4xx) although it was in order.
    """

    def __init__(self, name: str, port: int, token: str, folder: Path, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self.api = Api(port, token)
        self.journal = Journal(folder / f"{name}.jsonl")
        self.random = random.Random(seed)
        self.acknowledged = 0
        self.failed = 0
        self.statuses: Counter[int] = Counter()
        self.refused: list[str] = []
        self.problem: BaseException | None = None
        self.halt = threading.Event()

    def run(self) -> None:
        """Work; what goes wrong here is a fault of the harness and must not pass for quiet."""
        try:
            while not self.halt.is_set():
                self.step()
        except BaseException as error:
            self.problem = error
            raise
        finally:
            self.api.close()
            self.journal.close()

    def step(self) -> None:
        """Do one thing."""
        raise NotImplementedError

    def deliver(self, send: Callable[[], Reply], **what: Any) -> Reply | None:
        """Send something until it is acknowledged, noting intention and outcome; None where it was refused."""
        self.journal.write("send", **what)
        pause = 0.05
        while True:
            reply = self.attempt(send)
            if reply is not None and reply.status < 300:
                body = reply.body or {}
                self.journal.write("ack", **what, seq=body.get("seq"), created=body.get("created"))
                self.acknowledged += 1
                return reply
            if reply is not None and not reply.passing:
                self.journal.write("refused", **what, status=reply.status, detail=str(reply.body)[:300])
                self.refused.append(f"{reply.status} {str(reply.body)[:200]}")
                return None
            # Only at the very end of a run, when everything was mended, does nobody wait any longer.
            if self.halt.wait(pause) and pause > 15:
                self.journal.write("given up", **what)
                return None
            pause = min(pause * 1.6, 16 if self.halt.is_set() else 1.0)

    def attempt(self, send: Callable[[], Reply]) -> Reply | None:
        """One try; None where nothing came back."""
        try:
            reply = send()
        except Away:
            self.failed += 1
            return None
        if reply.status >= 300:
            self.statuses[reply.status] += 1
        if reply.passing:
            self.failed += 1
        return reply


class Answerer(Person):
    """Answers pairs; now and then takes an answer back, corrects one, or excludes an image with one.

    Args:
        spared: images that are not excluded here.
    """

    HOLD = 12
    KEPT = 40

    def __init__(self, *args: Any, spared: frozenset[str] = frozenset(), pace: float = 0.0) -> None:
        super().__init__(*args)
        self._spared, self._pace = spared, pace
        self._held: deque[dict[str, Any]] = deque()
        self._given: deque[dict[str, Any]] = deque(maxlen=self.KEPT)
        self._exclusions = 4

    def step(self) -> None:
        if self._pace:
            self.halt.wait(self.random.expovariate(1 / self._pace))
        if not self._held and not self._take():
            return
        chance = self.random.random()
        if chance < 0.03 and self._given:
            self._undo()
        elif chance < 0.05 and self._given:
            self._correct()
        else:
            self._answer(exclude=chance > 0.995)

    def _take(self) -> bool:
        reply = self.attempt(lambda: self.api.lease(self.HOLD))
        if reply is None or reply.status != 200 or not reply.body["pairs"]:
            if reply is not None and not reply.passing and reply.status != 200:
                self.refused.append(f"lease: {reply.status} {str(reply.body)[:200]}")
            self.halt.wait(0.1)
            return False
        self._held.extend(reply.body["pairs"])
        return True

    def _answer(self, *, exclude: bool) -> None:
        body = self._judgement(self._held.popleft())
        may = [image for image in (body["left"], body["right"]) if image not in self._spared]
        if exclude and may and self._exclusions:
            self._exclusions -= 1
            body |= {"answer": "cannot judge", "exclude": [self.random.choice(may)], "note": "chaos"}
        self._send(body)

    def _correct(self) -> None:
        """Say something else about a pair already answered."""
        earlier = self._given.pop()
        self._send(self._judgement(earlier) | {"supersedes": earlier["answer id"]})

    def _send(self, body: dict[str, Any]) -> None:
        if self.deliver(lambda: self.api.answer(body), kind="answer", **body) is not None:
            pair = {"id": body["pair"], "left": body["left"], "right": body["right"], "answer id": body["id"]}
            self._given.append(pair)

    def _undo(self) -> None:
        """Take the latest answer back; the pair is ours again."""
        earlier = self._given.pop()
        id, of = str(uuid.uuid4()), earlier["answer id"]
        if self.deliver(lambda: self.api.undo(of, id), kind="undo", id=id, of=of) is not None:
            self._held.append(earlier)

    def _judgement(self, pair: dict[str, Any]) -> dict[str, Any]:
        now = time.time()
        return {
            "id": str(uuid.uuid4()),
            "pair": pair["id"],
            "left": pair["left"],
            "right": pair["right"],
            "answer": self.random.choice(WORDS[:3]),
            "shown_at": now - 2,
            "answered_at": now,
        }


class Curator(Person):
    """A lead who takes images out of the study and in again."""

    def __init__(self, *args: Any, images: list[str]) -> None:
        super().__init__(*args)
        self._images = images

    def step(self) -> None:
        image, excluded, id = (
            self.random.choice(self._images),
            self.random.random() < 0.5,
            str(uuid.uuid4()),
        )
        self.deliver(
            lambda: self.api.set_excluded(image, excluded, id),
            kind="exclude",
            id=id,
            image=image,
            excluded=excluded,
        )
        self.halt.wait(self.random.uniform(0.2, 1.0))
