"""What a client counts of its traffic: per node, and what its I/O thread does with its time.

A `NodeMeter` belongs to a broker, not to a connection, and lives as long as the client. The core counts requests,
answers and connections in it; bytes only the driver knows, so `Connect` hands it the meter and the driver adds to it
what it writes and reads. The simulator, which has no bytes, leaves those at 0.

A bootstrap address that turns out to be a broker's gives its connection and its meter to that broker.
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
        """The driver has put a request of this size into bytes."""
        self.request_bytes += size_bytes
        if size_bytes > self.request_bytes_max:
            self.request_bytes_max = size_bytes

    def answered(self, throttle_ms: int) -> None:
        """An answer has come, with the pause that the broker asks for."""
        self.responses += 1
        self.throttle_ms += throttle_ms
        if throttle_ms > self.throttle_ms_max:
            self.throttle_ms_max = throttle_ms

    def produced(self, latency_us: int) -> None:
        """The answer to a Produce request has come, this long after the request was sent."""
        self.produce_answers += 1
        self.produce_latency_us += latency_us
        if latency_us > self.produce_latency_us_max:
            self.produce_latency_us_max = latency_us

    def reauthenticated(self, spent_us: int) -> None:
        """A session was renewed (KIP-368), which took this long."""
        self.reauthentications += 1
        self.reauthentication_us += spent_us
        if spent_us > self.reauthentication_us_max:
            self.reauthentication_us_max = spent_us

    def authentication_failed(self, *, renewing: bool) -> None:
        """Client and broker do not trust each other, by TLS or by SASL."""
        if renewing:
            self.reauthentication_failures += 1
        else:
            self.authentication_failures += 1


class LoopMeter(Meter):
    """The turns of an I/O thread: how often it looked for I/O, how long it waited, how long it worked."""

    SUMS = ("selects", "wait_ns", "work_ns")
    __slots__ = SUMS

    selects: int
    wait_ns: int
    work_ns: int
