"""Handles requests: checks the settings, has the device's thread take the votes, and writes the answer."""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from typing import Any, TypeVar

import torch

from sparsecert.encodings import PROTECTED, Grouped
from sparsecert.errors import InputError
from sparsecert.procedures import Exact, Fixed, Procedure, Sequential
from sparsecert.procedures.exact import PATCHES, fixed
from sparsecert.procedures.pipelining import Steps
from sparsecert.progress import ignore
from sparsecert.results import Certifications
from sparsecert.schemes import FixedMasks
from sparsecert.service.batching import Batcher, Job
from sparsecert.service.inputs import Reading
from sparsecert.service.limits import Limits
from sparsecert.service.metrics import Metrics
from sparsecert.service.schemas import (
    CertificateLine,
    Certified,
    CertifySettings,
    ErrorLine,
    Predicted,
    PredictSettings,
    Settings,
)
from sparsecert.service.streaming import ProgressStream
from sparsecert.smoothed import Smoothed
from sparsecert.votes.voter import Voter

SEED_BITS = 53  # of a seed drawn here: a number that JavaScript holds exactly
CHANCE = frozenset({"alpha", "seed", "example", "n0", "n", "bound", "sampling", "max_samples", "tolerance"})
OF_FIXED_MASKS = frozenset({"rule", "against"})
OF_SEQUENTIAL = frozenset({"max_samples", "tolerance"})
T = TypeVar("T")


class Handlers:
    """Handles predict and certify requests, many at once; each input is Float[1, *shape] of `reading`."""

    def __init__(
        self, smoothed: Smoothed, reading: Reading, limits: Limits, metrics: Metrics, rows: int | None = None
    ) -> None:
        self.smoothed, self.reading, self.limits, self.metrics = smoothed, reading, limits, metrics
        base = smoothed.voter(torch.zeros(1, *reading.shape))
        self.classes = base.classes
        self.batcher = Batcher(base, metrics, rows)

    @property
    def masks(self) -> int | None:
        """How many there are where they are a fixed set; None where they are drawn at random."""
        return len(self.smoothed.scheme.table) if isinstance(self.smoothed.scheme, FixedMasks) else None

    @property
    def names(self) -> list[str]:
        """Of the classes; their numbers where the model file names none."""
        names = self.smoothed.facts.get("class_names")
        known = isinstance(names, list) and len(names) == self.classes
        return [str(name) for name in names] if known and names is not None else [str(n) for n in range(self.classes)]

    @property
    def units(self) -> str:
        """What a radius counts."""
        if self.reading.units is not None:
            return self.reading.units
        grouped = isinstance(self.smoothed.encoding, Grouped)  # there may be as many groups as pixels, but other ones
        return "pixels" if self.smoothed.scheme.units == math.prod(self.reading.shape[1:]) and not grouped else "units"

    @property
    def proviso(self) -> str:
        """What every certificate takes for granted of entries that are never ablated; empty where there are none."""
        encoding, names = self.smoothed.encoding, self.reading.names
        if not isinstance(encoding, Grouped) or not encoding.protected:
            return ""
        if names is None or encoding.groups.shape != (len(names),):
            return f", as long as the {encoding.protected} protected entries are as they were"
        kept = [name for name, group in zip(names, encoding.groups.tolist(), strict=True) if group == PROTECTED]
        return f", as long as the protected {', '.join(kept)} {'are' if len(kept) > 1 else 'is'} unaltered"

    async def predict(self, x: torch.Tensor, settings: PredictSettings) -> Predicted:
        """The class, or an abstention."""
        self._check_settings(settings)
        if self.masks is None:
            self._check_samples("n", settings.n)
        procedure = Fixed(n=settings.n) if self.masks is None else Exact(self._rule(settings))
        seed = self._seed(settings)
        job = self.batcher.submit(self._steps(procedure, procedure.predict, x, settings, seed))
        found = await asyncio.wrap_future(job.done)
        (label,) = found.answers
        self.metrics.count_answer("predict", label is None)
        return Predicted(
            **self._common_fields(label, settings, seed), samples=found.n, invalid=int(found.invalid[0]),
            votes=found.counts[0].tolist(),
        )  # fmt: skip

    async def certify(self, x: torch.Tensor, settings: CertifySettings) -> Certified:
        """The certificate."""
        procedure, seed = self._procedure(settings), self._seed(settings)
        job = self.batcher.submit(self._steps(procedure, procedure.certify, x, settings, seed))
        return self._certified(await asyncio.wrap_future(job.done), settings, seed)

    def _procedure(self, settings: CertifySettings) -> Procedure:
        """As the settings say; refuses more samples than the service gives."""
        self._check_settings(settings)
        if self.masks is not None:
            return Exact(self._rule(settings), settings.against)
        if settings.sampling == "sequential":
            self._check_samples("max_samples", settings.max_samples)
            return Sequential(settings.max_samples, settings.n0, settings.tolerance, bound=settings.bound)
        self._check_samples("n0 + n", settings.n0 + settings.n)
        return Fixed(settings.n0, settings.n, settings.bound)

    def _steps(
        self,
        procedure: Procedure,
        verb: Callable[..., Steps[T]],
        x: torch.Tensor,
        settings: Settings,
        seed: int | None,
    ) -> Callable[[Voter], Steps[T]]:
        """What the device's thread does for a request, whoever takes the votes."""

        def steps(voter: Voter) -> Steps[T]:
            alpha = settings.alpha if self.masks is None else None
            procedure.check(self.smoothed.scheme, alpha, seed or 0)
            return verb(voter, self.smoothed.check(x), [settings.example], alpha, seed or 0, ignore)

        return steps

    async def stream_certificate(self, x: torch.Tensor, settings: CertifySettings) -> AsyncIterator[str]:
        """The same in lines of JSON while the votes come in. What is wrong with the settings is raised here, not there.

        The work is left where it is when nobody reads on.
        """
        procedure, seed = self._procedure(settings), self._seed(settings)
        loop = asyncio.get_running_loop()
        stream = ProgressStream(self.smoothed.scheme, settings, procedure, self.classes, loop)
        job = self.batcher.submit(self._steps(procedure, procedure.certify, x, settings, seed), stream.on_pass)
        done = asyncio.ensure_future(asyncio.wrap_future(job.done))
        await _wait_for_either(done, stream.changed)
        if done.done() and done.exception() is not None:
            done.result()
        return self._stream(job, done, stream, settings, seed)

    async def _stream(
        self,
        job: Job[Any],
        done: asyncio.Future[Any],
        stream: ProgressStream,
        settings: CertifySettings,
        seed: int | None,
    ) -> AsyncIterator[str]:
        try:
            over = False
            while not over:
                await _wait_for_either(done, stream.changed)
                over = done.done()
                if (line := stream.line()) is not None:
                    yield line.model_dump_json() + "\n"
            yield self._last_line(done, settings, seed) + "\n"
        finally:
            job.drop()

    def _last_line(self, done: asyncio.Future[Any], settings: CertifySettings, seed: int | None) -> str:
        try:
            certified = self._certified(done.result(), settings, seed)
        except Exception as error:  # the status has been sent; the last line says what happened
            detail = str(error) if isinstance(error, InputError) else "the service failed; its log says why"
            return ErrorLine(detail=detail).model_dump_json()
        return CertificateLine(**certified.model_dump()).model_dump_json()

    def _seed(self, settings: Settings) -> int | None:
        """The seed that was given, or a fresh one that nobody could know beforehand; None for a fixed set of masks."""
        if self.masks is not None:
            return None
        return secrets.randbits(SEED_BITS) if settings.seed is None else settings.seed

    def _rule(self, settings: Settings) -> str:
        return settings.rule or self.reading.rule

    def _certified(self, found: Certifications, settings: CertifySettings, seed: int | None) -> Certified:
        certificate, exactly = found[0], found.procedure if isinstance(found.procedure, Exact) else None
        self.metrics.count_answer("certify", certificate.label is None)
        against, alpha = self.units, settings.alpha if exactly is None else None
        if exactly is not None and exactly.perturbs(fixed(self.smoothed.scheme)) == PATCHES:
            against = PATCHES
        p_lower, p_upper = (None if math.isnan(p) else p for p in (float(found.p_lower[0]), float(found.p_upper[0])))
        return Certified(
            **self._common_fields(certificate.label, settings, seed),
            radius=certificate.radius,
            against=against,
            selected=int(found.selected[0]),
            selection=None if found.selection is None else found.selection.votes[0].tolist(),
            votes=found.counts[0].tolist(),
            samples=int(found.samples[0]),
            invalid=int(found.invalid[0]),
            p_lower=p_lower,
            p_upper=p_upper,
            bound=settings.bound if exactly is None else None,
            sampling=settings.sampling if exactly is None else "exact",
            guarantee=guarantee(certificate.radius, against, alpha, self.proviso),
        )

    def _common_fields(self, label: int | None, settings: Settings, seed: int | None) -> dict[str, Any]:
        return {
            "label": label,
            "name": None if label is None else self.names[label],
            "abstained": label is None,
            "alpha": settings.alpha if self.masks is None else None,
            "seed": seed,
            "example": settings.example,
        }

    def _check_settings(self, settings: Settings) -> None:
        """Refuses what is of the other kind of model, or of the other kind of sampling."""
        given = settings.model_fields_set
        if self.masks is None and (wrong := given & OF_FIXED_MASKS):
            raise InputError(f"{min(wrong)} is for a fixed set of masks; this model draws them at random: leave it out")
        if self.masks is not None and (wrong := given & CHANCE):
            raise InputError(
                f"{min(wrong)} is for masks drawn at random; the {self.masks} masks of this model are fixed, and all "
                f"of them vote: leave it out"
            )
        if isinstance(settings, CertifySettings):
            sequential = settings.sampling == "sequential"
            wrong = given & (frozenset({"n"}) if sequential else OF_SEQUENTIAL)
            if wrong:
                other = "fixed" if sequential else "sequential"
                raise InputError(f"{min(wrong)} is for sampling={other}, got sampling={settings.sampling}")

    def _check_samples(self, name: str, asked: int) -> None:
        if asked > self.limits.samples:
            raise InputError(self.limits.too_many_samples(name, asked))


def guarantee(radius: int | None, against: str, alpha: float | None, proviso: str = "") -> str:
    """What a certificate says, in words, and on what condition."""
    if radius is None:
        return "Nothing is certified, not even the answer for this input itself."
    if against == PATCHES:
        change = f"No altered square patch of up to {radius} x {radius} pixels alters the answer"
    else:
        change = f"No change of up to {radius} {against} alters the answer"
    change += proviso
    if alpha is None:
        return f"{change}. This holds always, if the model gives a copy the same scores in any batch."
    sure = 1 - Decimal(str(alpha))  # all its digits: a rounded one might promise more
    return f"{change}, with probability at least {sure} over the masks that were drawn."


async def _wait_for_either(done: asyncio.Future[Any], changed: asyncio.Event) -> None:
    """Waits until the work is done or there is something new."""
    waiting = asyncio.ensure_future(changed.wait())
    try:
        await asyncio.wait({done, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
