"""Registers schemas from 100 connections at once, each the next one after an answer; prints how many a second.

python -m benchmarks.registry_worker HOST:PORT COUNT
"""

from __future__ import annotations

import json
import selectors
import socket
import sys
import time

_CONNECTIONS = 100


def request(number: int, host: str) -> bytes:
    """A schema that no other request has, for a subject of its own."""
    fields = [{"name": f"field{each}", "type": "string"} for each in range(9)]
    schema = {"type": "record", "name": f"R{number}", "fields": [*fields, {"name": f"own{number}", "type": "long"}]}
    body = json.dumps({"schema": json.dumps(schema)}).encode()
    head = f"POST /subjects/bench-{number}/versions HTTP/1.1\r\nHost: {host}\r\n"
    head += f"Content-Type: application/vnd.schemaregistry.v1+json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def main(address: str, count: int) -> None:
    """Send them all, wait for all answers; SystemExit for one that is no success."""
    host, port = address.rsplit(":", 1)
    requests = [request(number, address) for number in range(count)]
    requests.reverse()
    selector = selectors.DefaultSelector()
    began_s = time.perf_counter()
    for _ in range(min(_CONNECTIONS, count)):
        sock = socket.create_connection((host, int(port)))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(requests.pop())
        selector.register(sock, selectors.EVENT_READ)
    answered, unfinished = 0, dict[int, bytes]()
    while answered < count:
        for key, _ in selector.select():
            assert isinstance(key.fileobj, socket.socket)
            came = key.fileobj.recv(65_536)
            answer = unfinished.pop(key.fd, b"") + came
            if not answer.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"answered {answer[:300]!r}")
            # Some send the body behind its head.
            if came and not answer.rstrip().endswith(b"}"):
                unfinished[key.fd] = answer
                continue
            answered += 1
            if requests:
                key.fileobj.sendall(requests.pop())
    print(json.dumps(count / (time.perf_counter() - began_s)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
