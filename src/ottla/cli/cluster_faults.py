"""`ottla cluster`: faults put in force, counted, awaited and healed."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from ottla.cli.control import Address, AsJson, TokenFile, remote_cluster
from ottla.cli.options import whole
from ottla.cli.output import new_table, tell
from ottla.errors import UserMistake

_WAIT_MAX_S = 600
_ALL = "all"

FaultId = Annotated[
    int, typer.Argument(metavar="ID", help="The fault's number.", parser=whole("ID", 1, such_as=1), show_default=False)
]
Timeout = Annotated[
    int,
    typer.Option(
        "--timeout",
        help="How long to wait at most, in seconds.",
        parser=whole("--timeout", 0, _WAIT_MAX_S, such_as=30),
        metavar="SECONDS",
    ),
]
DEFAULT_TIMEOUT_S = 30


def fault(
    kind: Annotated[
        str | None, typer.Argument(metavar="KIND", help="The kind of fault, such as lose_ack.", show_default=False)
    ] = None,
    fields: Annotated[
        list[str] | None,
        typer.Argument(metavar="FIELD=VALUE", help="Where and how, such as topic=orders nth=3.", show_default=False),
    ] = None,
    is_list: Annotated[
        bool, typer.Option("--list", help="List all kinds, or the fields of the KIND that is given; needs no cluster.")
    ] = False,
    address: Address = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Cause a fault, until `ottla cluster heal` ends it.

    For example:

        ottla cluster fault --list
        ottla cluster fault --list lose_ack
        ottla cluster fault lose_ack topic=orders nth=3
        ottla cluster fault kill topic=orders nth=10 moment=append
        ottla cluster fault isolate broker_id=2

    It prints the fault's number, which `await-fired` and `heal` take.
    """
    if is_list:
        _list_kinds(kind, as_json)
        return
    if kind is None:
        raise UserMistake("what is to go wrong? Give a KIND; `ottla cluster fault --list` lists all")
    from ottla.faults.fault import fault_from_texts

    wanted = fault_from_texts(kind, _texts(fields))
    told = remote_cluster(address, token_file).post("faults", **wanted.to_dict())
    typer.echo(json.dumps(told)) if as_json else tell(f"fault {told['id']}: {told['what']}")


def faults(address: Address = None, token_file: TokenFile = None, as_json: AsJson = False) -> None:
    """List the faults in force: how often each has fired, and how many requests matched it."""
    told = remote_cluster(address, token_file).get("faults")["in_force"]
    if as_json:
        typer.echo(json.dumps(told))
    elif told:
        tell_faults(told)
    else:
        tell("no faults in force")


def await_fired(
    fault_id: FaultId,
    count: Annotated[
        int,
        typer.Option(
            "--count", help="Until it has fired so often.", parser=whole("--count", 1, such_as=2), metavar="COUNT"
        ),
    ] = 1,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    address: Address = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Wait until a fault has fired; exit status 1 if it has not in time."""
    fields = {"await": count, "timeout": timeout}
    told = remote_cluster(address, token_file).get("faults", fault_id, wait_s=timeout, **fields)
    typer.echo(json.dumps(told)) if as_json else _tell_counts(told)


def heal(
    fault_id: Annotated[str, typer.Argument(metavar="ID", help="The fault's number, or all.")],
    address: Address = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """End a fault, or all: affected brokers run again. Shows how often it has fired."""
    told = remote_cluster(address, token_file).delete("faults", *([] if fault_id == _ALL else [fault_id]))
    if as_json:
        typer.echo(json.dumps(told))
        return
    healed = told["healed"] if fault_id == _ALL else [told]
    for each in healed:
        _tell_counts(each)
    if not healed:
        tell("no faults in force")


def tell_faults(told: list[dict[str, Any]]) -> None:
    """A table of faults with their counts."""
    table = new_table("fault", "what", "fired", "matched", right=("fault", "fired", "matched"))
    for each in told:
        table.add_row(f"{each['id']}", each["what"], f"{each['fired']:,}", f"{each['matched']:,}")
    tell(table)


def _tell_counts(told: dict[str, Any]) -> None:
    tell(f"fault {told['id']}: {told['what']}: fired {told['fired']:,}, matched {told['matched']:,}")


def _texts(given: list[str] | None) -> dict[str, str]:
    texts: dict[str, str] = {}
    for each in given or ():
        name, equals, text = each.partition("=")
        if not name or not equals:
            raise UserMistake(f"{each!r} is not FIELD=VALUE, such as topic=orders")
        if name in texts:
            raise UserMistake(f"the field {name} is given twice")
        texts[name] = text
    return texts


def _list_kinds(kind: str | None, as_json: bool) -> None:
    from ottla.faults.fault import fault_class
    from ottla.remote.faults import described_kinds

    kinds = described_kinds()
    if kind is not None:
        # Refused as anywhere else where there is no such kind.
        wanted = fault_class(kind).kind
        kinds = [each for each in kinds if each["kind"] == wanted]
    if as_json:
        typer.echo(json.dumps(kinds))
        return
    if kind is None:
        table = new_table("kind", "what happens", right=())
        for each in kinds:
            table.add_row(each["kind"], each["what"])
        tell(table)
        tell("")
        tell("The fields of one: ottla cluster fault --list KIND")
        return
    [found] = kinds
    tell(f"{found['kind']}: {found['what']}")
    if found["fields"]:
        tell("")
        table = new_table("field", "what it says", "what it may be", right=())
        for field in found["fields"]:
            table.add_row(f"{field['name']}{' (needed)' * field['wanted']}", field["what"], field["must_be"])
        tell(table)
