"""What all tests share. The fixtures `kafka_cluster` and `kafka_topic` come from ottla's own pytest plugin."""

from __future__ import annotations

import hypothesis

# A slow machine is no bug: nothing in these tests is judged by the clock.
hypothesis.settings.register_profile(
    "ottla", deadline=None, print_blob=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("ottla")
