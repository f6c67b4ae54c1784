"""Where a study stands and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.config.budget import budget_in_words
from steelyard.config.strategies import ALIASES, IN_WORDS
from steelyard.errors import command
from steelyard.images.presence import look_for_files, say_where
from steelyard.study.asked import counted
from steelyard.study.models import joined_since
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
    excluded = store.images.excluded_rows()
    files = look_for_files(study.catalog, without=excluded.tolist())
    joined = joined_since(study.folder / newest.path, len(study.catalog)) if newest else 0
    state: dict[str, Any] = {
        "study": config.name,
        "folder": str(study.folder),
        "store": store.url,
        "images": len(study.catalog),
        "excluded": len(excluded),
        "unreadable": len(study.unreadable()),
        "joined since the newest model": joined,
        "missing files": files.missing,
        "graded": int((np.delete(study.known_grades(), excluded) >= 0).sum()),
        "answers": answers,
        **_further(study),
        "budget": study.budget,
        "budget is": budget_in_words(config.ask.budget, images=len(study.catalog), raters=config.ask.raters),
        "open pairs": store.pairs.open_count(),
        "annotators": {c.annotator: c.answers for c in store.answers.by_annotator()},
        "models": len(models),
        "newest model": f"{newest.id} ({newest.path})" if newest else None,
        "new log entries since": new_answers,
        "accuracy": accuracy.sentence if accuracy else None,
        "enough": in_words(config.ask.stopping),
        "strategy": config.ask.strategy,
        "it asks": IN_WORDS.get(
            ALIASES.get(config.ask.strategy, config.ask.strategy), "as the plug-in decides"
        ),
    }
    if store.trouble:
        state["next"] = f"see what is wrong: {command('check', study.folder)} ({store.trouble})"
    elif files.missing:
        state["next"] = f"{files.sentence}; {say_where(study.folder)}"
    elif not answers:
        state["next"] = f"answer some pairs: {command('serve', study.folder)}"
    elif newest is None or joined or new_answers >= config.refit_after:
        state["next"] = f"train: {command('train', study.folder)} (the page does it by itself)"
    elif accuracy is not None and accuracy.stop:
        state["next"] = (
            f"you can stop: {command('score', study.folder)}, or {command('report', study.folder)}"
        )
    elif answers >= study.budget:
        state["next"] = f"plan more answers: raise budget under [ask] in {study.folder / 'study.toml'}"
    else:
        state["next"] = f"go on answering: {command('serve', study.folder)}"
    return state


def _further(study: Study) -> dict[str, Any]:
    """Answers to further questions, where the study asks any; everything else is about the main one."""
    if not study.config.questions:
        return {}
    numbers = counted(study.config, study.store)
    return {"answers to further questions": {key: number for key, number in numbers.items() if key}}
