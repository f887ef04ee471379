"""`refuse_after_append`."""

from __future__ import annotations

from typing import Any, ClassVar

from ottla.faults.refuse import Refuse
from ottla.faults.request_fault import PRODUCE

NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20


class RefuseAfterAppend(Refuse):
    """The records are appended, and the answer is `error` (NOT_ENOUGH_REPLICAS_AFTER_APPEND unless given)."""

    kind = "refuse_after_append"
    defaults: ClassVar[dict[str, Any]] = {"api": PRODUCE, "error": NOT_ENOUGH_REPLICAS_AFTER_APPEND}
