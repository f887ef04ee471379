"""Faults that end or freeze brokers: at once, or in the midst of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from ottla.faults.fault import named
from ottla.faults.fields import APPEND, MOMENTS, NOW, REQUEST, Field, one_of
from ottla.faults.request_fault import PRODUCE, WHICH, Does, RequestFault

if TYPE_CHECKING:
    from ottla.faults.effect import Effect
    from ottla.faults.site import Drawing, Site, Span

MOMENT = Field(
    "moment",
    one_of((*MOMENTS, NOW)),
    "when it fires: at a request (nothing is stored yet), an append (the leader has stored the records, no follower "
    "has), an ack (stored as acks asks, the answer is not sent), or now (without a request); append unless given",
)
# The longest that a broker may be down after a request made the fault fire.
_LASTS_US_MAX = 6_000_000


class BrokerFault(RequestFault):
    """Ends or freezes the broker that handles a request, or with `moment` "now" the broker of that id.

    When it is healed, the affected brokers run again.
    """

    does = Does.END_BROKER
    optional: ClassVar[tuple[Field, ...]] = (*WHICH, MOMENT)
    defaults: ClassVar[dict[str, Any]] = {"api": PRODUCE, "moment": APPEND}

    moment: str

    def check(self) -> None:
        """ConfigError where fields do not go together."""
        super().check()
        if self.moment != NOW:
            return
        if self.broker_id is None and self.needs_broker:
            raise self.wrong("moment='now' applies to no request: give a broker_id")
        for field in WHICH:
            value = getattr(self, field.name)
            if field.name not in ("broker_id", "seed") and value not in (None, self.defaults.get(field.name)):
                raise self.wrong(
                    f"moment='now' applies to no request, so {field.name}={value!r} cannot be given with it"
                )

    @property
    def needs_broker(self) -> bool:
        """Whether it is about one broker, where no request says which."""
        return True

    @property
    def applies_to_requests(self) -> bool:
        """Unless it fires now."""
        return self.moment != NOW

    @property
    def waits(self) -> bool:
        """Unless it fires now."""
        return self.applies_to_requests

    @property
    def is_before_append(self) -> bool:
        """Whether it fires before anything is appended."""
        return self.moment == REQUEST

    @property
    def may_cost_a_broker(self) -> bool:
        """A broker that is down or frozen is given up after a while."""
        return True

    def begin(self, site: Site, effect: Effect) -> None:
        """Now, unless it waits for a request."""
        if self.applies_to_requests or self.broker_id is None:
            return
        if site.is_down(self.broker_id):
            effect.miss("its broker was down")
        else:
            self.carry_out(site, effect, self.broker_id)
            if site.is_down(self.broker_id) or site.is_frozen(self.broker_id):
                effect.fire()

    def carry_out(self, site: Site, effect: Effect, broker_id: int) -> None:
        """Do it to this broker; when the fault is healed, it runs again."""
        effect.when_healed(lambda: site.mend(broker_id))
        self.end(site, broker_id)

    def end(self, site: Site, broker_id: int) -> None:
        """What becomes of the broker."""
        raise NotImplementedError

    @classmethod
    def draw(cls, drawing: Drawing, span: Span) -> Self | None:
        """At a broker that is up."""
        up = drawing.up(span.at_us, *cls.not_beside())
        return cls(moment=NOW, broker_id=drawing.chance.choice(up)) if up else None

    @classmethod
    def draw_at_requests(cls, drawing: Drawing, span: Span) -> Self | None:
        """One request, at one of the moments."""
        given = cls.draw_fields(drawing) | {"moment": drawing.chance.choice(MOMENTS), "times": 1}
        if not drawing.await_requests(span, given["api"], given.get("topic"), given["every"]):
            return None
        # The broker is down for as long as the fault is in force.
        return cls(**given) if span.lasts_us <= _LASTS_US_MAX else None

    @classmethod
    def not_beside(cls) -> tuple[str, ...]:
        """Kinds during which it cannot apply to a broker, besides those that end the broker."""
        return ()

    def tell(self) -> str:
        """ "broker 2 is killed", "kill at append of Produce (nth=3)"."""
        if not self.applies_to_requests:
            return f"{named(self.broker_id)} {self.told}" if self.broker_id is not None else self.told
        fields = {name: value for name, value in self.to_dict().items() if name not in ("kind", "api", "moment")}
        more = ", ".join(f"{name}={value!r}" for name, value in fields.items())
        return f"{self.kind.replace('_', ' ')} at {self.moment} of {self.api}{f' ({more})' if more else ''}"

    told: ClassVar[str]
