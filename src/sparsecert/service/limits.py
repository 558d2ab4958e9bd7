"""What the service takes at most, and the sentences it refuses more with."""

from __future__ import annotations

from dataclasses import dataclass

from sparsecert.errors import whole

MOST_SAMPLES = 10_000_000


@dataclass(frozen=True)
class Limits:
    """At most so many bytes in a body, ablated copies for an answer, and requests at once.

    More is refused before anything is done for it: 413, 422 and 429. A body has to come within so many seconds (408),
    and whoever does not read on for as long is given up.
    """

    body: int = 4 << 20
    samples: int = 100_000
    concurrency: int = 32
    seconds: int = 30

    def __post_init__(self) -> None:
        whole("the largest body", self.body, 1, 1 << 30, "2**30 bytes")
        whole("the most samples", self.samples, 2, MOST_SAMPLES)
        whole("the concurrency", self.concurrency, 1, 10_000)
        whole("the seconds for a body", self.seconds, 1, 3_600)

    def too_large(self) -> str:
        """For a body."""
        return f"the body is larger than {self.body:,} bytes, which is the most that this service takes"

    def too_slow(self) -> str:
        """For a body that does not come."""
        return f"the body did not come within {self.seconds} seconds; send it again"

    def too_many_samples(self, name: str, asked: int) -> str:
        """For a number of samples."""
        return f"{name} is {asked:,} ablated copies; this service takes at most {self.samples:,} for one answer"

    def too_many_requests(self) -> str:
        """For one request more than are taken at once."""
        return f"this service is working on {self.concurrency} requests, the most it takes at once; try again shortly"
