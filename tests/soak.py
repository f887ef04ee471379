"""Whether the long proofs are asked for (`make soak`); tests that run more of something then ask here."""

from __future__ import annotations

import os

import pytest

IS_SOAK = bool(os.environ.get("OTTLA_SOAK"))
SOAK = pytest.mark.skipif(not IS_SOAK, reason="takes minutes: set OTTLA_SOAK=1")
