"""Prometheus metrics of the service."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"  # the text format that `generate_latest` writes
SECONDS = 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0


class Metrics:
    """All metrics of one service, in a registry of its own: several services may run in one process."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "sparsecert_requests_total", "Requests answered.", ("method", "path", "status"), registry=registry
        )
        self.seconds = Histogram(
            "sparsecert_request_seconds", "Time from a request to the end of its answer.", ("path",),
            buckets=SECONDS, registry=registry,
        )  # fmt: skip
        self.in_flight = Gauge("sparsecert_requests_in_flight", "Requests not answered yet.", registry=registry)
        self.jobs = Gauge("sparsecert_jobs", "Requests whose votes are being taken on the device.", registry=registry)
        self.passes = Counter("sparsecert_forward_passes_total", "Forward passes of the model.", registry=registry)
        self.copies = Counter("sparsecert_copies_total", "Ablated copies classified.", registry=registry)
        self.pass_requests = Counter(
            "sparsecert_pass_requests_total", "Requests in a forward pass, summed over passes.", registry=registry
        )
        self.answers = Counter("sparsecert_answers_total", "Answers given.", ("kind", "outcome"), registry=registry)
        ProcessCollector(registry=registry)

    def count_pass(self, requests: int, copies: int) -> None:
        """Counts one forward pass."""
        self.passes.inc()
        self.copies.inc(copies)
        self.pass_requests.inc(requests)

    def count_answer(self, kind: str, abstained: bool) -> None:
        """Counts an answer to `predict` or `certify`."""
        self.answers.labels(kind, "abstained" if abstained else "answered").inc()

    def text(self) -> bytes:
        """All metrics in the Prometheus text format."""
        return generate_latest(_WithoutCreated(self.registry))


class _WithoutCreated(Collector):
    """Omits the `_created` series; the library's own switch acts on the whole process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric
