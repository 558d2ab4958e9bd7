"""What every request passes before anything is done for it: the token, the place, the body, and the count of it all."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Collection

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sparsecert.service.limits import Limits
from sparsecert.service.metrics import Metrics

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
NEEDS_TOKEN = "this service asks for a token: send the header 'Authorization: Bearer TOKEN'"
COMPRESSED = "send the body as it is, without Content-Encoding: this service unpacks nothing"
RETRY_AFTER = 1  # seconds


class Gate:
    """An ASGI application around another one: authorisation, limits, security headers, and metrics of every answer.

    `open_paths` need no token. A POST takes one of `limits.concurrency` places until its answer has been sent, and its
    body is read here, within the limits, before anything looks at it.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        metrics: Metrics,
        token: str | None,
        paths: Collection[str],
        open_paths: Collection[str],
    ) -> None:
        self._app, self._limits, self._metrics = app, limits, metrics
        self._token = None if token is None else token.encode()
        self._paths, self._open = frozenset(paths), frozenset(open_paths)
        self._taken = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, answer = time.perf_counter(), _Answer(send, self._limits.seconds, scope["method"] != "HEAD")
        self._metrics.in_flight.add(1)
        try:
            await self._admitted(scope, receive, answer)
        except ClientDisconnect:
            pass  # whoever asked has gone, or does not read: nothing is left to say
        finally:
            self._metrics.in_flight.add(-1)
            path = scope["path"] if scope["path"] in self._paths else "other"
            method = scope["method"] if scope["method"] in ("GET", "HEAD", "POST") else "other"
            self._metrics.requests.add(1, method, path, str(answer.status))
            self._metrics.seconds.observe(time.perf_counter() - began, path)

    async def _admitted(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        if not self._may(scope):
            await answer.refuse(401, NEEDS_TOKEN, {"www-authenticate": "Bearer"})
        elif scope["method"] in ("GET", "HEAD"):
            await self._app({**scope, "method": "GET"}, receive, answer)
        elif dict(scope["headers"]).get(b"content-encoding", b"identity").lower() != b"identity":
            await answer.refuse(415, COMPRESSED, {"connection": "close"})
        elif self._taken >= self._limits.concurrency:
            await answer.refuse(429, self._limits.too_many_requests(), {"retry-after": str(RETRY_AFTER)})
        else:
            self._taken += 1
            try:
                await self._with_body(scope, receive, answer)
            finally:
                self._taken -= 1

    def _may(self, scope: Scope) -> bool:
        if self._token is None or scope["path"] in self._open:
            return True
        given = dict(scope["headers"]).get(b"authorization", b"")
        kind, _, token = given.partition(b" ")
        return kind.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)

    async def _with_body(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        try:
            body = await asyncio.wait_for(self._read(scope, receive), self._limits.seconds)
        except asyncio.TimeoutError:
            await answer.refuse(408, self._limits.too_slow(), {"connection": "close"})
            return
        if body is None:
            await answer.refuse(413, self._limits.too_large(), {"connection": "close"})
            return
        sent = False

        async def once() -> Message:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, once, answer)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        """The body; None as soon as it is known to be too large."""
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if not declared.isdigit() or int(declared[:20]) > self._limits.body:
            return None
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return b"".join(parts)  # whoever sent it has gone; what came is looked at and the answer goes nowhere
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._limits.body:
                return None
            if not message.get("more_body", False):
                return b"".join(parts)


class _Answer:
    """Sends on, with the headers that every answer has, and remembers the status.

    A reader who takes nothing for so many seconds is given up, so that nobody holds a place for ever. A HEAD is
    sent what the answer to a GET begins with.
    """

    def __init__(self, send: Send, seconds: float, whole: bool) -> None:
        self._send, self._seconds, self._whole = send, seconds, whole
        self.status = 499  # what is counted where nothing was sent

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            known = {name.lower() for name, _ in message["headers"]}
            more = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in known]
            message = {**message, "headers": [*message["headers"], *more]}
        elif not self._whole:
            message = {**message, "body": b""}
        try:
            await asyncio.wait_for(self._send(message), self._seconds)
        except asyncio.TimeoutError as error:
            raise ClientDisconnect from error

    async def refuse(self, status: int, sentence: str, headers: dict[str, str]) -> None:
        body = json.dumps({"detail": sentence}).encode()
        given = {"content-type": "application/json", "content-length": str(len(body)), **headers}
        pairs = [(name.encode(), value.encode()) for name, value in given.items()]
        await self({"type": "http.response.start", "status": status, "headers": pairs})
        await self({"type": "http.response.body", "body": body})
