"""A token endpoint of our own (OAuth's client credentials) on loopback, which keeps what it was asked."""

from __future__ import annotations

import json
import ssl
import threading
import time
from base64 import b64decode
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs

from ottla.connection.authentication import unsecured_token

CLIENT_ID = "ada"
CLIENT_SECRET = "s3cret:0815"


class Asked:
    """One request: who asked, by what form, at which path."""

    def __init__(self, path: str, headers: dict[str, str], form: dict[str, str]) -> None:
        self.path, self.headers, self.form = path, headers, form
        kind, _, pair = headers.get("authorization", "").partition(" ")
        self.client_id, _, self.client_secret = (
            b64decode(pair).decode().partition(":") if kind == "Basic" else ("",) * 3
        )


class TokenServer:
    """Gives tokens that the embedded brokers' unsecured OAUTHBEARER listeners take; a context manager.

    `answers`: (status, what is answered, a dict or text) to be given first, in their order. `lifetime_s`: how long the
    tokens last, as they say themselves; `expires_in` of the answer says the same where `tells_lifetime`. They last by
    the time that `wall_s` tells.
    """

    def __init__(
        self,
        *,
        lifetime_s: float = 3600,
        tells_lifetime: bool = True,
        certificate: Path | None = None,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self.asked: list[Asked] = []
        self.answers: deque[tuple[int, Any]] = deque()
        self.lifetime_s, self.tells_lifetime, self._wall_s = lifetime_s, tells_lifetime, wall_s
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                headers = {name.lower(): text for name, text in self.headers.items()}
                server.asked.append(Asked(self.path, headers, {name: texts[0] for name, texts in form.items()}))
                status, answer = server.answers.popleft() if server.answers else server._answer(server.asked[-1])
                content = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", "http://127.0.0.1:9/elsewhere")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            scheme = "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_address[1]}/oauth2/token"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def _answer(self, asked: Asked) -> tuple[int, Any]:
        if (asked.client_id, asked.client_secret) != (CLIENT_ID, CLIENT_SECRET):
            return 401, {"error": "invalid_client", "error_description": "Client authentication failed."}
        # `unsecured_token` makes tokens of an hour.
        token = unsecured_token({"sub": asked.client_id}, self._wall_s() - 3600 + self.lifetime_s).value
        lifetime = {"expires_in": self.lifetime_s} if self.tells_lifetime else {}
        return 200, {"access_token": token, "token_type": "Bearer", **lifetime}

    def settings(self, **more: Any) -> dict[str, Any]:
        """What a client needs to get its tokens here, under Kafka's names."""
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": self.url,
            "sasl.oauthbearer.client.credentials.client.id": CLIENT_ID,
            "sasl.oauthbearer.client.credentials.client.secret": CLIENT_SECRET,
            **more,
        }

    def close(self) -> None:
        """Take no more requests."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
