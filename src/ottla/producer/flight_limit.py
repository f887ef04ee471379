"""How many Produce requests in flight to one broker are useful, measured by its answers.

A broker handles the requests of one connection one after the other; with acks=all it answers one only when the replicas
in sync have it. If a broker needs 20 ms for each request, more requests in flight only make a queue there: a record in
the fifth is stored after 100 ms. A record that waits here for the next request is stored after 40 ms at most, in a
fuller batch. But if the 20 ms are network time, five requests in flight are five times as fast as one.

Requests that are sent while others are in flight show which of the two it is. The overlap of such a request with the
one before it is the time from its sending to that one's answer. If the request took longer than a request alone, and by
more than half of this overlap, it waited at the broker for the one before it: it was not useful. Then `useful` becomes
at most the number of requests that were in flight when it was sent. Otherwise it was useful, and `useful` becomes at
least one more than that number. At the limit, one request more is tried now and then, less often while that is not
useful. How long a request takes alone is measured again now and then, too. One answer that was late for another reason
(the broker's first request, a pause, an election) does not change the measure.

The limit is for open batches only: a batch that is full, or was sent before, gains nothing by waiting.
"""

from __future__ import annotations

# One request more than the limit is tried after so many requests: at first, and at most.
_TRY_AFTER = 4
_TRY_AFTER_MAX = 256
# After so many requests that were not alone, one is sent alone, to measure its time.
_ALONE_AFTER = 512
# An overlap shorter than this share of a lone request's time is not used.
_OVERLAP_SHARE = 0.25


class FlightLimit:
    """How many requests in flight to one broker are useful; from 1 to `most`."""

    __slots__ = ("_alone_us", "_answered_us", "_in_company", "_lone", "_most", "_try_after", "_untried", "useful")

    def __init__(self, most: int) -> None:
        self.useful = 1
        self._most = most
        # How long a request takes when it is alone; 0 before the first.
        self._alone_us = 0
        # How long the last lone requests took; three at most.
        self._lone: list[int] = []
        # When the last answer came.
        self._answered_us = 0
        # How many requests were sent since one more than the limit was tried, and since one was alone.
        self._untried = 0
        self._in_company = 0
        self._try_after = _TRY_AFTER

    def allows(self, in_flight: int) -> bool:
        """Whether open batches may be closed for one more request, while `in_flight` have no answer."""
        if in_flight < self.useful:
            return True
        return in_flight == self.useful < self._most and self._alone_us > 0 and self._untried >= self._try_after

    def sent(self, in_flight: int) -> None:
        """Note that a request is sent while `in_flight` others have no answer."""
        self._untried = 0 if in_flight >= self.useful else self._untried + 1
        self._in_company = 0 if in_flight == 0 else self._in_company + 1
        if self._in_company >= _ALONE_AFTER:
            self._in_company = 0
            self.useful = 1

    def answered(self, in_flight: int, sent_us: int, now_us: int) -> None:
        """Note the answer to a request that was sent at `sent_us`, while `in_flight` others had no answer."""
        took_us, overlap_us = now_us - sent_us, self._answered_us - sent_us
        self._answered_us = now_us
        if in_flight == 0:
            self._took_alone(took_us)
            return
        if self._alone_us == 0 or overlap_us <= _OVERLAP_SHARE * self._alone_us:
            return
        if took_us - self._alone_us > overlap_us / 2:
            if in_flight >= self.useful:
                self._try_after = min(4 * self._try_after, _TRY_AFTER_MAX)
            self.useful = max(1, min(self.useful, in_flight))
        elif in_flight >= self.useful:
            self._try_after = _TRY_AFTER
            self.useful = min(self._most, in_flight + 1)

    def _took_alone(self, took_us: int) -> None:
        """Measure by the median of the last three, so that one late answer alone does not count."""
        self._lone = [*self._lone[-2:], took_us]
        middle_us = sorted(self._lone)[(len(self._lone) - 1) // 2]
        if len(self._lone) < 3:
            self._alone_us = middle_us
        else:
            self._alone_us = (3 * self._alone_us + middle_us) // 4
