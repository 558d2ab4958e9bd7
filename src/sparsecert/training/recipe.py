"""A recipe: how a base classifier is trained."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from sparsecert.errors import InputError
from sparsecert.registry import SCHEMES

if TYPE_CHECKING:
    from sparsecert.schemes import SchemeSpec

MASKS = "minibatch", "sample", "all"
REFLECTED = "reflected-crop-flip"
SHIFTED = {"crop-flip": 4, REFLECTED: 2}  # augmentations of images in memory, and by how many pixels at most
AUGMENTATIONS = "none", *SHIFTED, "resized-crop-flip"
SCHEDULES = "steps", "one-cycle"
OPTIMIZERS = "sgd", "adamw"
PRECISIONS = "fp32", "bf16"
LATER = (
    "schedule",
    "warm_up",
    "nesterov",
    "precision",
    "copies",
    "consistency",
    "scheme",
    "optimizer",
    "vote",
    "independent",
    "norm_rows",
    "repeat",
    "repeat_masks",
)  # settings that recipes in the first model files lack
OF_THE_DATA = "model", "keep", "augment", "normalise"
ALONE = {"masks": "all", "augment": "none", "normalise": False, "consistency": 0.0, "vote": None}  # with `independent`


@dataclass(frozen=True)
class VoteObjective:
    """The last `epochs` of a run, in which the vote itself is trained (`training.objective.vote_loss`).

    rate: the peak learning rate of these epochs. target: the lead over every rival, as a share of the masks, that the
    loss asks for. cross_entropy: the weight of the copies' cross-entropy, which keeps the accuracy of single votes.
    """

    epochs: int
    rate: float
    target: float
    cross_entropy: float = 0.0

    def __post_init__(self) -> None:
        if self.epochs < 1 or not self.rate > 0 or not 0 < self.target < 1 or not self.cross_entropy >= 0:
            raise InputError(f"vote needs epochs >= 1, rate > 0, 0 < target < 1 and cross_entropy >= 0, got {self}")


@dataclass(frozen=True)
class Recipe:
    """SGD with momentum, or AdamW, on ablated inputs.

    model: an architecture; empty in a recipe for any data set, which takes `OF_THE_DATA` from the data set's own recipe
    (`recipes.recipe_for`). rates: (first epoch, learning rate) pairs, epochs counted from 1. schedule: "steps" keeps
    each rate until the next; "one-cycle" has a single one, the peak, to which the rate rises linearly over the share
    `warm_up` of all steps and from which it falls linearly to zero. masks: "minibatch" draws one mask for all inputs of
    a minibatch, as the paper does; "sample" draws one for each copy; "all" shows each input through all masks of a
    fixed set. augment: "crop-flip" shifts by up to 4 pixels and flips, with black beyond the border;
    "reflected-crop-flip" shifts by up to 2 and mirrors the image at its border, for masks of so few pixels that black
    ones, which test images never show, would be a large part of them; "resized-crop-flip" takes a random part of the
    photograph (image folders only).
    precision: "bf16" multiplies in bfloat16; weights, momentum and the loss stay in fp32. copies: ablated copies of
    each input in a step. consistency: the weight of a second loss that makes the network give all copies of an input
    the same probabilities (`training.objective`). scheme: "uniform" retains `keep` units at random; otherwise the name
    of a fixed set of masks (`schemes.SchemeSpec`), one of which is drawn for each copy; the set decides how much is
    retained. vote: how the last epochs are trained for the vote; each part of the run has a cycle of the learning rate
    of its own. independent: every mask's network learns from the values of its own units alone, so that certificates
    cover perturbed training values too (`training.independent`); refuses whatever mixes them. norm_rows: batch norm
    takes its statistics over so many copies of a minibatch, as where several GPUs share one by `nn.DataParallel`; None:
    over all. repeat: after so many epochs their orders and augmentations begin again, as in a program that is started
    again with its seed; repeat_masks: and the masks of its minibatches do too.
    """

    name: str
    source: str
    model: str
    keep: int
    epochs: int
    batch: int
    rates: tuple[tuple[int, float], ...]
    momentum: float = 0.9
    weight_decay: float = 0.0
    masks: str = "minibatch"
    augment: str = "none"
    normalise: bool = False
    schedule: str = "steps"
    warm_up: float = 0.0
    nesterov: bool = False
    precision: str = "fp32"
    copies: int = 1
    consistency: float = 0.0
    scheme: str = "uniform"
    optimizer: str = "sgd"
    vote: VoteObjective | None = None
    independent: bool = False
    norm_rows: int | None = None
    repeat: int | None = None
    repeat_masks: bool = False

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "keep", "copies"):
            if getattr(self, name) < 1 and (name != "keep" or self.model):
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}")
        known = {"masks": MASKS, "augment": AUGMENTATIONS, "schedule": SCHEDULES, "precision": PRECISIONS}
        known["optimizer"] = OPTIMIZERS
        for name, values in known.items():
            if getattr(self, name) not in values:
                raise InputError(f"{name} must be one of {', '.join(values)}, got {getattr(self, name)!r}")
        if self.schedule == "one-cycle" and not (len(self.rates) == 1 and 0 <= self.warm_up < 1):
            raise InputError(f"one-cycle needs one rate and warm_up in [0, 1), got {self.rates} and {self.warm_up}")
        if self.copies > 1 and self.masks != "sample":
            raise InputError(f"copies = {self.copies} needs masks per sample, got masks {self.masks!r}")
        if self.vote is not None:
            if self.schedule != "one-cycle" or self.vote.epochs > self.epochs:
                raise InputError(
                    f"vote needs schedule one-cycle and no more than {self.epochs} epochs, got {self.vote}"
                )
            if self.copies == 1 and self.masks != "all":
                raise InputError("vote needs several copies of each input; set copies, or masks to all")
        if self.norm_rows is not None and self.norm_rows < 2:
            raise InputError(f"norm_rows must be at least 2, got {self.norm_rows}")
        if self.repeat is not None and self.repeat < 1:
            raise InputError(f"repeat must be at least 1, got {self.repeat}")
        if self.repeat_masks and (self.repeat is None or self.masks != "minibatch"):
            raise InputError("repeat_masks needs repeat, and one mask per minibatch")
        if self.consistency < 0 or (self.consistency and self.copies == 1):
            raise InputError(f"consistency {self.consistency} must be 0, or positive with at least 2 copies")
        for name, value in ALONE.items():
            if self.independent and (found := getattr(self, name)) != value:
                raise InputError(f"independent training needs {name} = {value}, else the parts mix, got {found}")

    def data_epoch(self, epoch: int) -> int:
        """The first epoch, counted from 0, whose order and augmentations this one has."""
        return epoch if self.repeat is None else epoch % self.repeat

    def rate(self, epoch: int, share: float = 0.0) -> float:
        """The learning rate in an epoch (counted from 1) after this share of it."""
        if self.schedule == "steps":
            return [rate for first, rate in self.rates if first <= epoch][-1]
        first = self.epochs - (self.vote.epochs if self.vote else 0)  # epochs before those of the vote
        if self.vote is not None and epoch > first:
            return self.vote.rate * one_cycle((epoch - 1 - first + share) / self.vote.epochs, self.warm_up)
        return self.rates[0][1] * one_cycle((epoch - 1 + share) / first, self.warm_up)

    def shortened(self, epochs: int | None) -> Recipe:
        """The same recipe over fewer or more epochs; the learning rate drops at the same fractions of the run.

        Each rate gets at least one epoch, as long as there are any left.
        """
        if epochs is None or epochs == self.epochs:
            return self
        rates = [self.rates[0]]
        for first, rate in self.rates[1:]:
            rates.append((max(rates[-1][0] + 1, 1 + round((first - 1) * epochs / self.epochs)), rate))
        vote = self.vote and replace(self.vote, epochs=max(1, round(self.vote.epochs * epochs / self.epochs)))
        return replace(self, epochs=epochs, rates=tuple(rates), vote=vote)

    def for_scheme(self, spec: SchemeSpec, mask_per: str | None = None) -> Recipe:
        """The same recipe for such masks, drawn per minibatch or sample as given, else as the scheme or recipe has it.

        A recipe that shows all masks of a fixed set does so unless `mask_per` is given.
        """
        own = self.masks if self.masks == "all" else SCHEMES[spec.kind].mask_per or self.masks
        scheme = spec.kind if spec.kind == "uniform" else str(spec)
        return replace(self, masks=mask_per or own, keep=spec.settings.get("keep", self.keep), scheme=scheme)

    def to_dict(self) -> dict[str, Any]:
        """JSON values for headers, without settings of `LATER` at their default: old headers lack them too.

        Also without `keep` where a fixed set of masks decides it.
        """
        later = {
            field.name for field in fields(self) if field.name in LATER and getattr(self, field.name) == field.default
        }
        if self.scheme != "uniform":
            later.add("keep")
        known = {name: value for name, value in asdict(self).items() if name not in later}
        return {**known, "rates": [list(pair) for pair in self.rates]}


def one_cycle(done: float, warm_up: float) -> float:
    """The share of the peak rate after the share `done` of all steps: up to 1 at `warm_up`, then down to 0."""
    return done / warm_up if done < warm_up else (1 - done) / (1 - warm_up)
