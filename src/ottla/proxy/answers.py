"""Upstream's answers: which ones have to be read, and what is changed in them whatever faults there are.

Addresses become those of the proxy's ports, and ApiVersions names no version that the proxy cannot read. All other
answers pass as the bytes that they came in.
"""

from __future__ import annotations

from typing import Any

from ottla.protocol.apis import REQUESTS
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.frames import decode_response, encode_response
from ottla.protocol.messages import API_VERSIONS, DESCRIBE_TOPIC_PARTITIONS, METADATA, MODULES, PRODUCE
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.proxy import addresses
from ottla.proxy.request import Request


def to_newer_api_versions(request: Request) -> list[Any] | None:
    """The answer to a client that asks for versions in one that cannot be read here (KIP-511); None for all others."""
    if request.api_key != API_VERSIONS:
        return None
    kind = REQUESTS[API_VERSIONS]
    if request.version <= kind.MAX_VERSION:
        return None
    spoken = ApiVersion(api_key=API_VERSIONS, min_version=kind.MIN_VERSION, max_version=kind.MAX_VERSION)
    message = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[spoken])
    return encode_response(request.correlation_id, message, 0)


def unreadable(request: Request) -> str | None:
    """Why a request is not forwarded: its answer would name addresses, in a version that cannot be read here."""
    api_key, version = request.api_key, request.version
    first = addresses.NAMES_ADDRESSES_FROM.get(api_key)
    is_unreadable = first is not None and version > REQUESTS[api_key].MAX_VERSION
    if not is_unreadable and api_key not in addresses.HIDDEN:
        return None
    told = f"{request.api} version {version} cannot be read by this proxy, and its answers name brokers' addresses"
    return f"{told}; clients that ask for ApiVersions first do not use it"


def readable(request: Request, frame: memoryview) -> Any:
    """The answer's message, where it has to be decoded; else None. Raises ProtocolError."""
    api_key, version = request.api_key, request.version
    first = addresses.NAMES_ADDRESSES_FROM.get(api_key)
    is_wanted = (
        (first is not None and version >= first)
        or api_key in (API_VERSIONS, DESCRIBE_TOPIC_PARTITIONS)
        or request.refused is not None
        or (api_key == PRODUCE and request.context is not None and request.context.may_fire_later)
    )
    if not is_wanted or api_key not in REQUESTS:
        return None
    kind = REQUESTS[api_key]
    if not kind.MIN_VERSION <= version <= kind.MAX_VERSION:
        return None
    return decode_response(frame, kind, version)[1]


def adjust(request: Request, message: Any, book: addresses.AddressBook, topic_names: dict[bytes, str]) -> bool:
    """Rewrite addresses and cap versions, and learn names of topics; whether anything was changed."""
    if request.api_key == API_VERSIONS:
        addresses.cap_versions(message, _newest_version)
        return True
    if request.api_key in (METADATA, DESCRIBE_TOPIC_PARTITIONS):
        addresses.learn_topic_names(message, topic_names)
    return addresses.rewrite_addresses(message, book)


def version_of(request: Request, message: Any) -> int:
    """In which version the answer is: one of ApiVersions that says UNSUPPORTED_VERSION is in version 0 (KIP-511)."""
    is_refused = request.api_key == API_VERSIONS and message.error_code == ErrorCode.UNSUPPORTED_VERSION
    return 0 if is_refused else request.version


def _newest_version(api_key: int) -> int | None:
    return REQUESTS[api_key].MAX_VERSION if api_key in MODULES else None
