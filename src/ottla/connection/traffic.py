"""What a client counts of its traffic, per node, and of its I/O thread's time.

A `NodeMeter` belongs to a broker, not to a connection, and is kept as long as the client. The core counts requests,
answers and connections in it. Only the driver handles bytes: `Connect` has the meter, and the driver adds the bytes it
writes and reads. The simulator has no bytes and leaves those at 0.

If a bootstrap address is a broker's, its connection and its meter become that broker's.
"""

from __future__ import annotations

from ottla.connection.sampled import Meter


class NodeMeter(Meter):
    """Requests, answers, bytes and latencies of one node; times in the unit their name ends with."""

    SUMS = (
        "requests",
        "request_bytes",
        "outgoing_bytes",
        "responses",
        "incoming_bytes",
        "network_operations",
        "connections_opened",
        "connections_closed",
        "authentications",
        "authentication_failures",
        "reauthentications",
        "reauthentication_failures",
        "reauthentication_us",
        "produce_latency_us",
        "produce_answers",
        "throttle_ms",
    )
    PEAKS = ("request_bytes_max", "produce_latency_us_max", "throttle_ms_max", "reauthentication_us_max")
    __slots__ = SUMS + PEAKS

    requests: int
    request_bytes: int
    outgoing_bytes: int
    responses: int
    incoming_bytes: int
    network_operations: int
    connections_opened: int
    connections_closed: int
    authentications: int
    authentication_failures: int
    reauthentications: int
    reauthentication_failures: int
    reauthentication_us: int
    produce_latency_us: int
    produce_answers: int
    throttle_ms: int
    request_bytes_max: int
    produce_latency_us_max: int
    throttle_ms_max: int
    reauthentication_us_max: int

    def request_written(self, size_bytes: int) -> None:
        """Count a request that the driver has encoded, of this size."""
        self.request_bytes += size_bytes
        if size_bytes > self.request_bytes_max:
            self.request_bytes_max = size_bytes

    def answered(self, throttle_ms: int) -> None:
        """Count an answer, with the pause that the broker asks for."""
        self.responses += 1
        self.throttle_ms += throttle_ms
        if throttle_ms > self.throttle_ms_max:
            self.throttle_ms_max = throttle_ms

    def produced(self, latency_us: int) -> None:
        """Count the answer to a Produce request, which came so long after the request was sent."""
        self.produce_answers += 1
        self.produce_latency_us += latency_us
        if latency_us > self.produce_latency_us_max:
            self.produce_latency_us_max = latency_us

    def reauthenticated(self, spent_us: int) -> None:
        """Count a session that was renewed (KIP-368), which took so long."""
        self.reauthentications += 1
        self.reauthentication_us += spent_us
        if spent_us > self.reauthentication_us_max:
            self.reauthentication_us_max = spent_us

    def authentication_failed(self, *, renewing: bool) -> None:
        """Count a connection that was lost because TLS or SASL failed."""
        if renewing:
            self.reauthentication_failures += 1
        else:
            self.authentication_failures += 1


class LoopMeter(Meter):
    """What an I/O thread did: how often it looked for ready sockets, how long it waited, how long it worked."""

    SUMS = ("selects", "wait_ns", "work_ns")
    __slots__ = SUMS

    selects: int
    wait_ns: int
    work_ns: int
