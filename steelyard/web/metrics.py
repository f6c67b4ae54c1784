"""Numbers for Prometheus: how many requests, how long they took, how the study stands. No names, no pictures."""

from __future__ import annotations

import time

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from steelyard.errors import SteelyardError
from steelyard.store.store import Store

__all__ = ["MEDIA_TYPE", "Metrics"]

MEDIA_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_METHODS = frozenset({"GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"})


class Metrics:
    """Counted as requests are answered, looked up in the store when somebody asks."""

    def __init__(self) -> None:
        kept = self._all = CollectorRegistry()  # its own: two apps in one process must not count together
        self._requests = Counter(
            "steelyard_requests", "Requests answered.", ["route", "method", "status"], registry=kept
        )
        self._errors = Counter("steelyard_server_errors", "Requests answered with 5xx.", registry=kept)
        self._seconds = Histogram(
            "steelyard_request_seconds", "Time to answer.", ["route"], buckets=_SECONDS, registry=kept
        )
        self._up = Gauge("steelyard_store_up", "1 while the database answers.", registry=kept)
        self._answers = Gauge("steelyard_answers", "Answers that count.", registry=kept)
        self._open = Gauge("steelyard_open_pairs", "Pairs that are up for answering.", registry=kept)
        self._training = Gauge(
            "steelyard_trainer_busy", "1 while somebody holds the trainer's lease.", registry=kept
        )
        self._beat = Gauge(
            "steelyard_trainer_lease_age_seconds",
            "Since the last sign of life of whoever holds the lease.",
            registry=kept,
        )
        self._behind = Gauge(
            "steelyard_answers_since_model",
            "Rows of the log that the newest model has not seen.",
            registry=kept,
        )

    def observe(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one request."""
        # Anybody may send any method; each would be a series of its own forever.
        self._requests.labels(route, method if method in _METHODS else "other", str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        if status >= 500:
            self._errors.inc()

    def text(self, store: Store) -> bytes:
        """Everything in Prometheus' text format; what the store knows is left as it was while the store is away."""
        try:
            self._look(store)
        except SteelyardError:
            self._up.set(0)
        return generate_latest(self._all)

    def _look(self, store: Store) -> None:
        state, newest = store.models.trainer.state(), store.models.newest()
        self._answers.set(store.answers.count())
        self._open.set(store.pairs.open_count())
        self._behind.set(store.answers.last_seq() - (newest.comparisons_seq if newest else 0))
        self._training.set(0 if state.owner is None else 1)
        self._beat.set(0 if state.owner is None else max(0.0, time.time() - state.heartbeat))
        self._up.set(1)
