"""The service: its routes, the model card, and the page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any

import torch
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic_core import from_json
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from sparsecert import __version__, datasets, models
from sparsecert.errors import InputError
from sparsecert.procedures import procedure_for
from sparsecert.service import metrics, parsing
from sparsecert.service.batching import ShuttingDown
from sparsecert.service.guarantees import answer_of, model_guarantee
from sparsecert.service.handlers import Handlers
from sparsecert.service.limits import Limits
from sparsecert.service.middleware import add_middleware
from sparsecert.service.schemas import (
    CertifyRequest,
    CertifyResponse,
    CertifySettings,
    ErrorResponse,
    Health,
    InputFields,
    ModelCard,
    PredictRequest,
    PredictResponse,
    PredictSettings,
    ShippedDigit,
)
from sparsecert.service.texts import TextParser
from sparsecert.smoothed import Smoothed

PAGE = Path(__file__).parent / "page"
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
NAMED = {"index.html": "/", "docs.html": "/docs"}
FILES = {NAMED.get(file.name, f"/{file.name}"): file for file in sorted(PAGE.iterdir()) if file.suffix in KINDS}
OPEN_PATHS = frozenset({*FILES, "/health"})
MAX_DIGITS = 100
JSON_LINES = "application/x-ndjson"
ERRORS: dict[int | str, dict[str, Any]] = {
    401: {"model": ErrorResponse, "description": "Missing or wrong token."},
    403: {"model": ErrorResponse, "description": "From a page of another origin."},
    408: {"model": ErrorResponse, "description": "The body did not arrive in time."},
    413: {"model": ErrorResponse, "description": "The body is too large."},
    415: {"model": ErrorResponse, "description": "The body is compressed."},
    421: {"model": ErrorResponse, "description": "For another host."},
    422: {"model": ErrorResponse, "description": "Invalid request; `detail` says why."},
    429: {"model": ErrorResponse, "description": "Too many concurrent requests; see Retry-After."},
    503: {"model": ErrorResponse, "description": "The service is shutting down."},
}
STREAMING: dict[int | str, dict[str, Any]] = {
    **ERRORS,
    200: {
        "description": "The certificate; with `stream`, JSON lines: `progress` events, then one `certificate`.",
        "content": {JSON_LINES: {"schema": {"type": "string"}}},
    },
}
IMAGE_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A PNG or JPEG file of the model's size.",
        "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in ("image/png", "image/jpeg")},
    }
}
MAX_DETAIL = 300


class FastJsonRequest(Request):
    """Parses a body of JSON by pydantic's parser, several times as fast as Python's; it must be UTF-8."""

    async def json(self) -> Any:
        return from_json(await self.body())


class FastJsonRoute(APIRoute):
    """A route whose requests are of this class."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_fast(request: Request) -> Response:
            return await handle(FastJsonRequest(request.scope, request.receive))

        return handle_fast


@dataclass(frozen=True)
class Service:
    """An ASGI application and the device thread behind it."""

    app: ASGIApp
    handlers: Handlers

    def close(self) -> None:
        """Takes no more requests, and returns once the pending ones are answered."""
        self.handlers.batcher.close()


def serve(
    smoothed: Smoothed,
    *,
    name: str = "model",
    sha256: str | None = None,
    shape: tuple[int, ...] | None = None,
    parser: parsing.InputParser | None = None,
    limits: Limits | None = None,
    token: str | None = None,
    rows: int | None = None,
    hosts: Collection[str] | None = None,
) -> Service:
    """The service of a classifier.

    `shape` is that of one input, if the model file does not have it. `parser` parses inputs other than plain arrays and
    images, such as rows of a table. `hosts` are the names it answers for, besides IP addresses; None: any.
    """
    limits, counted = limits or Limits(), metrics.Metrics()
    handlers = Handlers(smoothed, parser or parsing.ArrayParser(_shape(smoothed, shape)), limits, counted, rows)
    app = _application(handlers, name, sha256)
    add_middleware(app, limits, counted, token, OPEN_PATHS, hosts)
    return Service(app, handlers)


def _shape(smoothed: Smoothed, given: tuple[int, ...] | None) -> tuple[int, ...]:
    known = given or tuple(smoothed.metadata.get("shape") or ())
    if not known:
        raise InputError("the model file has no input shape; give one, for example --shape 1,28,28")
    return known


def _application(handlers: Handlers, name: str, sha256: str | None) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(handlers.batcher.close)

    app = FastAPI(
        title="sparsecert",
        version=__version__,
        description=f"Predictions and certificates of {name}; a radius counts perturbed {handlers.units}.",
        lifespan=lifespan,
        docs_url=None,  # FastAPI's pages load scripts from a CDN; /docs is a page of our own
        redoc_url=None,
        redirect_slashes=False,
    )
    app.router.route_class = FastJsonRoute
    _add_exception_handlers(app)
    _add_info_routes(app, handlers, name, sha256)
    _add_model_routes(app, handlers)
    for path, file in FILES.items():
        app.add_api_route(path, _file(file), include_in_schema=False)
    return app


def _add_info_routes(app: FastAPI, handlers: Handlers, name: str, sha256: str | None) -> None:
    @app.get("/health", summary="Health check")
    async def health() -> Health:
        return Health(version=__version__)

    @app.get("/metrics", summary="Prometheus metrics", response_class=Response, responses={401: ERRORS[401]})
    async def counts() -> Response:
        return Response(handlers.metrics.text(), media_type=metrics.CONTENT_TYPE)

    @app.get("/v1/model", summary="The model card", responses={401: ERRORS[401]})
    async def model() -> ModelCard:
        return model_card(handlers, name, sha256)

    @app.get("/v1/digits", summary="Shipped inputs", responses={401: ERRORS[401]})
    async def digits() -> list[ShippedDigit]:
        return shipped(handlers.smoothed.metadata.get("data"), handlers.parser.shape)


def _add_model_routes(app: FastAPI, handlers: Handlers) -> None:
    of_image = partial(app.post, openapi_extra=IMAGE_BODY)

    async def certified(x: Any, settings: CertifySettings) -> Any:
        if not settings.stream:
            return _json(await handlers.certify(x, settings))
        return StreamingResponse(await handlers.stream_certificate(x, settings), media_type=JSON_LINES)

    @app.post("/v1/predict", summary="Classify an input", response_model=PredictResponse, responses=ERRORS)
    async def predict(asked: PredictRequest) -> Any:
        return _json(await handlers.predict(_parse_input(asked, handlers.parser), asked))

    @of_image("/v1/predict/image", summary="Classify an image", response_model=PredictResponse, responses=ERRORS)
    async def predict_image(request: Request, asked: Annotated[PredictSettings, Query()]) -> Any:
        return _json(await handlers.predict(await _parse_image(request, handlers.parser), asked))

    @app.post("/v1/certify", summary="Certify an input", response_model=CertifyResponse, responses=STREAMING)
    async def certify(asked: CertifyRequest) -> Any:
        return await certified(_parse_input(asked, handlers.parser), asked)

    @of_image("/v1/certify/image", summary="Certify an image", response_model=CertifyResponse, responses=STREAMING)
    async def certify_image(request: Request, asked: Annotated[CertifySettings, Query()]) -> Any:
        return await certified(await _parse_image(request, handlers.parser), asked)


def _json(answer: BaseModel) -> Response:
    """The answer as it is: FastAPI would check it once more."""
    return Response(answer.model_dump_json(), media_type="application/json")


def _parse_input(asked: InputFields, parser: parsing.InputParser) -> Any:
    if sum(one is not None for one in (asked.values, asked.image, asked.row, asked.text)) != 1:
        raise InputError("give the input as exactly one of values, image, row and text")
    if asked.text is not None:
        if not isinstance(parser, TextParser):
            raise InputError("this model takes no texts; send values, an image or a row")
        return parser.from_text(asked.text)
    if asked.row is not None:
        return parser.from_row(asked.row)
    return parser.from_values(asked.values) if asked.image is None else parser.from_base64(asked.image)


async def _parse_image(request: Request, parser: parsing.InputParser) -> Any:
    if _content_type(request).startswith("multipart/"):
        raise InputError("send the file itself as the body, not as a form: curl --data-binary @digit.png")
    return await run_in_threadpool(parser.from_file, await request.body())


def _file(path: Path) -> Any:
    async def page() -> FileResponse:
        return FileResponse(path, media_type=f"{KINDS[path.suffix]}; charset=utf-8")

    return page


def _add_exception_handlers(app: FastAPI) -> None:
    """Every error is {"detail": message}."""

    @app.exception_handler(InputError)
    async def unusable(_: Request, error: InputError) -> JSONResponse:
        return error_response(422, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return error_response(422, _message(error, _content_type(request)))

    @app.exception_handler(ShuttingDown)
    async def closing(_: Request, error: ShuttingDown) -> JSONResponse:
        return error_response(503, str(error))

    @app.exception_handler(HTTPException)
    async def unknown(_: Request, error: HTTPException) -> JSONResponse:
        headers = dict(error.headers or {})
        details = {
            400: "the body is not JSON",
            404: "nothing at this path; see /docs",
            405: f"this path only takes {headers.get('Allow', 'other methods')}; see /docs",
        }
        status = 422 if error.status_code == 400 else error.status_code
        return error_response(status, details.get(error.status_code, str(error.detail)), headers)

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> JSONResponse:
        return error_response(500, "internal error; see the log of the service")


def _message(error: RequestValidationError, content_type: str) -> str:
    """The first error, without the offending value, which may be anything."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return "the body is not JSON"
    where = ".".join(str(part) for part in first["loc"][1:])
    if not where:
        hint = "" if "json" in content_type else "; set the header Content-Type: application/json"
        return f'the body must be JSON, such as {{"values": [...], "n": 1000}}{hint}'
    if first["type"] == "extra_forbidden":
        return f"{where} is not a known field; see /docs"
    return f"{where}: {first['msg']}"


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").lower()


def error_response(status: int, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """An error, in valid UTF-8 and short."""
    sent = detail.encode("utf-8", "replace").decode()
    cut = sent if len(sent) <= MAX_DETAIL else f"{sent[:MAX_DETAIL]}..."
    return JSONResponse({"detail": cut}, status, headers)


def model_card(handlers: Handlers, name: str, sha256: str | None) -> ModelCard:
    """The model card."""
    smoothed = handlers.smoothed
    metadata, scheme, module = smoothed.metadata, smoothed.scheme, smoothed.model
    procedure = procedure_for(smoothed)
    rule = procedure.elects_by(handlers.smoothed.scheme)
    return ModelCard(
        name=name,
        sha256=sha256,
        version=__version__,
        shape=list(handlers.parser.shape),
        units=handlers.units,
        columns=handlers.parser.names,
        categories=handlers.parser.categories,
        classes=handlers.names,
        scheme=scheme.config(),
        encoding=smoothed.encoding.config(),
        architecture=models.architecture_of(module) if isinstance(module, torch.nn.Module) else None,
        precision=smoothed.precision,
        device=str(smoothed.device),
        data=metadata.get("data"),
        training=metadata.get("training"),
        exact=handlers.masks is not None,
        masks=handlers.masks,
        rule=rule,
        answer=answer_of(rule),
        text_unit=handlers.parser.reader.unit if isinstance(handlers.parser, TextParser) else None,
        largest_radius=None if scheme.is_open else len(scheme.deltas) - 2,
        guarantee=model_guarantee(handlers.against(procedure), handlers.masks is not None, rule, handlers.condition),
        limits=asdict(handlers.limits),
    )


@lru_cache(maxsize=4)
def shipped(data: str | None, shape: tuple[int, ...]) -> list[ShippedDigit]:
    """Shipped inputs like the training data, if there are any."""
    name = datasets.shipped_like(data) if data else None
    if name is None:
        return []
    found = datasets.load(name, "test")
    if found.images.shape != shape:
        return []
    numbers = found.spaced_indices(MAX_DIGITS).tolist()
    return [
        ShippedDigit(number=number, name=found.classes[found.labels[number]], values=pixels.flatten().tolist())
        for number, pixels in zip(numbers, found.images.batch(numbers), strict=True)
    ]
