"""Middleware: metrics, the access log, response headers, the bearer token, Host and Origin, and the limits.

Starlette's own middleware checks the token and turns exceptions into responses. The other classes here are plain ASGI:
Starlette has no deadlines and no limit on concurrent requests, its check of Host refuses by a plain 400 and knows no
Origin, and its body limit (since 1.6) responds in plain text.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import time
from collections.abc import Collection
from contextlib import aclosing, suppress
from urllib.parse import quote, urlsplit

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from fastapi.security.utils import get_authorization_scheme_param
from starlette.authentication import AuthenticationBackend, AuthenticationError
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.middleware.exceptions import ExceptionMiddleware
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
NEEDS_TOKEN = "this service requires a token: send the header 'Authorization: Bearer TOKEN'"
COMPRESSED = "send the body uncompressed, without Content-Encoding"
CLOSE = {"connection": "close"}  # the rest of the body is not read
RETRY_AFTER = {"retry-after": "1"}  # seconds
ACCESS_LOG = logging.getLogger("sparsecert.access")
MAX_LOGGED = 200  # characters of a path
NOTHING_SENT = 499  # the status counted when the client leaves before the response


def add_middleware(
    app: FastAPI,
    limits: Limits,
    metrics: Metrics,
    token: str | None,
    open_paths: Collection[str],
    hosts: Collection[str] | None,
) -> None:
    """Adds all middleware, innermost first, to an application with its routes and exception handlers.

    `open_paths` need no token; `hosts` are those of `CheckHost`, None: any. An application already has exception
    middleware, but its ServerErrorMiddleware is outside all of this, where a 500 would not be counted, and its
    ExceptionMiddleware is inside `LimitRequests`.
    """
    handlers = app.exception_handlers
    app.add_middleware(LimitRequests, limits=limits)
    if hosts is not None:
        app.add_middleware(CheckHost, hosts=hosts)
    app.add_middleware(ExceptionMiddleware, handlers={HTTPException: handlers[HTTPException]})
    app.add_middleware(ServerErrorMiddleware, handler=handlers[Exception])
    if token is not None:
        app.add_middleware(AuthenticationMiddleware, backend=BearerToken(token, open_paths), on_error=_unauthorized)
    app.add_middleware(PrepareResponses, seconds=limits.seconds)
    app.add_middleware(CountRequests, metrics=metrics, paths={getattr(route, "path", "") for route in app.routes})


def _unauthorized(_: HTTPConnection, error: AuthenticationError) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 401, {"www-authenticate": "Bearer"})


class BearerToken(AuthenticationBackend):
    """Requires the token on every path but `open_paths`, unknown paths included."""

    def __init__(self, token: str, open_paths: Collection[str]) -> None:
        self._token, self._open_paths = token.encode(), frozenset(open_paths)

    async def authenticate(self, conn: HTTPConnection) -> None:
        """Raises AuthenticationError without the right token; there are no users."""
        if conn.scope["path"] in self._open_paths:
            return
        scheme, given = get_authorization_scheme_param(conn.headers.get("authorization"))
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode("latin-1"), self._token):
            raise AuthenticationError(NEEDS_TOKEN)


class CheckHost:
    """Refuses requests for another host (421) and from pages of another origin (403).

    A page elsewhere can point its own name at this address, or post here without asking, and so use a service that its
    visitor alone can reach. The Host must be an IP address, which no such page can claim, or one of `hosts`. An Origin,
    which browsers send along with a page's requests, must be the Host, port included, or one of `hosts` without a port.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app, self._hosts = app, frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Request(scope).headers
            host, origin = headers.get("host", ""), headers.get("origin")
            name = _hostname(host)
            if name not in self._hosts and not _is_address(name):
                raise HTTPException(
                    421, f"this service does not answer for {host!r:.80}; see serve --allow-host", CLOSE
                )
            if origin is not None and origin.partition("://")[2].lower() not in {host.lower(), *self._hosts}:
                raise HTTPException(
                    403, f"pages of {origin!r:.80} may not ask this service; see serve --allow-host", CLOSE
                )
        await self._app(scope, receive, send)


def _hostname(host: str) -> str:
    """The host in lower case, without brackets and port; empty if it is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class CountRequests:
    """Counts, times and logs every request; paths outside `paths` count as "other"."""

    def __init__(self, app: ASGIApp, metrics: Metrics, paths: Collection[str]) -> None:
        self._app, self._metrics, self._paths = app, metrics, frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, begun = NOTHING_SENT, time.perf_counter()

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
            _log(scope, status, time.perf_counter() - begun)


def _log(scope: Scope, status: int, seconds: float) -> None:
    """One line of the access log; what a client can choose is quoted, so that it cannot forge a line."""
    client = (scope.get("client") or ("-",))[0]
    path = quote(scope["path"])
    shown = path if len(path) <= MAX_LOGGED else f"{path[:MAX_LOGGED]}..."
    ACCESS_LOG.info("%s %s %s %d %.3f s", quote(str(client), safe=":."), quote(scope["method"]), shown, status, seconds)


class PrepareResponses:
    """Adds the security headers, answers HEAD as GET without a body, and disconnects clients that stop reading.

    A client that reads nothing for `seconds` is disconnected, so that none holds a slot forever.
    """

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self._app, self._seconds = app, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
    """Refuses compressed, large and slow bodies, and more than `limits.concurrency` concurrent requests.

    GET takes no slot and has no body. Any other request holds a slot until its response is sent; its body is read here.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app, self._limits = app, limits
        self._slots = asyncio.Semaphore(limits.concurrency)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] == "GET":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        if any(encoding.lower() != "identity" for encoding in request.headers.getlist("content-encoding")):
            raise HTTPException(415, COMPRESSED, CLOSE)
        if self._slots.locked():
            raise HTTPException(429, self._limits.too_many_requests(), RETRY_AFTER)
        async with self._slots:
            try:
                unread = [await asyncio.wait_for(self._body(request), self._limits.seconds)]
            except asyncio.TimeoutError as error:
                raise HTTPException(408, self._limits.too_slow(), CLOSE) from error

            async def receive_body_first() -> Message:
                return {"type": "http.request", "body": unread.pop()} if unread else await receive()

            await self._app(scope, receive_body_first, send)

    async def _body(self, request: Request) -> bytes:
        """The body; refused as soon as it exceeds the limit."""
        too_large = HTTPException(413, self._limits.too_large(), CLOSE)
        declared = request.headers.get("content-length", "0")
        if not declared.isdecimal() or int(declared[:20]) > self._limits.body:
            raise too_large
        body = bytearray()
        with suppress(ClientDisconnect):  # handle what arrived; the response goes nowhere
            async with aclosing(request.stream()) as parts:
                async for part in parts:
                    body += part
                    if len(body) > self._limits.body:
                        raise too_large
        return bytes(body)
