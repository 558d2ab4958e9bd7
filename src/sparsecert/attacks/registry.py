"""Attacks by name, with their settings: what a command line and a records file call them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from sparsecert.attacks.attack import Attack
from sparsecert.attacks.carlini_wagner import CarliniWagnerL0
from sparsecert.attacks.jsma import JSMA
from sparsecert.attacks.noise import UniformNoise
from sparsecert.attacks.pointwise import Pointwise
from sparsecert.attacks.saliency import Saliency
from sparsecert.attacks.sparse_rs import SparseRS
from sparsecert.checks import whole
from sparsecert.errors import InputError

LEAST, MOST = {"restarts": 1, "rounds": 0, "steps": 1}, 1_000_000  # of the settings that are counts


@dataclass(frozen=True)
class Named:
    """An attack's class, and in a line what it does."""

    kind: type[Attack]
    about: str

    @property
    def settings(self) -> tuple[str, ...]:
        """The names of what can be set."""
        return tuple(field.name for field in fields(self.kind))  # type: ignore[arg-type]  # every attack is a dataclass


ATTACKS = {
    "pointwise": Named(Pointwise, "salt-and-pepper noise, taken back pixel by pixel; asks for answers alone"),
    "sparse-rs": Named(SparseRS, "a random search over which pixels to change; asks for answers and shares of votes"),
    "saliency": Named(Saliency, "greedily the pixel whose gradient promises most, then taken back"),
    "jsma": Named(JSMA, "the Jacobian-based saliency map, towards each other class; by gradients"),
    "carlini-wagner": Named(CarliniWagnerL0, "small changes on fewer and fewer pixels; by gradients"),
    "noise": Named(UniformNoise, "more and more random pixels: the floor that every attack must beat"),
}


def attack_named(name: str, **settings: Any) -> Attack:
    """The attack of that name; settings that are None are left at their default, unknown ones are refused."""
    if name not in ATTACKS:
        raise InputError(f"attack must be one of {', '.join(ATTACKS)}, got {name!r}")
    known = ATTACKS[name].settings
    given = {key: value for key, value in settings.items() if value is not None}
    for key in given:
        if key not in known:
            raise InputError(f"{key} is no setting of the {name} attack, which has {' and '.join(known)}; leave it out")
    given |= {key: whole(key, given[key], least, MOST) for key, least in LEAST.items() if key in given}
    return ATTACKS[name].kind(**given)


def config_of(attack: Attack) -> dict[str, Any]:
    """Name and settings, as plain values; an attack of your own goes by the name of its class."""
    if not hasattr(attack, "__dataclass_fields__"):
        raise InputError(f"{type(attack).__name__} must be a dataclass, so that its settings can be recorded")
    name = next((name for name, named in ATTACKS.items() if type(attack) is named.kind), type(attack).__name__)
    return {"name": name, **asdict(attack)}  # type: ignore[call-overload]
