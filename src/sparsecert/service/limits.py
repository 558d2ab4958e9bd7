"""Limits of the service, and the errors beyond them."""

from __future__ import annotations

from dataclasses import dataclass

from sparsecert.errors import check_int

MAX_SAMPLES = 10_000_000


@dataclass(frozen=True)
class Limits:
    """Maximum bytes in a body (413), ablated copies per answer (422) and concurrent requests (429).

    A request beyond them is refused before any work. A body must arrive within `seconds` (408), and a client that reads
    nothing for as long is disconnected.
    """

    body: int = 4 << 20
    samples: int = 100_000
    concurrency: int = 32
    seconds: int = 30

    def __post_init__(self) -> None:
        check_int("the largest body", self.body, 1, 1 << 30, "2**30 bytes")
        check_int("the most samples", self.samples, 2, MAX_SAMPLES)
        check_int("the concurrency", self.concurrency, 1, 10_000)
        check_int("the seconds for a body", self.seconds, 1, 3_600)

    def too_large(self) -> str:
        return f"the body is larger than {self.body:,} bytes, the limit of this service"

    def too_slow(self) -> str:
        return f"the body did not arrive within {self.seconds} seconds; send it again"

    def too_many_samples(self, name: str, asked: int) -> str:
        return f"{name} asks for {asked:,} ablated copies; this service allows at most {self.samples:,} per request"

    def too_many_requests(self) -> str:
        return f"this service is busy with {self.concurrency} requests, its limit; try again shortly"
