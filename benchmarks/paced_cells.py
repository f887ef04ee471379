"""The cells of the paced benchmark (rate, late answers, linger, partitions, keys), and a broker's capacity.

A broker handles one request of a connection at a time, as Apache Kafka does, and answers each Produce request
`service_ms` after it has read it. So it handles 1000 / (service_ms + 1) requests a second, with one millisecond for the
network. A request holds at most one batch of each partition, and `max_request_size` bytes; a batch holds `batch_size`
bytes, and a record its largest encoding. The product is `capacity`, in records a second.

In `BELOW_CELLS` each pair of values of two settings is in at least one cell. One pair is left out: 100,000 records a
second to one partition with answers after 100 ms are more than its capacity. Each cell's rate is below `SHARE_MAX` of
its capacity. `batch_size` is the smallest of `BATCH_SIZES` with which that is so (Kafka's default is the first), and
`max_request_size` is Kafka's default if that is enough. The rates of `BEYOND_CELLS` are above the capacity.

Two kinds differ. `FAR`: the network takes `service_ms`, but the broker handles requests at once, so the five requests
in flight set its capacity. `APACHE`: three nodes of Apache Kafka whose followers are paused for 80 of every 100 ms; an
answer is assumed to take 200 ms at most.
"""

from __future__ import annotations

from dataclasses import dataclass

VALUE_BYTES = 100
KEY_BYTES = 8
SHARE_MAX = 0.7
RATES = (100, 1_000, 20_000, 100_000)
SERVICES_MS = (1, 5, 20, 100)
LINGERS_MS = (0, 5, 100)
PARTITIONS = (1, 6, 100)
BATCH_SIZES = (16_384, 65_536, 262_144, 1_000_000)
REQUEST_SIZES = (1_048_576, 4_194_304)
BEYOND, FAR, APACHE = "beyond", "far", "apache"
KINDS = ("", BEYOND, FAR, APACHE)
IN_FLIGHT = 5
_MIB = 1 << 20
# A record's length, attributes, timestamp, offset, lengths of key and value, count of headers; a batch's header.
_RECORD_BYTES_AROUND = 11
_BATCH_HEADER_BYTES = 61
_ROUND_TRIP_MS = 1


@dataclass(frozen=True)
class Cell:
    """Records a second, milliseconds until the answer, `linger.ms`, partitions, keyed or not; and one of `KINDS`."""

    rate: int
    service_ms: int
    linger_ms: int
    partitions: int
    keyed: bool
    kind: str = ""

    @property
    def name(self) -> str:
        """As `--only` asks for it."""
        kind = [self.kind] if self.kind else []
        late = [f"s{self.service_ms}"] if self.kind != APACHE else []
        keys = "keyed" if self.keyed else "keyless"
        return "-".join([*kind, f"r{self.rate}", *late, f"l{self.linger_ms}", f"p{self.partitions}", keys])

    @property
    def is_beyond(self) -> bool:
        return self.kind == BEYOND

    @property
    def batch_size(self) -> int:
        return self._sizes()[0]

    @property
    def max_request_size(self) -> int:
        return self._sizes()[1]

    @property
    def buffer_memory(self) -> int:
        """Kafka's default; less where it is to become full."""
        return (4 if self.is_beyond else 32) * _MIB

    @property
    def capacity(self) -> float:
        """How many records a second the broker can handle."""
        return self._capacity(*self._sizes())

    @property
    def share(self) -> float:
        """The rate as a share of the capacity."""
        return self.rate / self.capacity

    def _sizes(self) -> tuple[int, int]:
        sizes = [(batch, request) for request in REQUEST_SIZES for batch in BATCH_SIZES]
        enough = (each for each in sizes if self.rate < SHARE_MAX * self._capacity(*each))
        return sizes[0] if self.is_beyond else next(enough, sizes[-1])

    def _capacity(self, batch_size: int, max_request_size: int) -> float:
        record_bytes = VALUE_BYTES + _RECORD_BYTES_AROUND + KEY_BYTES * self.keyed
        of_batches = self.partitions * ((batch_size - _BATCH_HEADER_BYTES) // record_bytes)
        at_once = IN_FLIGHT if self.kind == FAR else 1
        requests_per_s = at_once * 1000 / (self.service_ms + _ROUND_TRIP_MS)
        return min(of_batches, max_request_size // record_bytes) * requests_per_s


# The time of a request and its records: at most two waits for slow followers.
_APACHE_MS = 200
BELOW_CELLS = (
    Cell(100, 1, 5, 100, keyed=False),
    Cell(100, 5, 100, 1, keyed=False),
    Cell(100, 20, 0, 6, keyed=False),
    Cell(100, 100, 100, 100, keyed=True),
    Cell(1_000, 1, 100, 6, keyed=False),
    Cell(1_000, 5, 0, 1, keyed=True),
    Cell(1_000, 5, 5, 100, keyed=False),
    Cell(1_000, 20, 5, 1, keyed=False),
    Cell(1_000, 100, 0, 1, keyed=False),
    Cell(1_000, 100, 100, 1, keyed=False),
    Cell(20_000, 1, 0, 1, keyed=False),
    Cell(20_000, 1, 5, 1, keyed=False),
    Cell(20_000, 1, 5, 1, keyed=True),
    Cell(20_000, 5, 0, 100, keyed=True),
    Cell(20_000, 20, 0, 6, keyed=True),
    Cell(20_000, 20, 100, 6, keyed=False),
    Cell(20_000, 20, 100, 6, keyed=True),
    Cell(20_000, 100, 5, 6, keyed=True),
    Cell(100_000, 1, 0, 1, keyed=True),
    Cell(100_000, 5, 0, 6, keyed=False),
    Cell(100_000, 5, 5, 6, keyed=False),
    Cell(100_000, 20, 100, 100, keyed=False),
    Cell(100_000, 100, 0, 100, keyed=False),
    Cell(100_000, 100, 5, 100, keyed=False),
)
BEYOND_CELLS = (
    Cell(20_000, 20, 5, 1, keyed=False, kind=BEYOND),
    Cell(20_000, 100, 0, 6, keyed=True, kind=BEYOND),
    Cell(100_000, 20, 100, 6, keyed=False, kind=BEYOND),
    Cell(100_000, 5, 0, 1, keyed=True, kind=BEYOND),
)
# A client with one request in flight at a time sends a third of this.
FAR_CELLS = (Cell(20_000, 20, 5, 1, keyed=False, kind=FAR),)
APACHE_CELLS = (
    Cell(100, _APACHE_MS, 0, 6, keyed=True, kind=APACHE),
    Cell(1_000, _APACHE_MS, 5, 1, keyed=False, kind=APACHE),
    Cell(1_000, _APACHE_MS, 0, 6, keyed=False, kind=APACHE),
    Cell(20_000, _APACHE_MS, 5, 6, keyed=True, kind=APACHE),
)
