"""The service: what is asked over HTTP, the model's card, and the page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import torch
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from sparsecert import __version__, datasets, models
from sparsecert.errors import InputError
from sparsecert.service import inputs, metrics
from sparsecert.service.batching import ShuttingDown
from sparsecert.service.handlers import Handlers
from sparsecert.service.limits import Limits
from sparsecert.service.middleware import add_middleware
from sparsecert.service.schemas import (
    Card,
    Certified,
    CertifyRequest,
    CertifySettings,
    GivenInput,
    Health,
    Predicted,
    PredictRequest,
    PredictSettings,
    Refusal,
    ShippedDigit,
)
from sparsecert.smoothed import Smoothed

PAGE = Path(__file__).parent / "page"
FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}
OPEN_PATHS = frozenset({*FILES, "/health"})
SHIPPED = {"mnist": "mnist-sample", "mnist-sample": "mnist-sample", "digits": "digits"}  # trained on: what to show
MOST_SHIPPED = 100
LINES = "application/x-ndjson"
REFUSALS: dict[int | str, dict[str, Any]] = {
    401: {"model": Refusal, "description": "No token, or not the right one."},
    408: {"model": Refusal, "description": "The body did not come in time."},
    413: {"model": Refusal, "description": "The body is too large."},
    415: {"model": Refusal, "description": "The body is compressed."},
    422: {"model": Refusal, "description": "Something about the request cannot be used; a sentence says what."},
    429: {"model": Refusal, "description": "Too many requests at once; Retry-After says when to try again."},
    503: {"model": Refusal, "description": "The service is shutting down."},
}
STREAMED: dict[int | str, dict[str, Any]] = {
    **REFUSALS,
    200: {
        "description": "The certificate; with `stream`, lines of JSON: `progress` ones, then one `certificate`.",
        "content": {LINES: {"schema": {"type": "string"}}},
    },
}
PICTURE: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The bytes of a PNG or JPEG file of the model's size.",
        "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in ("image/png", "image/jpeg")},
    }
}
LONGEST_SENTENCE = 300


@dataclass(frozen=True)
class Service:
    """An ASGI application, and the device's thread behind it; `close` finishes what was taken."""

    app: ASGIApp
    handlers: Handlers

    def close(self) -> None:
        """Takes no more requests, and returns when those taken are answered."""
        self.handlers.batcher.close()


def serve(
    smoothed: Smoothed,
    *,
    name: str = "model",
    sha256: str | None = None,
    shape: tuple[int, ...] | None = None,
    reading: inputs.Reading | None = None,
    limits: Limits | None = None,
    token: str | None = None,
    rows: int | None = None,
) -> Service:
    """The service of a classifier; `shape` is of one input, where the model file does not say it.

    `reading` is how inputs come, where they are no plain arrays or pictures, such as the rows of a table.
    """
    limits, counted = limits or Limits(), metrics.Metrics()
    handlers = Handlers(smoothed, reading or inputs.Arrays(_shape(smoothed, shape)), limits, counted, rows)
    app = _application(handlers, name, sha256)
    add_middleware(app, limits, counted, token, OPEN_PATHS)
    return Service(app, handlers)


def _shape(smoothed: Smoothed, given: tuple[int, ...] | None) -> tuple[int, ...]:
    known = given or tuple(smoothed.facts.get("shape") or ())
    if not known:
        raise InputError("the model file does not say the shape of an input; give it, for example --shape 1,28,28")
    return known


def _application(handlers: Handlers, name: str, sha256: str | None) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(handlers.batcher.close)

    app = FastAPI(
        title="sparsecert",
        version=__version__,
        description=f"Predictions and certificates of {name}: how many {handlers.units} may change without its answer.",
        lifespan=lifespan,
        docs_url=None,  # those pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    _handle_mistakes(app)
    _add_facts(app, handlers, name, sha256)
    _add_handlers(app, handlers)
    for path, (file, kind) in FILES.items():
        app.add_api_route(path, _file(PAGE / file, kind), include_in_schema=False)
    return app


def _add_facts(app: FastAPI, handlers: Handlers, name: str, sha256: str | None) -> None:
    @app.get("/health", summary="Whether the service runs")
    async def health() -> Health:
        return Health(version=__version__)

    @app.get("/metrics", summary="Counts for Prometheus", response_class=Response, responses={401: REFUSALS[401]})
    async def counts() -> Response:
        return Response(handlers.metrics.text(), media_type=metrics.CONTENT_TYPE)

    @app.get("/v1/model", summary="The model's card", responses={401: REFUSALS[401]})
    async def model() -> Card:
        return card(handlers, name, sha256)

    @app.get("/v1/digits", summary="Inputs that ship with the package", responses={401: REFUSALS[401]})
    async def digits() -> list[ShippedDigit]:
        return shipped(handlers.smoothed.facts.get("data"), handlers.reading.shape)


def _add_handlers(app: FastAPI, handlers: Handlers) -> None:
    async def certified(x: Any, settings: CertifySettings) -> Any:
        if not settings.stream:
            return await handlers.certify(x, settings)
        return StreamingResponse(await handlers.stream_certificate(x, settings), media_type=LINES)

    @app.post("/v1/predict", summary="Classify an input", responses=REFUSALS)
    async def predict(asked: PredictRequest) -> Predicted:
        return await handlers.predict(_given(asked, handlers.reading), asked)

    @app.post("/v1/predict/image", summary="Classify a picture", responses=REFUSALS, openapi_extra=PICTURE)
    async def predict_image(request: Request, asked: Annotated[PredictSettings, Query()]) -> Predicted:
        return await handlers.predict(await _picture(request, handlers.reading), asked)

    @app.post("/v1/certify", summary="Certify an input", response_model=Certified, responses=STREAMED)
    async def certify(asked: CertifyRequest) -> Any:
        return await certified(_given(asked, handlers.reading), asked)

    @app.post(
        "/v1/certify/image",
        summary="Certify a picture",
        response_model=Certified,
        responses=STREAMED,
        openapi_extra=PICTURE,
    )
    async def certify_image(request: Request, asked: Annotated[CertifySettings, Query()]) -> Any:
        return await certified(await _picture(request, handlers.reading), asked)


def _given(asked: GivenInput, reading: inputs.Reading) -> Any:
    if sum(one is not None for one in (asked.values, asked.image, asked.row)) != 1:
        raise InputError("give the input as values, as image or as row, one of the three")
    if asked.row is not None:
        return reading.from_row(asked.row)
    return reading.from_values(asked.values) if asked.image is None else reading.from_base64(asked.image)


async def _picture(request: Request, reading: inputs.Reading) -> Any:
    if _content_type(request).startswith("multipart/"):
        raise InputError("send the file itself as the body, not a form: curl --data-binary @digit.png")
    return await run_in_threadpool(reading.from_file, await request.body())


def _file(path: Path, kind: str) -> Any:
    async def page() -> FileResponse:
        return FileResponse(path, media_type=kind)

    return page


def _handle_mistakes(app: FastAPI) -> None:
    """Every refusal is {"detail": a sentence}."""

    @app.exception_handler(InputError)
    async def unusable(_: Request, error: InputError) -> JSONResponse:
        return refusal(422, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return refusal(422, _sentence(error, _content_type(request)))

    @app.exception_handler(ShuttingDown)
    async def closing(_: Request, error: ShuttingDown) -> JSONResponse:
        return refusal(503, str(error))

    @app.exception_handler(HTTPException)
    async def unknown(_: Request, error: HTTPException) -> JSONResponse:
        headers = dict(error.headers or {})
        sentences = {
            400: "the body cannot be read as JSON",
            404: "there is nothing at this path; /openapi.json says what there is",
            405: f"this path takes {headers.get('Allow', 'other methods')} alone; /openapi.json says more",
        }
        status = 422 if error.status_code == 400 else error.status_code
        return refusal(status, sentences.get(error.status_code, str(error.detail)), headers)

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> JSONResponse:
        return refusal(500, "the service failed; its log says why")


def _sentence(error: RequestValidationError, content_type: str) -> str:
    """The first thing that is wrong; what came is not repeated, for it may be anything."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return "the body is not JSON"
    where = ".".join(str(part) for part in first["loc"][1:])
    if not where:
        said = "" if "json" in content_type else "; say so with the header Content-Type: application/json"
        return f'the body must be JSON, such as {{"values": [...], "n": 1000}}{said}'
    if first["type"] == "extra_forbidden":
        return f"{where} is nothing that is asked for; /openapi.json says what is"
    return f"{where}: {first['msg']}"


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").lower()


def refusal(status: int, sentence: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """A refusal, in characters that can be sent."""
    sent = sentence.encode("utf-8", "replace").decode()
    cut = sent if len(sent) <= LONGEST_SENTENCE else f"{sent[:LONGEST_SENTENCE]}..."
    return JSONResponse({"detail": cut}, status, headers)


def card(handlers: Handlers, name: str, sha256: str | None) -> Card:
    """What the service has to say about its model."""
    smoothed = handlers.smoothed
    facts, scheme, module = smoothed.facts, smoothed.scheme, smoothed.model
    return Card(
        name=name,
        sha256=sha256,
        version=__version__,
        shape=list(handlers.reading.shape),
        columns=handlers.reading.names,
        classes=handlers.names,
        scheme=scheme.config(),
        encoding=smoothed.encoding.config(),
        architecture=models.architecture_of(module) if isinstance(module, torch.nn.Module) else None,
        precision=smoothed.precision,
        device=str(smoothed.device),
        data=facts.get("data"),
        training=facts.get("training"),
        exact=handlers.masks is not None,
        masks=handlers.masks,
        largest_radius=len(scheme.deltas) - 2,
        guarantee=_promise(handlers),
        limits=asdict(handlers.limits),
    )


def _promise(handlers: Handlers) -> str:
    """What a certificate of this model says, and what it does not."""
    change = f"no change of up to `radius` {handlers.units} alters the model's smoothed answer{handlers.proviso}"
    if handlers.masks is not None:
        return f"A certificate says that {change}. It holds always, and says nothing about the true class."
    return (
        f"A certificate says that {change}. It is wrong with probability at most alpha over the masks drawn, and says "
        "nothing about the true class."
    )


@lru_cache(maxsize=4)
def shipped(data: str | None, shape: tuple[int, ...]) -> list[ShippedDigit]:
    """Inputs like those that the model was trained on, where some ship with the package."""
    if data not in SHIPPED:
        return []
    found = datasets.load(SHIPPED[data], "test")
    if found.images.shape != shape:
        return []
    numbers = found.spaced_indices(MOST_SHIPPED).tolist()
    return [
        ShippedDigit(number=number, name=found.classes[found.labels[number]], values=pixels.flatten().tolist())
        for number, pixels in zip(numbers, found.images.batch(numbers), strict=True)
    ]
