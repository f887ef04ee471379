"""What goes wrong: one class for each kind of fault, each in a file of its own that has the kind's name.

A fault is a value: its kind and its fields, checked. Python verbs (`cluster.faults`), plans of the simulation and files
of trials all make the same classes. Its class says what it does (the docstring, which the guide shows), how it begins
at a `Site`, how it is drawn for a plan and how it is told; it ends by the `Effect` that it began.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ottla.errors import ConfigError
from ottla.faults.fields import CONTROLLER, Cast, Field
from ottla.nearest import nearest_name

if TYPE_CHECKING:
    from ottla.faults.effect import Effect
    from ottla.faults.site import Drawing, Site, Span

# Faults that apply to requests, before and after the append; those that end or freeze brokers; all others.
BEFORE_APPEND = ("refuse", "lose_request", "drop_request", "delay_request")
AFTER_APPEND = ("refuse_after_append", "lose_ack", "drop_ack", "delay_ack", "redeliver")
OF_REQUESTS = (*BEFORE_APPEND, *AFTER_APPEND, "hold")
OF_BROKERS = ("kill", "power_off", "pause", "cut_power")
KINDS = (
    *OF_REQUESTS,
    *OF_BROKERS,
    "stop",
    "stop_controller",
    "full_disk",
    "slow_disk",
    "failing_disk",
    "corrupt",
    "corrupt_unsynced",
    "jump_clock",
    "drift_clock",
    "cut_link",
    "isolate",
    "lose_messages",
    "unplug",
    "half_open",
    "stall",
    "unclean_election",
    "move_leader",
)
# How alike an unknown name and a field's name must be for "did you mean": high, because short names are often alike.
_ALIKE = 0.65


class Fault:
    """One thing that goes wrong: the fields in `wanted`, and those of `optional` that were given.

    Raises ConfigError where a field is missing, unknown or not what it may be.
    """

    kind: ClassVar[str]
    wanted: ClassVar[tuple[Field, ...]] = ()
    optional: ClassVar[tuple[Field, ...]] = ()
    # The values of optional fields that are not given; None for fields that are not in here.
    defaults: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, /, **given: Any) -> None:
        fields = self.fields()
        for name in given:
            if name not in fields:
                near = nearest_name(name, fields, alike=_ALIKE)
                hint = f" did you mean {near!r}?" if near is not None else ""
                known = ", ".join(fields) or "none"
                raise self.wrong(f"it has no field {name};{hint} its fields: {known}")
        for name, field in fields.items():
            value = given.get(name)
            if field.meant is not None:
                value = field.meant(value)
            if value is None and field not in self.wanted:
                value = self.defaults.get(name)
            elif value is None:
                raise self.wrong(f"it needs {name}, {field.may.words}")
            elif not field.may.holds(value):
                raise self.wrong(f"{name}={value!r} must be {field.may.words}")
            setattr(self, name, value)
        self.check()

    @classmethod
    def fields(cls) -> dict[str, Field]:
        """All its fields by name, those first that it wants."""
        return {field.name: field for field in (*cls.wanted, *cls.optional)}

    @classmethod
    def says(cls) -> str:
        """What it does, in a sentence or two on one line."""
        return " ".join((cls.__doc__ or "").split())

    def check(self) -> None:
        """ConfigError where fields do not go together."""

    def wrong(self, what: str) -> ConfigError:
        """The error for a fault that makes no sense."""
        return ConfigError(f"fault {self.kind}: {what}")

    def misfits(self, cast: Cast) -> Iterator[str]:
        """A clause for each field that names a broker, partition or client that is not in the cast."""
        given = self.to_dict()
        for name, field in self.fields().items():
            may = field.fits(cast, given) if field.fits is not None and given.get(name) is not None else None
            if may is not None and not may.holds(given[name]):
                yield f"{name} is {given[name]!r} and must be {may.words}"

    def to_dict(self) -> dict[str, Any]:
        """Its kind and its fields as plain values; what was not given, or is as it would be anyway, is left out."""
        fields = {name: getattr(self, name) for name in self.fields()}
        return {"kind": self.kind} | {
            name: value for name, value in fields.items() if value is not None and value != self.defaults.get(name)
        }

    def but(self, **changed: Any) -> Self:
        """The same with other values in these fields; None takes one away."""
        fields = {name: getattr(self, name) for name in self.fields()} | changed
        return type(self)(**{name: value for name, value in fields.items() if value is not None})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fault) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(tuple(self.to_dict().items()))

    def __repr__(self) -> str:
        return f"{self.kind}({self.shown()})"

    def shown(self) -> str:
        """Its fields, as they were given."""
        return ", ".join(f"{name}={value!r}" for name, value in self.to_dict().items() if name != "kind")

    # ---- what it does -------------------------------------------------------------------------------------------

    def begin(self, site: Site, effect: Effect) -> None:
        """Put it in force: `effect` counts how often it fires and knows how it ends."""
        raise NotImplementedError

    @property
    def applies_to_requests(self) -> bool:
        """Whether a `FaultPlan` asks it about requests."""
        return False

    @property
    def waits(self) -> bool:
        """Whether it fires for what comes while it is in force, instead of at once."""
        return False

    @property
    def may_cost_a_broker(self) -> bool:
        """Whether a broker may be given up for it, by the controller or by its own end."""
        return False

    @classmethod
    def draw(cls, drawing: Drawing, span: Span) -> Self | None:
        """One that will fire; it may move or stretch its span. None where it would not fire."""
        raise NotImplementedError(f"{cls.__name__} has no draw, by which the simulation makes one")

    def tell(self) -> str:
        """What happens, in a few words: "broker 2 is killed"."""
        more = self.shown()
        return f"{self.kind.replace('_', ' ')}{f' ({more})' if more else ''}"

    @property
    def victim(self) -> int | str | None:
        """The broker (or CONTROLLER) or client that it is about; None where it is about nobody in particular."""
        for name in ("broker_id", "client_id"):
            victim: int | str | None = getattr(self, name, None)
            if victim is not None:
                return victim
        return None


def named(broker_id: int) -> str:
    """ "broker 3", or "the controller"."""
    return "the controller" if broker_id == CONTROLLER else f"broker {broker_id}"


def fault_class(kind: Any) -> type[Fault]:
    """The class of a kind; loaded when it is first asked for. ConfigError for what is none."""
    if kind not in KINDS:
        near = nearest_name(kind, KINDS) if isinstance(kind, str) else None
        hint = f" did you mean {near!r}?" if near is not None else ""
        raise ConfigError(f"fault kind {kind!r} is unknown;{hint} known kinds are {', '.join(KINDS)}")
    found: type[Fault] = getattr(import_module(f"ottla.faults.{kind}"), "".join(map(str.capitalize, kind.split("_"))))
    return found


def make_fault(kind: str, **given: Any) -> Fault:
    """A fault of this kind; ConfigError."""
    return fault_class(kind)(**given)


def fault_from_texts(kind: str, texts: Mapping[str, str]) -> Fault:
    """A fault whose fields are texts, as on a command line; ConfigError."""
    found = fault_class(kind)
    fields = found.fields()
    return found(**{name: fields[name].read(text) if name in fields else text for name, text in texts.items()})


def fault_from(fields: Mapping[str, Any]) -> Fault:
    """What `Fault.to_dict` wrote; ConfigError."""
    if "kind" not in fields:
        raise ConfigError("a fault needs a kind; known kinds are " + ", ".join(KINDS))
    kind = fault_class(fields["kind"])
    return kind(**{name: value for name, value in fields.items() if name != "kind"})
