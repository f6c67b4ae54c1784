"""What is not known about a model: the sentences that end its card, each with its reason."""

from __future__ import annotations

from steelyard.trust.card import AccuracyPart, AnswersPart, DataPart, GradesPart, RankerPart

__all__ = ["limits"]

_FEW_ANSWERS = 100
_FEW_IMAGES = 50


def limits(
    data: DataPart, answers: AnswersPart, accuracy: AccuracyPart, grades: GradesPart, ranker: RankerPart
) -> list[str]:
    """Sentences about what nobody knows, the weightiest first."""
    found = []
    if answers.virtual:
        found.append(
            f"{answers.virtual} of {answers.people} annotators {'was' if answers.virtual == 1 else 'were'} a program: "
            "what it was told to answer says nothing about people."
        )
    found.append(
        "Where the images come from – which centre, camera and population – is not recorded, and accuracy is measured on images of this "
        "study alone. Elsewhere it is not known."
    )
    if data.groups is None:
        found.append(
            "No groups (patients) are known: images of one patient may stand on both sides of every estimate, which then is too good."
        )
    elif data.groups < data.images / 50 or data.groups < 20:
        found.append(
            f"The images are of {data.groups} groups (patients) only; another patient may be unlike all of them."
        )
    if answers.people == 1:
        found.append(
            "One person answered. How far others would agree is not known, and accuracy is agreement with this person."
        )
    if not answers.repeats:
        found.append("No question was asked twice: how far people agree with themselves is not known.")
    if answers.learnt < _FEW_ANSWERS:
        found.append(f"{answers.learnt} answers are few; scores may still move a lot.")
    if data.used < _FEW_IMAGES:
        found.append(f"{data.used} images are few.")
    if accuracy.estimate is None:
        found.append("How many unseen pairs are ordered right is not known yet.")
    elif accuracy.low is not None and accuracy.high is not None and accuracy.high - accuracy.low > 0.1:
        found.append(
            f"Accuracy is known to {(accuracy.high - accuracy.low) / 2 * 100:.0f} points either way and no better."
        )
    if grades.level is not None:
        found.append(
            f"{grades.level:.0%} of grade intervals hold over all images; a rare grade is held less often than a frequent one."
        )
    if data.unreadable or data.excluded:
        found.append(
            "Images that were left out were not drawn at random; the model knows nothing of their kind."
        )
    if ranker.kind == "convex":
        made = "were given" if ranker.encoder == "none" else "were learnt from everyday pictures"
        found.append(f"The features {made} and stay as they are; what they do not show cannot be learnt.")
    else:
        found.append("A network learns its features from few answers; another seed gives another model.")
    return found
