"""`RemoteCluster`: a served cluster as seen from another process, one HTTP request for each call."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from ottla.addresses import address_of
from ottla.errors import OttlaError, Unreachable, UserMistake
from ottla.interruptible_reads import await_readable

# Longer than the cluster itself waits before it answers that something is late (brokers that start read their logs).
_ANSWER_S = 75.0
_ANSWER_BYTES_MAX = 256 << 20
_UNAUTHORIZED = 401
# The cluster failed, or something did not happen in time; below these the request was wrong.
_FAILED = 500


class RemoteCluster:
    """The cluster that is controlled at this address; with a token where it wants one."""

    def __init__(self, host: str, port: int, token: str | None = None) -> None:
        self._host = host
        self._port = port
        self._token = token

    def get(self, *path: str | int, wait_s: float = 0.0, **fields: Any) -> dict[str, Any]:
        """What is there; fields that are None are left out. `wait_s`: how long the cluster may wait before it answers.

        Raises UserMistake for what is refused, OttlaError for what failed or did not happen in time, Unreachable.
        """
        given = {name: _text(value) for name, value in fields.items() if value is not None}
        return self._ask("GET", path, f"?{urlencode(given)}" if given else "", None, wait_s)

    def post(self, *path: str | int, **fields: Any) -> dict[str, Any]:
        """Have something done; fields that are None are left out. Raises as `get` does."""
        body = {name: value for name, value in fields.items() if value is not None}
        return self._ask("POST", path, "", body, 0.0)

    def delete(self, *path: str | int) -> dict[str, Any]:
        """Take something away. Raises as `get` does."""
        return self._ask("DELETE", path, "", None, 0.0)

    def _ask(
        self, method: str, path: tuple[str | int, ...], query: str, body: Mapping[str, Any] | None, wait_s: float
    ) -> dict[str, Any]:
        target = "/v1/" + "/".join(quote(str(part), safe="") for part in path) + query
        headers = {} if self._token is None else {"Authorization": f"Bearer {self._token}"}
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body).encode()
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_ANSWER_S + wait_s)
        try:
            connection.request(method, target, content, headers)
            # The answer may take long, for example that of `await_fired`; signal handlers run meanwhile.
            if not await_readable(connection.sock.fileno(), _ANSWER_S + wait_s):
                raise TimeoutError
            response = connection.getresponse()
            told = self._parsed(response, response.read(_ANSWER_BYTES_MAX))
        except TimeoutError:
            raise OttlaError(f"{self._where()} did not answer within {_ANSWER_S + wait_s:g} s.") from None
        except (http.client.HTTPException, ConnectionResetError):
            raise self._not_a_control() from None
        except OSError as error:
            raise self._unreachable(error) from None
        finally:
            connection.close()
        if response.status < 400:
            return told
        raise self._error(response.status, str(told["error"]))

    def _parsed(self, response: http.client.HTTPResponse, content: bytes) -> dict[str, Any]:
        try:
            told = json.loads(content)
        except ValueError:
            raise self._not_a_control() from None
        is_ours = response.getheader("Server") == "ottla" and isinstance(told, dict)
        if not is_ours or (response.status >= 400 and "error" not in told):
            raise self._not_a_control()
        found: dict[str, Any] = told
        return found

    def _error(self, status: int, sentence: str) -> OttlaError:
        if status == _UNAUTHORIZED:
            what = "wants a token" if self._token is None else "has another token"
            return UserMistake(f"{self._where()} {what}: give --token-file FILE, or set OTTLA_CONTROL_TOKEN.")
        return OttlaError(sentence) if status >= _FAILED else UserMistake(sentence)

    def _where(self) -> str:
        return address_of(self._host, self._port)

    def _not_a_control(self) -> UserMistake:
        return UserMistake(
            f"what is at {self._where()} is not the control of a cluster, or ended before it answered: "
            "give the address that `ottla serve --control PORT` shows."
        )

    def _unreachable(self, error: OSError) -> Unreachable:
        why = "no such host" if isinstance(error, socket.gaierror) else (error.strerror or str(error)).lower()
        return Unreachable(
            f"no cluster is controlled at {self._where()} ({why}): "
            "is `ottla serve --control PORT` running, and is this the address that it shows?"
        )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
