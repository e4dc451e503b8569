"""What `doctor` verifies of the review room."""

from __future__ import annotations

from core.studio.doctor import Finding, check
from core.studio.review import audit
from core.studio.review.bundle import verify_foreign


@check("audit", "The audit trail's hash chain")
def audit_trail(store) -> list[Finding]:
    found = audit.verify(store)
    elsewhere = verify_foreign(store)
    if found["ok"] and not elsewhere:
        return [Finding("ok", f"{found['events']} events, unbroken; the last one is {found['head'][:16]}")]
    return [Finding("bad", problem) for problem in [*found["problems"], *elsewhere]]
