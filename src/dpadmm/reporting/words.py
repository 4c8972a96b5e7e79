"""The words in which a model, an estimator and a figure state their privacy: one text for all of them."""

from collections.abc import Sequence

from dpadmm.privacy.protection import Protection, covers


def statement_text(
    *,
    subject: str,
    epsilon: float,
    delta: float,
    protection: Protection,
    proof: str,
    is_release: bool,
    details: Sequence[tuple[str, str]] = (),
    assumptions: Sequence[str] = (),
) -> str:
    """Return a statement as a few lines: what is covered, the certified figure, who is protected from whom, the proof.

    `details` are further lines, each a heading of at most 11 letters and its words.
    """
    lines = [
        ("Covers", covers(subject)),
        ("Certified", f"epsilon {epsilon:.6g} at delta {delta:.3g} for {subject}"),
        ("Protects", f"{protection} from the {protection.view.value}"),
        ("Persons", protection.people),
        ("Certificate", proof),
        *details,
    ]
    return "\n".join(
        [
            *([] if is_release else ["NO PRIVATE RELEASE: simulated noise; keep the result to yourself"]),
            *(f"{heading:<11} {words}" for heading, words in lines),
            "Assumes",
            *(f"  - {text}" for text in assumptions),
        ]
    )
