"""What the service counts of itself, in the text format that Prometheus reads.

The format: https://prometheus.io/docs/instrumenting/exposition_formats/ (version 0.0.4).
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from pathlib import Path

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0


class Number:
    """A number for each set of labels, that only grows (counter) or goes up and down (gauge)."""

    def __init__(self, name: str, kind: str, text: str, labels: tuple[str, ...] = ()) -> None:
        self.name, self.kind, self.text, self.labels = name, kind, text, labels
        self._values: dict[tuple[str, ...], float] = {} if labels else {(): 0.0}
        self._lock = threading.Lock()

    def add(self, amount: float, *values: str) -> None:
        """Adds to the number of these label values."""
        with self._lock:
            self._values[values] = self._values.get(values, 0.0) + amount

    def set(self, amount: float, *values: str) -> None:
        """Replaces the number of these label values."""
        with self._lock:
            self._values[values] = amount

    def value(self, *values: str) -> float:
        """The number of these label values; 0 where nothing was counted."""
        with self._lock:
            return self._values.get(values, 0.0)

    def lines(self) -> list[str]:
        """The number as Prometheus reads it."""
        with self._lock:
            known = sorted(self._values.items())
        return [
            *self._head(),
            *(f"{self.name}{braced(self.labels, values)} {written(number)}" for values, number in known),
        ]

    def _head(self) -> list[str]:
        return [f"# HELP {self.name} {self.text}", f"# TYPE {self.name} {self.kind}"]


class Histogram:
    """How many observations of each label value were at most so large."""

    def __init__(self, name: str, text: str, label: str, edges: tuple[float, ...]) -> None:
        self.name, self.text, self.label, self.edges = name, text, label, edges
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}
        self._lock = threading.Lock()

    def observe(self, amount: float, value: str) -> None:
        """Counts one observation."""
        with self._lock:
            counts = self._counts.setdefault(value, [0] * (len(self.edges) + 1))
            counts[bisect_left(self.edges, amount)] += 1
            self._sums[value] = self._sums.get(value, 0.0) + amount

    def lines(self) -> list[str]:
        """The histogram as Prometheus reads it: each bucket holds the smaller ones too."""
        lines = [f"# HELP {self.name} {self.text}", f"# TYPE {self.name} histogram"]
        with self._lock:
            for value in sorted(self._counts):
                total = 0
                for edge, count in zip((*map(str, self.edges), "+Inf"), self._counts[value], strict=True):
                    total += count
                    lines.append(f"{self.name}_bucket{braced((self.label, 'le'), (value, edge))} {total}")
                labels = braced((self.label,), (value,))
                lines += [f"{self.name}_sum{labels} {written(self._sums[value])}", f"{self.name}_count{labels} {total}"]
        return lines


class Metrics:
    """Everything the service counts; any thread may count, and any may read."""

    def __init__(self) -> None:
        self.requests = Number(
            "sparsecert_requests_total", "counter", "Requests answered.", ("method", "path", "status")
        )
        self.seconds = Histogram(
            "sparsecert_request_seconds", "Time from a request to the end of its answer.", "path", SECONDS
        )
        self.in_flight = Number("sparsecert_requests_in_flight", "gauge", "Requests taken and not answered yet.")
        self.jobs = Number("sparsecert_jobs", "gauge", "Requests whose votes are being taken on the device.")
        self.passes = Number("sparsecert_forward_passes_total", "counter", "Forward passes of the model.")
        self.copies = Number("sparsecert_copies_total", "counter", "Ablated copies classified.")
        self.together = Number(
            "sparsecert_pass_requests_total", "counter", "Requests that shared a forward pass, summed over passes."
        )
        self.answers = Number("sparsecert_answers_total", "counter", "Answers given.", ("kind", "outcome"))
        self.memory = Number("process_resident_memory_bytes", "gauge", "Resident memory of the process.")

    def passed(self, requests: int, copies: int) -> None:
        """Counts one forward pass."""
        self.passes.add(1)
        self.copies.add(copies)
        self.together.add(requests)

    def answered(self, kind: str, abstained: bool) -> None:
        """Counts an answer to `predict` or `certify`."""
        self.answers.add(1, kind, "abstained" if abstained else "answered")

    def text(self) -> str:
        """All of it as Prometheus reads it."""
        resident = resident_bytes()
        if resident is not None:
            self.memory.set(resident)
        parts: tuple[Number | Histogram, ...] = (
            self.requests, self.seconds, self.in_flight, self.jobs, self.passes, self.copies, self.together,
            self.answers, self.memory,
        )  # fmt: skip
        return "\n".join(line for part in parts for line in part.lines()) + "\n"


def braced(labels: tuple[str, ...], values: tuple[str, ...]) -> str:
    """{name="value",...}, with backslashes, quotes and line ends escaped; nothing where there are no labels."""
    if not labels:
        return ""
    pairs = zip(labels, values, strict=True)
    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in pairs) + "}"


def written(number: float) -> str:
    """The number with all its digits, whole ones without a point."""
    return str(int(number)) if number == int(number) else repr(number)


def escaped(value: str) -> str:
    """A label value as the format wants it."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resident_bytes(status: Path = Path("/proc/self/status")) -> int | None:
    """Memory of this process that is in RAM; None where the system does not say."""
    try:
        lines = status.read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS:"))
    except (OSError, StopIteration, ValueError):
        return None
