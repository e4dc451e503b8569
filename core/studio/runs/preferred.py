"""Which detector is shown first where several have scored."""

from __future__ import annotations

AT_ONCE = "blend"  # for a first look: no training
USUAL = "blend-head"  # on an encoder that was trained
PREFERRED = (USUAL, AT_ONCE, "lesion-head")
LEARNT = "learnt"
TAUGHT = (LEARNT, "marked")  # by readers' marks; "marked" is how version 0.2 did it, and is not fitted any more


def preference(method: str) -> int:
    """Place of a detector in PREFERRED, from 0; those that are not of it come after and are equal.

    One that has learnt from marks comes last: it is shown when somebody chooses it.
    """
    if method in TAUGHT:
        return len(PREFERRED) + 1
    return PREFERRED.index(method) if method in PREFERRED else len(PREFERRED)
