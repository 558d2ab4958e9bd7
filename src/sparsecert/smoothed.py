"""The smoothed classifier g: any model, made certifiable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from sparsecert import devices, modelfile, models
from sparsecert.counts import Counts
from sparsecert.encodings import Encoding, NullChannels, ReplacedValues
from sparsecert.errors import InputError, check_int, describe
from sparsecert.loaders import certify_batches, example_numbers, is_loader
from sparsecert.procedures import Procedure, check_settings, procedure_for
from sparsecert.procedures.by_units import by_units
from sparsecert.procedures.pipelining import Steps, finish
from sparsecert.procedures.procedure import warn_of_invalid
from sparsecert.progress import OnProgress, ignore
from sparsecert.results import Certifications, Predictions
from sparsecert.schemes import Scheme
from sparsecert.votes.copies import Copies
from sparsecert.votes.precision import PRECISIONS, dtype_of
from sparsecert.votes.probe import Model
from sparsecert.votes.voter import Voter

if TYPE_CHECKING:
    from art.estimators.classification import PyTorchClassifier
    from foolbox import PyTorchModel

T = TypeVar("T", Certifications, Predictions)

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
        metadata: dict[str, Any] | None = None,
    ) -> None:
        _check_parts(model, scheme, encoding)
        self.model = model
        self.scheme = scheme
        self.encoding = _usual_encoding(scheme) if encoding is None else encoding
        self.encoding.check_scheme(scheme)
        self.classes = classes
        self.precision = precision
        self.rows = None if rows is None else check_int("rows", rows, 1, MOST_ROWS)
        self.metadata = dict(metadata or {})  # of the model file: data set, input shape, training, own bound or rule

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

    def certify(
        self,
        x: torch.Tensor | Iterable[Any],
        procedure: Procedure | None = None,
        *,
        n0: int | None = None,
        n: int | None = None,
        alpha: float | None = None,
        seed: int = 0,
        examples: Sequence[int] | None = None,
        on_progress: OnProgress = ignore,
    ) -> Certifications:
        """A certificate for each input: no change of up to `radius` units changes the answer.

        `procedure` says how it is obtained: `Fixed(n0, n)` samples, for which n0= and n= are short, `Sequential(...)`,
        as many as the radius needs, or `Exact(...)`, all masks of a fixed set. Without it, `Exact` for a fixed set of
        masks and `Fixed` otherwise. Sampled certificates hold with probability at least 1 - alpha (default 0.05), exact
        ones always. Whoever made the inputs must not have known the seed, nor may it be chosen by looking at votes.
        `examples` number the inputs for their masks (default 0, 1, ...). `x` may be a DataLoader, a torch
        Dataset, or any iterable of tensors, (inputs, labels) batches or (input, label) pairs. The result is of all of
        them, with the labels as `truth`.
        """
        procedure = procedure_for(self, procedure, n0, n)
        certify = procedure.certify_with_origin
        if is_loader(x):
            call = partial(self._finish, procedure, certify, alpha=alpha, seed=seed, on_progress=on_progress)
            return certify_batches(lambda inputs, numbers: call(inputs, examples=numbers), x, examples)
        return self._finish(procedure, certify, x, alpha, seed, examples, on_progress)

    def predict(
        self,
        x: torch.Tensor,
        procedure: Procedure | None = None,
        *,
        n: int | None = None,
        alpha: float | None = None,
        seed: int = 0,
        examples: Sequence[int] | None = None,
        on_progress: OnProgress = ignore,
    ) -> Predictions:
        """The class g(x) of each input, or an abstention; a wrong class (not g's) has probability at most alpha.

        Arguments are as in `certify`; of a fixed set all masks vote, unless n is given, and nothing abstains.
        """
        procedure = procedure_for(self, procedure, n=n)
        return self._finish(procedure, procedure.predict, x, alpha, seed, examples, on_progress)

    def _finish(
        self,
        procedure: Procedure,
        verb: Callable[..., Steps[T]],
        x: Any,
        alpha: float | None,
        seed: int,
        examples: Sequence[int] | None,
        on_progress: OnProgress,
    ) -> T:
        alpha = procedure.level(alpha)
        procedure.check(self.scheme, alpha, seed)
        inputs = self.check(x)
        copies = Copies(self._voter(inputs), inputs, example_numbers(examples, len(inputs)), seed, on_progress)
        result = finish(by_units(verb, copies, alpha))
        on_progress(len(inputs), 0)
        return result

    def count(
        self, x: torch.Tensor, purpose: int, n: int, seed: int = 0, *, examples: Sequence[int] | None = None
    ) -> Counts:
        """The votes of each input's n copies for one purpose (`schemes.SELECTION`, ...), which has masks of its own."""
        check_settings(self.scheme, seed, n=n)
        inputs = self.check(x)
        numbers = example_numbers(examples, len(inputs))
        counts = Copies(self._voter(inputs), inputs, numbers, seed).begin_count(purpose, 0, n)()
        warn_of_invalid(int(counts.invalid.sum()), n * len(counts))
        return counts

    def scheme_for(self, x: torch.Tensor) -> Scheme:
        """The scheme for inputs with as many units as these have; an open one is bound to each input in turn."""
        return self.scheme if self.scheme.is_open else self.scheme.for_units(self.encoding.units(x.shape[1:]).count)

    def voter(self, x: torch.Tensor, classes: int | None = None) -> Voter:
        """The model, probed with the first of these inputs and ready to vote; refused unless it has `classes`."""
        return self._voter(self.check(x), classes)

    def _voter(self, inputs: torch.Tensor, classes: int | None = None) -> Voter:
        precision, device = self.precision, self.device
        devices.check_precision(precision, PRECISIONS[precision], device)
        return Voter(
            self.model, self.scheme_for(inputs), self.encoding, inputs[:1],
            device=device, precision=precision, rows=self.rows, classes=classes or self.classes,
        )  # fmt: skip

    def save(self, path: str | Path, *, half: bool = False) -> None:
        """Writes a model file: the weights, and in its header scheme, encoding, classes, architecture and metadata.

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
            "facts": self.metadata,
            "half": half,
        }
        tensors = self.model.state_dict()
        modelfile.write(path, modelfile.to_half(tensors) if half else tensors, header)

    @classmethod
    def load(
        cls,
        path: str | Path,
        model: torch.nn.Module | str | None = None,
        device: str | torch.device = "cpu",
        *,
        precision: str | None = None,
        rows: int | None = None,
    ) -> Smoothed:
        """The classifier that `save` wrote, from its file or run folder; weights go into `model` where one is given.

        `model` may be a name, `module:factory`, to import and call as factory(channels, classes). `device`: "auto" is
        a GPU if there is one. `precision` replaces the one it was saved with; `rows` is as in the constructor. The
        boosted trees of a table run on the CPU in fp64: another device or precision is refused.
        """
        file = modelfile.find_model(path)
        return cls.load_bytes(modelfile.read_bytes(file), str(file), model, device, precision=precision, rows=rows)

    @classmethod
    def load_bytes(
        cls,
        data: bytes,
        name: str,
        model: torch.nn.Module | str | None = None,
        device: str | torch.device = "cpu",
        *,
        precision: str | None = None,
        rows: int | None = None,
    ) -> Smoothed:
        """`load` from the bytes of the file of that name, on a machine that does not see the file."""
        tensors, header = modelfile.parse(data, name)
        modelfile.refuse_plain(name, header)
        if header.get("kind") == modelfile.TABLE:
            from sparsecert.tabular.training import rebuild

            return rebuild(name, tensors, header, model, device, precision, rows)
        device = devices.device_named(device) if isinstance(device, str) else device
        module, scheme, encoding = modelfile.rebuild(name, tensors, header, model)
        return cls(
            module.to(device), scheme, encoding, classes=header["classes"], rows=rows, metadata=header["facts"],
            precision=precision or modelfile.saved_precision(header),
        )  # fmt: skip

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
        try:
            self.scheme_for(x)
        except InputError as error:
            expected = "(batch, channels, height, width) or (batch, features)"
            raise InputError(f"{error}; their shape must be {expected}, got {tuple(x.shape)}") from error
        if self.encoding.takes_integers:
            self.encoding.check_inputs(x)
            return x
        if not x.is_floating_point():
            raise InputError(f"inputs must be floating point, got {x.dtype}; for 8-bit images pass x.float() / 255")
        parameter = _first_parameter(self.model)
        inputs = x.detach().to(x.dtype if parameter is None else parameter.dtype)
        wrong = ~torch.isfinite(inputs)
        if self.encoding.takes_missing:
            wrong &= ~inputs.isnan()
        if wrong.any():
            bad = wrong.flatten(1).any(dim=1).nonzero()[0].item()
            raise InputError(f"inputs must be finite in the model's {inputs.dtype}; input {bad} holds NaN or infinity")
        self.encoding.check_inputs(inputs)
        return inputs

    def __repr__(self) -> str:
        return f"Smoothed({type(self.model).__name__}, {self.scheme}, {self.encoding})"


def _check_parts(model: Any, scheme: Any, encoding: Any) -> None:
    """Refuses arguments in another order, and classes where objects are meant."""
    if not callable(model) or not isinstance(scheme, Scheme) or not isinstance(encoding, Encoding | None):
        found = ", ".join(map(describe, (model, scheme, encoding)))
        raise InputError(f"Smoothed takes (model, scheme, encoding), for example Uniform(784, 45), got ({found})")


def _usual_encoding(scheme: Scheme) -> Encoding:
    """What shows copies of this scheme unless something else is asked."""
    return NullChannels() if scheme.values is None else ReplacedValues(scheme.values)


def _first_parameter(model: Any) -> torch.nn.Parameter | None:
    """A floating-point parameter of the model, which says its device and dtype."""
    if not isinstance(model, torch.nn.Module):
        return None
    return next((p for p in model.parameters() if p.is_floating_point()), None)
