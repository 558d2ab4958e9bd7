"""What every request passes first: metrics, response headers, the bearer token, and the limits.

Starlette's AuthenticationMiddleware asks for the token, its ServerErrorMiddleware answers what fails. The other classes
are plain ASGI: Starlette has no deadlines and no limit on requests at once, and its own limit on bodies (since 1.6)
answers in plain text, and not before a route has been looked up.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Collection
from contextlib import aclosing, suppress

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from fastapi.security.utils import get_authorization_scheme_param
from starlette.authentication import AuthCredentials, AuthenticationBackend, AuthenticationError, SimpleUser
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.requests import ClientDisconnect, HTTPConnection, Request
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
FAILED = "the service failed; its log says why"
CLOSE = {"connection": "close"}  # the rest of the body is not read
RETRY_AFTER = 1  # seconds
NOTHING_SENT = 499  # the status that is counted where the client left before any answer
LONGEST_SENTENCE = 300


def add_middleware(
    app: FastAPI, limits: Limits, metrics: Metrics, token: str | None, open_paths: Collection[str]
) -> None:
    """Adds all middleware to an application that has its routes; `open_paths` need no token."""
    app.add_middleware(ServerErrorMiddleware, handler=_failed)  # innermost: a 500 is counted and gets the headers too
    app.add_middleware(LimitRequests, limits=limits)
    if token is not None:
        app.add_middleware(AuthenticationMiddleware, backend=BearerToken(token, open_paths), on_error=_unauthorized)
    app.add_middleware(PrepareResponses, seconds=limits.seconds)
    paths = {getattr(route, "path", "") for route in app.routes}
    app.add_middleware(CountRequests, metrics=metrics, paths=paths)


def refusal(status: int, sentence: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """{"detail": sentence}, cut to a length and in characters that can be sent."""
    sent = sentence.encode("utf-8", "replace").decode()
    cut = sent if len(sent) <= LONGEST_SENTENCE else f"{sent[:LONGEST_SENTENCE]}..."
    return JSONResponse({"detail": cut}, status, headers)


async def _failed(_: Request, error: Exception) -> JSONResponse:
    return refusal(500, FAILED)


def _unauthorized(_: HTTPConnection, error: AuthenticationError) -> JSONResponse:
    return refusal(401, str(error), {"www-authenticate": "Bearer"})


class BearerToken(AuthenticationBackend):
    """Asks for a token everywhere but on `open_paths`, also where there is nothing."""

    def __init__(self, token: str, open_paths: Collection[str]) -> None:
        self._token, self._open_paths = token.encode(), frozenset(open_paths)

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, SimpleUser] | None:
        """Raises AuthenticationError without the right token; there are no users to tell apart."""
        if conn.scope["path"] not in self._open_paths:
            scheme, given = get_authorization_scheme_param(conn.headers.get("authorization"))
            if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode("latin-1"), self._token):
                raise AuthenticationError(NEEDS_TOKEN)
        return None


class CountRequests:
    """Counts and times every request. A path that is not one of `paths` is counted as "other"."""

    def __init__(self, app: ASGIApp, metrics: Metrics, paths: Collection[str]) -> None:
        self._app, self._metrics, self._paths = app, metrics, frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = NOTHING_SENT

        async def send_noting_status(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        path = scope["path"] if scope["path"] in self._paths else "other"
        method = scope["method"] if scope["method"] in ("GET", "HEAD", "POST") else "other"
        try:
            with self._metrics.seconds.labels(path).time(), self._metrics.in_flight.track_inprogress():
                await self._app(scope, receive, send_noting_status)
        except ClientDisconnect:
            pass  # nobody is left to answer
        finally:
            self._metrics.requests.labels(method, path, status).inc()


class PrepareResponses:
    """Adds the security headers, answers HEAD as GET without a body, and gives up clients who do not read.

    A client who takes nothing for `seconds` is disconnected, so that nobody holds a place forever.
    """

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self._app, self._seconds = app, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        head = scope["method"] == "HEAD"

        async def send_prepared(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            elif head:
                message = {**message, "body": b""}
            try:
                await asyncio.wait_for(send(message), self._seconds)
            except asyncio.TimeoutError as error:
                raise ClientDisconnect from error

        await self._app({**scope, "method": "GET"} if head else scope, receive, send_prepared)


class LimitRequests:
    """Refuses compressed, large and slow bodies, and more than `limits.concurrency` requests at once.

    GET takes no place and has no body. Any other request holds a place until its answer is sent, and its body is read
    here, before anything looks at it.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app, self._limits = app, limits
        self._places = asyncio.Semaphore(limits.concurrency)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or scope["method"] == "GET":
            await self._app(scope, receive, send)
            return
        encodings = Headers(scope=scope).getlist("content-encoding")
        if any(encoding.lower() != "identity" for encoding in encodings):
            await refusal(415, COMPRESSED, CLOSE)(scope, receive, send)
        elif self._places.locked():
            headers = {"retry-after": str(RETRY_AFTER)}
            await refusal(429, self._limits.too_many_requests(), headers)(scope, receive, send)
        else:
            async with self._places:
                await self._with_body(scope, receive, send)

    async def _with_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await asyncio.wait_for(self._read(Request(scope, receive)), self._limits.seconds)
        except asyncio.TimeoutError:
            await refusal(408, self._limits.too_slow(), CLOSE)(scope, receive, send)
            return
        if body is None:
            await refusal(413, self._limits.too_large(), CLOSE)(scope, receive, send)
            return
        unread = [body]

        async def receive_body_first() -> Message:
            return {"type": "http.request", "body": unread.pop(), "more_body": False} if unread else await receive()

        await self._app(scope, receive_body_first, send)

    async def _read(self, request: Request) -> bytes | None:
        """The body; None as soon as it is known to be too large."""
        declared = request.headers.get("content-length", "0")
        if not declared.isdecimal() or int(declared[:20]) > self._limits.body:
            return None
        body = bytearray()
        async with aclosing(request.stream()) as parts:
            with suppress(ClientDisconnect):  # what came is looked at, and the answer goes nowhere
                async for part in parts:
                    body += part
                    if len(body) > self._limits.body:
                        return None
        return bytes(body)
