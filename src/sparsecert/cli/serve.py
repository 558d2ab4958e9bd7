"""`sparsecert serve`."""

from __future__ import annotations

import gc
import ipaddress
import logging
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparsecert.cli import options
from sparsecert.errors import InputError

TOKEN = "SPARSECERT_TOKEN"
SWITCH = (
    0.0005  # s until a thread that waits asks for its turn: under load, 5 ms at every step slow the device thread down
)
if TYPE_CHECKING:
    from sparsecert.service.parsing import InputParser

MISSING = "the service needs an extra: pip install 'sparsecert[serve]' ({})"


@click.command(short_help="Serve a model over HTTP, with a page to try it.")
@click.argument("model", type=click.Path())
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; the default is local only.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65_535), help="0: any free port.")
@click.option(
    "--token-file", type=click.Path(dir_okay=False, exists=True),
    help=f"Require the token in this file (or in the environment variable {TOKEN}).",
)  # fmt: skip
@click.option(
    "--allow-host", multiple=True, metavar="NAME",
    help="Also answer for this host name, such as a proxy's; repeatable. IP addresses and localhost are allowed.",
)  # fmt: skip
@click.option("--access-log", is_flag=True, help="Log one line per request on standard error.")
@click.option("--max-body", default=4 << 20, show_default=True, help="Maximum bytes of a request (413).")
@click.option("--max-samples", default=100_000, show_default=True, help="Maximum ablated copies per request (422).")
@click.option("--concurrency", default=32, show_default=True, help="Maximum concurrent requests (429).")
@click.option("--shape", metavar="C,H,W", help="Shape of one input, if the model file has none.")
@options.together(options.network, options.computation)
def serve(
    model: str,
    host: str,
    port: int,
    token_file: str | None,
    allow_host: tuple[str, ...],
    access_log: bool,
    max_body: int,
    max_samples: int,
    concurrency: int,
    shape: str | None,
    network: str | None,
    device: str,
    precision: str | None,
    rows: int | None,
) -> None:
    """Serve a model over HTTP: predictions, certificates, and a page to try them.

    MODEL is a model file, the folder of a training run (images or a table), or the name of a shipped model, such as
    mnist-k45. The page is at /, the API at /docs and /openapi.json. Behind a proxy, pass its name by --allow-host; it
    may serve all this under any path that ends with a slash. Ctrl-C or SIGTERM finishes the pending
    requests and exits.

    \b
    Examples:
      sparsecert serve mnist-k45
      sparsecert serve runs/table-k5 --port 8001
      sparsecert serve mnist-k45 --host 0.0.0.0 --port 80 --token-file token.txt
    """
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise InputError(MISSING.format(error)) from error
    from sparsecert import modelfile
    from sparsecert.service import Limits
    from sparsecert.service import serve as service_of
    from sparsecert.smoothed import Smoothed

    token = _token(token_file)
    smoothed = Smoothed.load(model, network, device, precision=precision, rows=rows)
    parser: InputParser | None = None
    if "table" in smoothed.metadata:
        from sparsecert.service.rows import RowParser
        from sparsecert.tabular.tables import Columns

        options.refuse_given(["shape"], "is for images; leave it out for a table")
        parser = RowParser(Columns.from_config(smoothed.metadata["table"]))
    if "text" in smoothed.metadata:
        from sparsecert.inputs.words import WordReader
        from sparsecert.service.texts import TextParser

        options.refuse_given(["shape"], "is for images; leave it out for texts")
        parser = TextParser(WordReader.from_metadata(smoothed.metadata))
    service = service_of(
        smoothed,
        name=Path(model).resolve().name,
        sha256=modelfile.fingerprint(model),
        shape=_sizes(shape),
        parser=parser,
        limits=Limits(max_body, max_samples, concurrency),
        token=token,
        rows=rows,
        hosts={"localhost", host, *_host_names(allow_host)},
    )
    if access_log:
        _log_requests()
    listening = _listen(host, port)
    click.echo(options.computing("forward passes", smoothed), err=True)
    if token is None and not _is_loopback(host):
        click.echo(f"Warning: {host} is reachable from other machines and needs no token; see --token-file", err=True)
    _run(uvicorn, service.app, listening)


def _listen(host: str, port: int) -> socket.socket:
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise InputError(
            f"cannot listen on {host}:{port} ({error.strerror}); choose another --host or --port"
        ) from error
    # Connections inherit this; asyncio sets it only on sockets that it made. Without it the body of an answer, which is
    # sent after the headers, waits up to 40 ms for the client to acknowledge these.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _run(uvicorn: Any, app: Any, listening: socket.socket) -> None:
    """Serves until a signal, then finishes the pending requests."""

    class Server(uvicorn.Server):  # type: ignore[misc]
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            host, port = listening.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            click.echo(f"serving on http://{shown}:{port}  (Ctrl-C to stop)", err=True)

    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.SIG_IGN)  # uvicorn handles them, and raises them again at the end
    sys.setswitchinterval(SWITCH)
    gc.collect()
    gc.freeze()  # what is there now stays; else every full collection goes through it, and all requests wait
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
    Server(config).run(sockets=[listening])


def _log_requests() -> None:
    handler, logger = logging.StreamHandler(), logging.getLogger("sparsecert.access")
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def _host_names(given: tuple[str, ...]) -> tuple[str, ...]:
    for name in given:
        if not name or any(part in name for part in "/:*@ "):
            raise InputError(f"--allow-host must be a host name without scheme and port, got {name!r}")
    return given


def _token(file: str | None) -> str | None:
    """The required token, if any; an empty one is refused."""
    token = os.environ.get(TOKEN) if file is None else Path(file).read_text(encoding="utf-8").strip()
    if token is not None and (not token or not token.isascii() or not token.isprintable() or " " in token):
        source = TOKEN if file is None else file
        raise InputError(f"the token in {source} must be printable characters without spaces, and not empty")
    return token


def _sizes(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = text.split(",")
    if not all(part.strip().isdigit() and int(part) for part in parts):
        raise InputError(f"--shape must be sizes separated by commas, such as 1,28,28, got {text!r}")
    return tuple(int(part) for part in parts)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
