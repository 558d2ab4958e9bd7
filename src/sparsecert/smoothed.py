"""The smoothed classifier g: any model, made certifiable."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from sparsecert import devices, encodings, modelfile, models, schemes
from sparsecert.bounds import corrected_alpha, predicted
from sparsecert.certificates import method_named
from sparsecert.certificates.adversary import Adversary, PerturbedUnits
from sparsecert.checks import whole
from sparsecert.counts import Counts
from sparsecert.encodings import Encoding, NullChannels, ReplacedValues
from sparsecert.errors import InputError
from sparsecert.procedures import exact
from sparsecert.procedures.exact import ExactCertifications
from sparsecert.procedures.pipelining import Steps, finish
from sparsecert.procedures.sequential import Sequential
from sparsecert.procedures.stages import certify_in_stages
from sparsecert.results import Certifications, Predictions
from sparsecert.schemes import ESTIMATION, MAX_DRAWS, PREDICTION, SELECTION, Scheme
from sparsecert.schemes.philox import key_of
from sparsecert.votes.ablation import PRECISIONS, Ablation, Model, dtype_of
from sparsecert.votes.loop import Progress, Voting

if TYPE_CHECKING:
    from art.estimators.classification import PyTorchClassifier
    from foolbox import PyTorchModel

MOST_ROWS = 1 << 24
AUTO = "auto"


class Smoothed:
    """g(x) = the class that `model` gives most often to randomly ablated copies of x, with certificates for it.

        g = Smoothed(net, scheme=Uniform(units=784, keep=45), encoding=NullChannels())
        c = g.certify(images, n0=1_000, n=10_000, alpha=0.05, seed=0)
        c.labels, c.radii, c.abstained

    `model` maps encoded copies Float[rows, encoding.channels(c), ...] to scores Float[rows, classes]. The guarantee
    asks one thing of it: a row's scores depend on that row alone. Modules are put into eval mode for a call and given
    back as they were. Inputs are Float[b, channels, ...] (or Float[b, features]) and never edited. Everything runs on
    the device of the model's parameters; `rows` copies at a time, or what the free memory suggests. `precision` is
    that of the forward passes: "auto" takes bf16 for a module of 32-bit weights on a device that multiplies bf16 in
    hardware, and otherwise computes the model as it is ("fp32"). A certificate is of the model so computed.
    """

    def __init__(
        self,
        model: Model,
        scheme: Scheme,
        encoding: Encoding | None = None,
        *,
        classes: int | None = None,
        precision: str = AUTO,
        rows: int | None = None,
        facts: dict[str, Any] | None = None,
    ) -> None:
        _check_parts(model, scheme, encoding)
        self.model = model
        self.scheme = scheme
        self.encoding = _usual_encoding(scheme) if encoding is None else encoding
        self.encoding.check_scheme(scheme)
        self.classes = classes
        self.precision = precision
        self.rows = None if rows is None else whole("rows", rows, 1, MOST_ROWS)
        self.facts = dict(facts or {})  # what else the model file's header holds: data set, input shape, training

    @property
    def device(self) -> torch.device:
        """Where the model's parameters are; the CPU for a model without any."""
        parameter = _first_parameter(self.model)
        return torch.device("cpu") if parameter is None else parameter.device

    @property
    def precision(self) -> str:
        """What forward passes are computed in on the model's device: as requested, or what "auto" takes there."""
        if self.requested_precision != AUTO:
            return self.requested_precision
        return devices.native_precision(self.device) if dtype_of(self.model) == torch.float32 else "fp32"

    @precision.setter
    def precision(self, requested: str) -> None:
        if requested not in (AUTO, *PRECISIONS):
            raise InputError(f"precision must be one of {', '.join((AUTO, *PRECISIONS))}, got {requested!r}")
        self.requested_precision = requested

    def to(self, device: str | torch.device) -> Smoothed:
        """Moves the model to the device, and returns this classifier."""
        if isinstance(self.model, torch.nn.Module):
            self.model.to(device)
        return self

    def predict(
        self,
        x: torch.Tensor,
        n: int = 10_000,
        alpha: float = 0.05,
        seed: int = 0,
        *,
        examples: Sequence[int] | None = None,
        progress: Progress | None = None,
    ) -> Predictions:
        """The class g(x) of each input, or an abstention; a wrong class (not g's) has probability at most alpha.

        `examples` number the inputs for their masks (default 0, 1, ...); `progress` gets copies done.
        """
        return finish(self.predicting(x, n, alpha, seed, examples=examples, progress=progress))

    def predicting(
        self,
        x: torch.Tensor,
        n: int,
        alpha: float,
        seed: int,
        *,
        examples: Sequence[int] | None = None,
        progress: Progress | None = None,
        voting: Voting | None = None,
    ) -> Steps[Predictions]:
        """`predict`, in steps: yields when its votes are queued. `voting` saves looking at the model again."""
        check_settings(self.scheme, seed, n=n)
        level = corrected_alpha(alpha, self.scheme, n)
        counted = self.begin_count(x, PREDICTION, n, seed, examples=examples, progress=progress, voting=voting)
        yield
        votes = counted()
        answers = tuple(predicted(votes[row], level) for row in range(len(votes)))
        return Predictions(votes, answers, n, alpha, seed)

    def certify(
        self,
        x: torch.Tensor,
        n0: int = 1_000,
        n: int = 10_000,
        alpha: float = 0.05,
        seed: int = 0,
        *,
        bound: str = "two-sided",
        sampling: Sequential | None = None,
        examples: Sequence[int] | None = None,
        progress: Progress | None = None,
    ) -> Certifications:
        """A certificate for each input: with probability at least 1 - alpha its answer survives `radius` altered units.

        n0 copies choose the class; n fresh ones bound its probability (and, for the two-sided bound, its rivals'). With
        `sampling=Sequential(...)` in place of n0 and n, each input gets as many copies as its radius needs. Whoever
        made the inputs must not have known the seed, nor may it be chosen by looking at votes.
        """
        if sampling is not None:
            if (n0, n) != (1_000, 10_000):
                raise InputError("n0 and n are a fixed number of samples; with sampling, give it n0 and max_samples")
            work = self.certifying_sequentially(
                x, sampling, alpha, seed, bound=bound, examples=examples, progress=progress
            )
            return finish(work)
        return finish(self.certifying(x, n0, n, alpha, seed, bound=bound, examples=examples, progress=progress))

    def certify_exactly(
        self,
        x: torch.Tensor,
        *,
        rule: str = "run-off",
        seconds: float = 0.0,
        adversary: Adversary | None = None,
        progress: Progress | None = None,
    ) -> ExactCertifications:
        """A certificate for each input that holds always: g is the vote of exactly the masks of a fixed set.

        `rule`: "plurality", or "run-off" between the two leading classes. The radius is a number of altered units, or
        what `adversary` says, such as the side of a patch. Where masks overlap, `seconds` is the time for
        a linear program that may enlarge each radius. One thing is assumed beyond what is proved: that the model gives
        a copy the same scores whatever batch it is in.
        """
        scheme = exact.fixed(self.scheme)
        adversary = adversary or PerturbedUnits(scheme.table, seconds)
        return finish(self.certifying_exactly(x, rule=rule, adversary=adversary, progress=progress))

    def certifying_exactly(
        self,
        x: torch.Tensor,
        *,
        rule: str,
        adversary: Adversary,
        progress: Progress | None = None,
        voting: Voting | None = None,
    ) -> Steps[ExactCertifications]:
        """`certify_exactly`, in steps: yields when its votes are queued. `voting` saves looking at the model again."""
        exact.rule_named(rule)
        exact.check_damage(adversary, exact.fixed(self.scheme), self.encoding.sides(self.check(x).shape[1:]))
        ranks = yield from self.ranking(x, progress=progress, voting=voting)
        return ExactCertifications(exact.certified(ranks, rule, adversary), ranks, rule)

    def ranking(
        self, x: torch.Tensor, *, progress: Progress | None = None, voting: Voting | None = None
    ) -> Steps[npt.NDArray[np.int16]]:
        """int16[b, masks, classes]: how each input's copy by each mask ranks the classes, in steps; 0 is the first."""
        scheme, inputs = exact.fixed(self.scheme), self.check(x)
        ranked = (voting or self.voting(inputs)).ranks(inputs, len(scheme.table), progress)
        yield
        ranks: npt.NDArray[np.int16] = ranked().numpy()
        _warn_of_invalid(int((ranks.max(axis=2) == 0).sum()), ranks.shape[0] * ranks.shape[1])
        return ranks

    def certifying(
        self,
        x: torch.Tensor,
        n0: int,
        n: int,
        alpha: float,
        seed: int,
        *,
        bound: str,
        examples: Sequence[int] | None = None,
        progress: Progress | None = None,
        voting: Voting | None = None,
    ) -> Steps[Certifications]:
        """`certify`, in steps: yields when its votes are queued. `voting` saves looking at the model again."""
        method = method_named(bound)
        check_settings(self.scheme, seed, alpha, n0=n0, n=n)
        voting = voting or self.voting(x)
        begun = [
            self.begin_count(x, purpose, draws, seed, examples=examples, progress=progress, voting=voting)
            for purpose, draws in ((SELECTION, n0), (ESTIMATION, n))
        ]
        yield
        selection, estimation = (counted() for counted in begun)
        certificates = tuple(
            method.certify(selection[row], estimation[row], self.scheme, alpha) for row in range(len(estimation))
        )
        samples = np.full(len(certificates), n0 + n)
        return Certifications(
            certificates, selection, estimation, n0, n, alpha, seed, bound, samples, scheme=self.scheme
        )

    def certifying_sequentially(
        self,
        x: torch.Tensor,
        sampling: Sequential,
        alpha: float,
        seed: int,
        *,
        bound: str,
        examples: Sequence[int] | None = None,
        progress: Progress | None = None,
        voting: Voting | None = None,
    ) -> Steps[Certifications]:
        """`certify` with `sampling`, in steps: yields whenever the votes of a look are queued."""
        method_named(bound)
        check_settings(self.scheme, seed)
        sampling.check(self.scheme, alpha)
        x = self.check(x)
        numbers = _numbers(examples, len(x))
        voting = voting or self.voting(x)
        stopped = yield from certify_in_stages(voting, x, numbers, self.scheme, sampling, alpha, seed, bound, progress)
        _warn_of_invalid(int(stopped.invalid.sum()), int(stopped.samples.sum()))
        return Certifications(
            stopped.certificates, stopped.selection, stopped.estimation, sampling.n0, sampling.most, alpha, seed, bound,
            stopped.samples, stopped.answers,
        )  # fmt: skip

    def count(
        self,
        x: torch.Tensor,
        purpose: int,
        n: int,
        seed: int = 0,
        *,
        examples: Sequence[int] | None = None,
        progress: Progress | None = None,
    ) -> Counts:
        """The votes of each input's n copies for one purpose (`schemes.SELECTION`, ...), which has masks of its own."""
        return self.begin_count(x, purpose, n, seed, examples=examples, progress=progress)()

    def begin_count(
        self,
        x: torch.Tensor,
        purpose: int,
        n: int,
        seed: int,
        *,
        examples: Sequence[int] | None = None,
        progress: Progress | None = None,
        voting: Voting | None = None,
    ) -> Callable[[], Counts]:
        """`count`, begun: call the result for the counts."""
        check_settings(self.scheme, seed, n=n)
        inputs = self.check(x)
        numbers = _numbers(examples, len(inputs))
        voting = voting or self.voting(inputs)
        begun = voting.begin(inputs, numbers, range(purpose, purpose + n), seed, progress)

        def counted() -> Counts:
            counts = begun()
            _warn_of_invalid(int(counts.invalid.sum()), n * len(counts))
            return counts

        return counted

    def voting(self, x: torch.Tensor, classes: int | None = None) -> Voting:
        """The model, looked at with the first of these inputs and ready to vote; refused unless it has `classes`."""
        precision, device = self.precision, self.device
        devices.check_precision(precision, PRECISIONS[precision], device)
        ablation = Ablation(self.model, self.scheme, self.encoding, device, precision)
        return Voting(ablation, self.check(x)[:1], self.rows, classes or self.classes)

    def save(self, path: str | Path, *, half: bool = False) -> None:
        """Writes a model file: the weights, and in its header scheme, encoding, classes, architecture and facts.

        A module of `sparsecert.models` is rebuilt by `load` from the file alone; your own module is handed to it. With
        `half` the weights are rounded to 16 bits in the file, half its size; `load` gives them back as 32-bit numbers,
        and it is that rounded model that its certificates are of.
        """
        if not isinstance(self.model, torch.nn.Module):
            raise InputError(f"only a torch.nn.Module can be saved, the model is a {type(self.model).__name__}")
        header = {
            "scheme": self.scheme.config(),
            "encoding": self.encoding.config(),
            "classes": self.classes,
            "precision": self.requested_precision,
            "architecture": models.architecture_of(self.model),
            "facts": self.facts,
            "half": half,
        }
        tensors = self.model.state_dict()
        modelfile.write(path, modelfile.to_half(tensors) if half else tensors, header)

    @classmethod
    def load(
        cls,
        path: str | Path,
        model: torch.nn.Module | None = None,
        device: str | torch.device = "cpu",
        *,
        precision: str | None = None,
        rows: int | None = None,
    ) -> Smoothed:
        """The classifier that `save` wrote, from its file or run folder; weights go into `model` where one is given.

        `precision` replaces the one it was saved with; `rows` is as in the constructor.
        """
        return cls._rebuilt(path, *modelfile.read(path), model, device, precision, rows)

    @classmethod
    def load_bytes(
        cls,
        data: bytes,
        name: str,
        model: torch.nn.Module | None = None,
        device: str | torch.device = "cpu",
        *,
        precision: str | None = None,
        rows: int | None = None,
    ) -> Smoothed:
        """`load` from what the file of that name holds, on a machine that does not see the file."""
        return cls._rebuilt(name, *modelfile.parse(data, name), model, device, precision, rows)

    @classmethod
    def _rebuilt(
        cls,
        path: str | Path,
        tensors: modelfile.Tensors,
        header: dict[str, Any],
        model: torch.nn.Module | None,
        device: str | torch.device,
        precision: str | None,
        rows: int | None,
    ) -> Smoothed:
        """The classifier of a model file's tensors and header."""
        modelfile.refuse_plain(path, header)
        modelfile.refuse_table(path, header)
        if model is not None and not isinstance(model, torch.nn.Module):
            raise InputError(f"model must be a torch.nn.Module that takes the weights of {path}, got {_named(model)}")
        if header.get("half"):
            tensors = {name: t.float() if t.dtype == torch.float16 else t for name, t in tensors.items()}
        try:
            architecture, classes = header["architecture"], header["classes"]
            precision, facts = precision or modelfile.saved_precision(header), dict(header["facts"])
            scheme, encoding = schemes.from_config(header["scheme"]), encodings.from_config(header["encoding"])
            if model is None and architecture is not None:
                model = models.build(**architecture)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} is not the file of a classifier, or its header is damaged ({error})") from error
        if model is None:
            raise InputError(f"{path} holds the weights of a module of yours: load(path, model=YourModule())")
        try:
            model.to(next((t.dtype for t in tensors.values() if t.is_floating_point()), None))
            model.load_state_dict(tensors)
        except RuntimeError as error:
            raise InputError(f"{path} does not fit the model: {' '.join(str(error).split())}") from error
        return cls(model.to(device), scheme, encoding, classes=classes, precision=precision, rows=rows, facts=facts)

    def as_foolbox(
        self,
        n: int = 10_000,
        alpha: float = 0.05,
        seed: int = 0,
        *,
        batch: int = 64,
        copies: int = 128,
        abstains: bool = True,
        fresh: bool = True,
    ) -> PyTorchModel:
        """This classifier as a model of Foolbox, whose attacks fool it where `predict` does not answer the true label.

        Scores are shares of the votes, and an abstention is a last class of its own, unless `abstains` is False; each
        query has masks of its own, unless `fresh` is False. `adapters.scores` says all of what attacks see.
        """
        from sparsecert.adapters.foolbox import foolbox_model
        from sparsecert.adapters.scores import Scores

        return foolbox_model(Scores(self, n, alpha, seed, batch=batch, copies=copies, abstains=abstains, fresh=fresh))

    def as_art(
        self,
        n: int = 10_000,
        alpha: float = 0.05,
        seed: int = 0,
        *,
        shape: Sequence[int] | None = None,
        batch: int = 64,
        copies: int = 128,
        abstains: bool = True,
        fresh: bool = True,
    ) -> PyTorchClassifier:
        """The same for the Adversarial Robustness Toolbox; `shape` of one image, where no model file says it."""
        from sparsecert.adapters.art import art_classifier
        from sparsecert.adapters.scores import Scores

        scores = Scores(self, n, alpha, seed, batch=batch, copies=copies, abstains=abstains, fresh=fresh)
        return art_classifier(scores, shape)

    def check(self, x: torch.Tensor) -> torch.Tensor:
        """The inputs in the model's dtype, or a refusal that says what is wrong with them."""
        if not isinstance(x, torch.Tensor) or x.ndim < 2 or len(x) < 1:
            given: Any = x
            found = f"shape {tuple(x.shape)}" if isinstance(given, torch.Tensor) else type(given).__name__
            hint = "; torch.as_tensor(x) makes it one" if isinstance(given, np.ndarray) else ""
            raise InputError(f"inputs must be a tensor of shape (batch, channels, ...), batch >= 1, got {found}{hint}")
        units = self.encoding.units(x.shape[1:])
        if units != self.scheme.units:
            shape = tuple(x.shape)
            hint = "; inputs are (batch, channels, height, width) or (batch, features)"
            raise InputError(
                f"inputs of shape {shape} have {units} units each, the scheme has units={self.scheme.units}{hint}"
            )
        if not x.is_floating_point():
            raise InputError(f"inputs must be floating point, got {x.dtype}; for 8-bit images pass x.float() / 255")
        parameter = _first_parameter(self.model)
        inputs = x.detach().to(x.dtype if parameter is None else parameter.dtype)
        if not torch.isfinite(inputs).all():
            bad = (~torch.isfinite(inputs)).flatten(1).any(dim=1).nonzero()[0].item()
            raise InputError(f"inputs must be finite in the model's {inputs.dtype}; input {bad} holds NaN or infinity")
        _warn_of_8_bits(inputs, self.encoding)
        return inputs

    def __repr__(self) -> str:
        return f"Smoothed({type(self.model).__name__}, {self.scheme}, {self.encoding})"


def _check_parts(model: Any, scheme: Any, encoding: Any) -> None:
    """Refuses arguments in another order, and classes where objects are meant."""
    if not callable(model) or not isinstance(scheme, Scheme) or not isinstance(encoding, Encoding | None):
        found = ", ".join(map(_named, (model, scheme, encoding)))
        raise InputError(f"Smoothed takes (model, scheme, encoding), for example Uniform(784, 45), got ({found})")


def _named(part: Any) -> str:
    """What an argument is, in a refusal; a class is not mistaken for one of its objects."""
    return f"the class {part.__name__}" if isinstance(part, type) else getattr(part, "__name__", type(part).__name__)


def _usual_encoding(scheme: Scheme) -> Encoding:
    """What shows copies of this scheme unless something else is asked."""
    return NullChannels() if scheme.values is None else ReplacedValues(scheme.values)


def _numbers(examples: Sequence[int] | None, inputs: int) -> Sequence[int]:
    """The numbers that decide each input's masks."""
    numbers = range(inputs) if examples is None else examples
    if len(numbers) != inputs:
        raise InputError(f"examples must number each of the {inputs} inputs, got {len(numbers)}")
    return numbers


def _warn_of_invalid(invalid: int, copies: int) -> None:
    if invalid:
        share = f"{invalid} of {copies} ablated copies"
        warnings.warn(f"{share} gave scores that are not finite; they count against the leader", stacklevel=4)


def _warn_of_8_bits(inputs: torch.Tensor, encoding: Encoding) -> None:
    """Images of whole numbers beyond 1 are 8-bit values that nobody divided; what is certified holds all the same."""
    if isinstance(encoding, NullChannels) and encoding.mean is None and inputs.ndim > 3:
        most = float(inputs.max())
        if most > 1 and torch.equal(inputs, inputs.round()):
            why = f"inputs are whole numbers up to {most:g}, and NullChannels is made for values in [0, 1]"
            warnings.warn(f"{why}; for 8-bit images pass x / 255", stacklevel=5)


def check_settings(scheme: Scheme, seed: int, alpha: float | None = None, **draws: int) -> None:
    """Refuses settings that cannot be used before any work is done or file written."""
    for name, number in draws.items():
        whole(name, number, 1, MAX_DRAWS - 1, "2**40 - 1")
    key_of(seed)
    if alpha is not None:
        corrected_alpha(alpha, scheme, draws["n"])


def _first_parameter(model: Any) -> torch.nn.Parameter | None:
    """A floating-point parameter of the model, which says its device and dtype."""
    if not isinstance(model, torch.nn.Module):
        return None
    return next((p for p in model.parameters() if p.is_floating_point()), None)
