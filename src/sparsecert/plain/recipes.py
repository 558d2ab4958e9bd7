"""Training recipes of plain networks."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from sparsecert.errors import InputError
from sparsecert.plain.networks import AUTOENCODERS
from sparsecert.training.recipe import PRECISIONS, one_cycle


@dataclass(frozen=True)
class PlainRecipe:
    """Adam on clean images, or on adversarial ones within `eps` in L-infinity.

    The learning rate rises linearly to `rate` over the share `warm_up` of all steps and falls linearly to zero.
    binarized: values are thresholded at 0.5. eps: 0 trains on clean images; otherwise each is replaced by PGD with
    `ascent_steps` steps of size `ascent_step` from a random start, and `eps` and `ascent_step` rise linearly from 0
    over the share `ramp` of all steps. precision: of PGD; the weights are always updated in fp32 (TF32 on a GPU).
    """

    name: str
    source: str
    network: str
    epochs: int
    batch: int
    rate: float
    warm_up: float = 0.2
    binarized: bool = False
    eps: float = 0.0
    ascent_step: float = 0.0
    ascent_steps: int = 0
    ramp: float = 0.0
    precision: str = "fp32"

    def __post_init__(self) -> None:
        for name in ("epochs", "batch"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("warm_up", "ramp"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name} must be in [0, 1), got {getattr(self, name)}")
        if not self.rate > 0:
            raise InputError(f"rate must be positive, got {self.rate}")
        if self.precision not in PRECISIONS:
            raise InputError(f"precision must be one of {', '.join(PRECISIONS)}, got {self.precision!r}")
        if not 0 <= self.eps <= 1 or (self.eps and not (self.ascent_step > 0 and self.ascent_steps > 0)):
            raise InputError(f"eps must be 0, or at most 1 with steps to take, got {self.eps}")
        if self.eps and self.binarized:
            raise InputError("a binarized network has no gradients for adversarial training; set eps to 0")

    @property
    def adversarial(self) -> bool:
        """Whether it is adversarial training."""
        return self.eps > 0

    def rate_at(self, done: float) -> float:
        """The learning rate after this share of all steps."""
        return self.rate * one_cycle(done, self.warm_up)

    def eps_at(self, done: float) -> float:
        """The radius of PGD after this share of all steps."""
        return self.eps * (min(1.0, done / self.ramp) if self.ramp else 1.0)

    def architecture(self, channels: int, classes: int) -> dict[str, Any]:
        """The arguments of `plain.networks.build` for such data."""
        return {"network": self.network, "channels": channels, "classes": classes, "binarized": self.binarized}

    def to_dict(self) -> dict[str, Any]:
        """JSON values, for headers."""
        return asdict(self)


@dataclass(frozen=True)
class AutoencoderRecipe(PlainRecipe):
    """Adam at a constant rate on the autoencoders of all classes: a step takes `batch` images of each.

    candidates, steps: of the inference (see `AnalysisBySynthesis`).
    """

    candidates: int = 8_000
    steps: int = 50

    def rate_at(self, done: float) -> float:
        return self.rate

    def architecture(self, channels: int, classes: int) -> dict[str, Any]:
        return {**super().architecture(channels, classes), "candidates": self.candidates, "steps": self.steps}


_CNN = PlainRecipe(
    name="cnn",
    source="this package; Adam with one cycle of the rate",
    network="four-convolutions",
    epochs=6,
    batch=100,
    rate=0.003,
)
_ROBUST = PlainRecipe(
    name="robust",
    source="network, eps, steps and random start of Madry et al. 2018 for MNIST; this package's are a batch of 500 "
    "(not 50), 40 epochs (not 83), one cycle of the rate (not 0.0001 throughout) and an eps that rises at first",
    network="two-convolutions",
    epochs=40,
    batch=500,
    rate=0.001,
    eps=0.3,
    ascent_step=0.01,
    ascent_steps=40,
    ramp=0.1,
)
_ABS = AutoencoderRecipe(
    name="abs",
    source="networks, loss, optimizer and inference of Schott et al. 2019 for MNIST (about 29,000 steps); this "
    "package's are the extent of the distortions and the least l of all steps instead of the last",
    network=AUTOENCODERS,
    epochs=620,
    batch=128,
    rate=0.003,
)
_MNIST = (_CNN, replace(_CNN, name="binarized", binarized=True), _ROBUST, _ABS)
_DIGITS = (
    replace(_CNN, network="digits-cnn", epochs=30, batch=64),
    replace(_CNN, name="binarized", binarized=True, network="digits-cnn", epochs=30, batch=64),
    replace(_ROBUST, source="this package", network="digits-cnn", batch=64, eps=0.1, ascent_step=0.025, ascent_steps=7),
)
PLAIN_RECIPES = {
    data: {recipe.name: recipe for recipe in recipes} for data, recipes in {"mnist": _MNIST, "digits": _DIGITS}.items()
}


def plain_recipe(data: str, kind: str) -> PlainRecipe:
    """The recipe of that kind for the data set."""
    if data not in PLAIN_RECIPES:
        raise InputError(f"plain networks are trained on {' or '.join(PLAIN_RECIPES)}, got {data!r}")
    known = PLAIN_RECIPES[data]
    if kind not in known:
        raise InputError(f"a plain network on {data} must be one of {', '.join(known)}, got {kind!r}")
    return known[kind]
