"""Where a study stands and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steelyard.trust.stopping import in_words

if TYPE_CHECKING:
    from steelyard.study.study import Study

__all__ = ["describe"]


def describe(study: Study) -> dict[str, Any]:
    """Facts by name, ending in `next`: what to do."""
    store, config = study.store, study.config
    models = store.models.all()
    answers = store.answers.count()
    newest = models[-1] if models else None
    new_answers = store.answers.last_seq() - (newest.comparisons_seq if newest else 0)
    accuracy = study.accuracy() if newest else None
    state: dict[str, Any] = {
        "study": config.name,
        "folder": str(study.folder),
        "store": store.url,
        "images": len(study.catalog),
        "excluded": len(store.images.excluded_rows()),
        "unreadable": len(study.unreadable()),
        "graded": int((study.known_grades() >= 0).sum()),
        "answers": answers,
        "budget": study.budget,
        "open pairs": store.pairs.open_count(),
        "annotators": {c.annotator: c.answers for c in store.answers.by_annotator()},
        "models": len(models),
        "newest model": newest.path if newest else None,
        "new log entries since": new_answers,
        "accuracy": accuracy.sentence if accuracy else None,
        "enough": in_words(config.ask.stopping),
        "strategy": config.ask.strategy,
    }
    if store.trouble:
        state["next"] = f"see what is wrong: steelyard check {study.folder} ({store.trouble})"
    elif not answers:
        state["next"] = f"answer some pairs: steelyard serve {study.folder}"
    elif newest is None or new_answers >= config.refit_after:
        state["next"] = f"train: steelyard train {study.folder} (the page does it by itself)"
    elif accuracy is not None and accuracy.stop:
        state["next"] = f"you can stop: steelyard score {study.folder}, or steelyard report {study.folder}"
    elif answers >= study.budget:
        state["next"] = f"plan more answers: raise budget under [ask] in {study.folder / 'study.toml'}"
    else:
        state["next"] = f"go on answering: steelyard serve {study.folder}"
    return state
