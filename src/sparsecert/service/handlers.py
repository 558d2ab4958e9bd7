"""Request handlers: check the settings, submit a job to the batcher, build the response."""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import AsyncIterator, Callable, Hashable
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch

from sparsecert.errors import InputError
from sparsecert.procedures import Exact, Fixed, Procedure, Sequential, procedure_for
from sparsecert.procedures.by_units import by_units
from sparsecert.procedures.exact import PATCHES
from sparsecert.procedures.pipelining import Steps
from sparsecert.procedures.procedure import SampledProcedure, refuse_other_masks
from sparsecert.results import Certifications, Predictions
from sparsecert.schemes import FixedMasks
from sparsecert.service.batching import Batcher, Begin, Job, QueuedCopies, VoteTask
from sparsecert.service.gathering import Gathering
from sparsecert.service.guarantees import certificate_guarantee
from sparsecert.service.limits import Limits
from sparsecert.service.metrics import Metrics
from sparsecert.service.parsing import InputParser
from sparsecert.service.schemas import (
    CertificateLine,
    CertifyResponse,
    CertifySettings,
    ErrorLine,
    PredictResponse,
    PredictSettings,
    Settings,
)
from sparsecert.service.streaming import ProgressStream
from sparsecert.smoothed import Smoothed
from sparsecert.votes.voter import Voter

SEED_BITS = 53  # of a fresh seed, so that JavaScript holds it exact
SEQUENTIAL_ONLY = frozenset({"max_samples", "tolerance"})
T = TypeVar("T", Certifications, Predictions)


class Handlers:
    """Handles concurrent predict and certify requests; an input is Float[1, *shape], as `parser` returns it."""

    def __init__(
        self, smoothed: Smoothed, parser: InputParser, limits: Limits, metrics: Metrics, rows: int | None = None
    ) -> None:
        self.smoothed, self.parser, self.limits, self.metrics = smoothed, parser, limits, metrics
        dtype = torch.int64 if smoothed.encoding.takes_integers else None
        base = smoothed.voter(torch.zeros(1, *parser.shape, dtype=dtype))
        self.classes = base.classes
        self.batcher = Batcher(base, metrics, rows)
        self._gathering = Gathering(self.batcher, max(1, self.batcher.rows // (self.masks or 1)))

    @property
    def masks(self) -> int | None:
        """The number of fixed masks; None for random masks."""
        return self.smoothed.scheme.count if isinstance(self.smoothed.scheme, FixedMasks) else None

    @property
    def names(self) -> list[str]:
        """Class names; numbers if the model file has none."""
        names = self.smoothed.metadata.get("class_names")
        known = isinstance(names, list) and len(names) == self.classes
        return [str(name) for name in names] if known and names is not None else [str(n) for n in range(self.classes)]

    @property
    def units(self) -> str:
        """What a radius counts, unless it is the side of patches."""
        return self.smoothed.encoding.units(self.parser.shape).name

    def against(self, procedure: Procedure) -> str:
        """What a radius of this procedure counts: units, or the side of patches."""
        patches = isinstance(procedure, Exact) and procedure.perturbs(self.smoothed.scheme) == PATCHES
        return PATCHES if patches else self.units

    @property
    def condition(self) -> str:
        """What certificates assume of training inputs and of protected entries; empty if there is nothing to say."""
        encoding, names = self.smoothed.encoding, self.parser.names
        independent = self.smoothed.metadata.get("independent")
        trained = ", even if the training inputs are perturbed in the same places" if independent else ""
        if not encoding.protected:
            return trained
        if names is None:
            return f"{trained}, as long as the {encoding.protected} protected entries are unchanged"
        in_units = encoding.perturbed(torch.eye(len(names), dtype=torch.bool)).any(dim=1).tolist()
        protected = [name for name, in_unit in zip(names, in_units, strict=True) if not in_unit]
        verb = "are" if len(protected) > 1 else "is"
        return f"{trained}, as long as the protected {', '.join(protected)} {verb} unchanged"

    async def predict(self, x: torch.Tensor, settings: PredictSettings) -> PredictResponse:
        self._check_settings(settings)
        if self.masks is None:
            self._check_samples("n", settings.n)
        asked = Fixed(n=settings.n, bound=settings.bound) if self.masks is None else Exact(settings.rule)
        procedure = procedure_for(self.smoothed, asked)
        seed = self._seed(settings)
        begin = partial(self._begin, procedure, procedure.predict, settings, seed)
        found, row = await self._found(x, (procedure, "predict"), begin)
        label = found.answers[row]
        self.metrics.count_answer("predict", label is None)
        return PredictResponse(
            **self._common_fields(label, settings, seed, procedure), samples=found.n, invalid=int(found.invalid[row]),
            votes=found.counts[row].tolist(),
        )  # fmt: skip

    async def certify(self, x: torch.Tensor, settings: CertifySettings) -> CertifyResponse:
        procedure, seed = self._procedure(settings), self._seed(settings)
        begin = partial(self._begin, procedure, procedure.certify, settings, seed)
        found, row = await self._found(x, (procedure, "certify"), begin)
        return self._certified(found if len(found) == 1 else found.take(np.array([row])), settings, seed)

    async def _found(
        self, x: torch.Tensor, asked: Hashable, begin: Callable[[torch.Tensor], Begin[T]]
    ) -> tuple[T, int]:
        """The result for the input and its row there; with fixed masks, requests that ask the same are batched."""
        x = self.smoothed.check(x)  # before others share its fate
        if self.masks is not None:
            return await self._gathering.result(asked, x, begin)
        return await asyncio.wrap_future(self.batcher.submit(begin(x)).done), 0

    def _procedure(self, settings: CertifySettings) -> Procedure:
        """The procedure the settings ask for; refuses more samples than the limit."""
        self._check_settings(settings)
        return procedure_for(self.smoothed, self._asked(settings))

    def _asked(self, settings: CertifySettings) -> Procedure:
        if self.masks is not None:
            return Exact(settings.rule, settings.against)
        if settings.sampling == "sequential":
            self._check_samples("max_samples", settings.max_samples)
            return Sequential(settings.max_samples, settings.n0, settings.tolerance, bound=settings.bound)
        self._check_samples("n0 + n", settings.n0 + settings.n)
        return Fixed(settings.n0, settings.n, settings.bound)

    def _begin(
        self, procedure: Procedure, verb: Callable[..., Steps[T]], settings: Settings, seed: int | None, x: torch.Tensor
    ) -> Begin[T]:
        """The steps for inputs that `Smoothed.check` has passed, for the device thread."""

        def steps(voter: Voter, queue: list[VoteTask]) -> Steps[T]:
            alpha = settings.alpha if self.masks is None else None
            procedure.check(self.smoothed.scheme, alpha, seed or 0)
            return by_units(verb, QueuedCopies(voter, x, [settings.example] * len(x), seed or 0, queue=queue), alpha)

        return steps

    async def stream_certificate(self, x: torch.Tensor, settings: CertifySettings) -> AsyncIterator[str]:
        """JSON lines while the votes come in; settings are checked before the first line.

        The job is cancelled when the client disconnects.
        """
        procedure, seed, x = self._procedure(settings), self._seed(settings), self.smoothed.check(x)
        loop = asyncio.get_running_loop()
        scheme = self.smoothed.scheme.for_units(self.smoothed.encoding.count_units(x)[0])
        stream = ProgressStream(scheme, settings, procedure, self.classes, loop)
        job = self.batcher.submit(self._begin(procedure, procedure.certify, settings, seed, x), stream.on_pass)
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
            job.cancel()

    def _last_line(self, done: asyncio.Future[Any], settings: CertifySettings, seed: int | None) -> str:
        try:
            certified = self._certified(done.result(), settings, seed)
        except Exception as error:  # the status is already sent; the last line reports the error
            detail = str(error) if isinstance(error, InputError) else "internal error; see the log of the service"
            return ErrorLine(detail=detail).model_dump_json()
        return CertificateLine(**certified.model_dump()).model_dump_json()

    def _seed(self, settings: Settings) -> int | None:
        """The given seed, or a fresh unpredictable one; None for fixed masks."""
        if self.masks is not None:
            return None
        return secrets.randbits(SEED_BITS) if settings.seed is None else settings.seed

    def _certified(self, found: Certifications, settings: CertifySettings, seed: int | None) -> CertifyResponse:
        certificate, exact, procedure = found[0], self.masks is not None, found.procedure
        self.metrics.count_answer("certify", certificate.label is None)
        against, alpha = self.against(procedure), None if exact else settings.alpha
        p_lower, p_upper = (None if math.isnan(p) else p for p in (float(found.p_lower[0]), float(found.p_upper[0])))
        return CertifyResponse(
            **self._common_fields(certificate.label, settings, seed, procedure),
            radius=certificate.radius,
            against=against,
            selected=int(found.selected[0]),
            selection=None if found.selection is None else found.selection.votes[0].tolist(),
            votes=found.counts[0].tolist(),
            samples=int(found.samples[0]),
            invalid=int(found.invalid[0]),
            p_lower=p_lower,
            p_upper=p_upper,
            bound=procedure.method.name if isinstance(procedure, SampledProcedure) else None,
            sampling="exact" if exact else settings.sampling,
            guarantee=certificate_guarantee(
                certificate.radius, against, alpha, procedure.elects_by(self.smoothed.scheme), self.condition
            ),
        )

    def _common_fields(
        self, label: int | None, settings: Settings, seed: int | None, procedure: Procedure
    ) -> dict[str, Any]:
        return {
            "label": label,
            "name": None if label is None else self.names[label],
            "abstained": label is None,
            "rule": procedure.elects_by(self.smoothed.scheme),
            "alpha": settings.alpha if self.masks is None else None,
            "seed": seed,
            "example": settings.example,
        }

    def _check_settings(self, settings: Settings) -> None:
        """Refuses settings of the other kind of masks or of the other kind of sampling."""
        given = settings.model_fields_set
        refuse_other_masks(self.smoothed.scheme, {name: name for name in sorted(given)})
        if isinstance(settings, CertifySettings):
            sequential = settings.sampling == "sequential"
            wrong = given & (frozenset({"n"}) if sequential else SEQUENTIAL_ONLY)
            if wrong:
                other = "fixed" if sequential else "sequential"
                raise InputError(f"{min(wrong)} is for sampling={other}, got sampling={settings.sampling}")

    def _check_samples(self, name: str, asked: int) -> None:
        if asked > self.limits.samples:
            raise InputError(self.limits.too_many_samples(name, asked))


async def _wait_for_either(done: asyncio.Future[Any], changed: asyncio.Event) -> None:
    """Waits until the job is done or has progress to report."""
    waiting = asyncio.ensure_future(changed.wait())
    try:
        await asyncio.wait({done, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
