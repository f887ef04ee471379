"""What the producers' benchmarks send: the same records for every client, the same in every run.

A value looks like a line of JSON about a flight, so that it compresses as such lines do (3 to 4 times); a keyed record
has a key of 8 bytes within its size.
"""

from __future__ import annotations

from random import Random

KEY_BYTES = 8
_ALL_BYTES = 10_000_000
_CARRIERS = ("AA", "B6", "DL", "EV", "MQ", "UA", "US", "WN")
_AIRPORTS = ("ATL", "BOS", "CLT", "DEN", "FLL", "IAH", "JFK", "LAX", "LGA", "MCO", "MIA", "ORD", "SEA", "SFO", "TPA")


def records(record_bytes: int, *, keyed: bool) -> tuple[list[bytes | None], list[bytes]]:
    """Keys (None each where keyless) and values, 10 MB together; send them again and again."""
    rng = Random(2013)
    count = _ALL_BYTES // record_bytes
    value_bytes = record_bytes - KEY_BYTES * keyed
    keys = [b"%08d" % (number * 7919 % 100_000_000) if keyed else None for number in range(count)]
    return keys, [_line(rng, number, value_bytes) for number in range(count)]


def _line(rng: Random, number: int, nbytes: int) -> bytes:
    line = f'{{"flight":{number}'
    while len(line) < nbytes:
        carrier, origin, destination = rng.choice(_CARRIERS), rng.choice(_AIRPORTS), rng.choice(_AIRPORTS)
        line += f',"carrier":"{carrier}","from":"{origin}","to":"{destination}","tail":"N{rng.randrange(10**5):05}"'
        line += f',"delay":{rng.randrange(-30, 300)},"km":{rng.randrange(100, 5000)}'
    return (line[: nbytes - 1] + "}").encode()
