"""A scheme by name, not yet bound to an image size."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from sparsecert.errors import InputError
from sparsecert.registry import SCHEMES, Option, check_known, check_settings
from sparsecert.schemes.scheme import Scheme


@dataclass(frozen=True, init=False)
class SchemeSpec:
    """A scheme's kind and settings without the image size. `SchemeSpec("lattice", parts=28)` is written lattice-28x1,
    which also names folders; settings that are None keep their default.
    """

    kind: str
    given: tuple[tuple[str, Any], ...]

    def __init__(self, kind: str, **settings: Any) -> None:
        options = SCHEMES[kind].options
        check_known(f"scheme {kind}", [option.setting for option in options], settings)
        known = check_settings(f"scheme {kind}", options, settings)
        defaults = {option.setting: option.default for option in options if option.default is not None}
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "given", tuple(sorted({**defaults, **known}.items())))

    @classmethod
    def parse(cls, text: str) -> SchemeSpec:
        """The spec whose `str` this is."""
        for kind in SCHEMES:
            if text.startswith(f"{kind}-"):
                options = SCHEMES[kind].options
                found = re.fullmatch(kind + "".join(map(_pattern, options)), text)
                if found is not None:
                    values = {option.setting: found[option.setting] for option in options}
                    types = {option.setting: option.type for option in options}
                    return cls(kind, **{name: types[name](value) for name, value in values.items() if value})
        raise InputError(f"masks must be named as in lattice-28x1, partition-28x3, blocks-10 or bands-4, got {text!r}")

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self.given)

    def one_of(self, kinds: tuple[str, ...], attack: str) -> SchemeSpec:
        """This spec; refuses kinds that are not for such an attack."""
        if self.kind not in kinds:
            raise InputError(f"against {attack} masks must be {' or '.join(kinds)}, got {self}")
        return self

    def of(self, height: int, width: int, channels: int = 1) -> Scheme:
        """The scheme for images of this size."""
        return SCHEMES[self.kind].for_image((channels, height, width), **self.settings)

    def words(self) -> list[str]:
        """The options of `sparsecert train` that choose it."""
        named = [] if self.kind == "uniform" else ["--scheme", self.kind]
        for option in SCHEMES[self.kind].options:
            value = self.settings.get(option.setting, option.default)
            if value not in (option.default, None, False):
                named += [option.flag] if option.type is bool else [option.flag, str(value)]
        return named

    def __str__(self) -> str:
        """Such as lattice-28x1, partition-28x3-seed2, blocks-10, bands-4, bands-4-rows."""
        options = [
            option for option in SCHEMES[self.kind].options if self.settings.get(option.setting) not in (None, False)
        ]
        return self.kind + "".join(option.short.format(self.settings[option.setting]) for option in options)


def _pattern(option: Option) -> str:
    """The regular expression of the setting in a name; optional unless it is required or has a default."""
    value = {int: r"\d{1,19}", bool: ""}.get(option.type, "[^-]+")
    written = re.escape(option.short).replace(r"\{\}", f"(?P<{option.setting}>{value})")
    if option.type is bool:
        written = f"(?P<{option.setting}>{written})"
    return written if option.required or option.default is not None else f"(?:{written})?"
