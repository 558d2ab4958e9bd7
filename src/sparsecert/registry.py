"""Registries: one list for each kind of thing that is chosen by name, filled by the files that define the things.

A file registers what it defines, and that is all there is to do:

    @SCHEMES.register("lattice")
    class Lattice(ImageMasks): ...

A package from outside does the same in a file of its own and names that file as an entry point, in `pyproject.toml`:

    [project.entry-points."sparsecert.schemes"]
    combs = "my_package.combs"

Names are listed without importing anything: the registrations are read from the text of the kind's folder and from the
metadata of installed packages. A file is imported when something in it is asked for. So help texts are fast.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sparsecert.errors import InputError, check_int

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from sparsecert.attacks.attack import Attack
    from sparsecert.certificates.certificate import Method
    from sparsecert.certificates.plurality import Rule
    from sparsecert.datasets.entry import DatasetEntry
    from sparsecert.encodings.encoding import Encoding
    from sparsecert.models import Builder
    from sparsecert.schemes.scheme import Scheme
    from sparsecert.training.recipe import Recipe

T = TypeVar("T")
S = TypeVar("S")
MOST = 1_000_000_000  # of a setting that is a count


class Registry(Mapping[str, T]):
    """The things of one kind by name: `SCHEMES["lattice"]`, `"lattice" in SCHEMES`, `for name in SCHEMES`.

    Listing names imports nothing, looking one up imports its file. Unknown names are refused with the known ones.
    """

    def __init__(self, kind: str, variable: str, folder: str) -> None:
        self.kind, self.variable, self.folder = kind, variable, folder
        self.group = f"sparsecert.{variable.lower()}"
        self._things: dict[str, T] = {}

    def register(self, name: str) -> Callable[[S], S]:
        """A decorator that registers what a file defines; `RECIPES.register("mine")(Recipe(...))` for a value."""
        module = sys._getframe(1).f_globals.get("__name__", "__main__")
        if (own := self._files.get(name, module)) != module:
            raise InputError(f"{self.kind} {name!r} is registered by {own}; give the one of {module} another name")

        def registered(thing: S) -> S:
            self._things[name] = thing  # type: ignore[assignment]  # a S that is a T cannot be written
            return thing

        return registered

    def name_of(self, thing: Any) -> str:
        """The name under which a thing is registered; of a class that is not, the class's own name."""
        return next((name for name, found in self._things.items() if found is thing), thing.__name__)

    def module_to_import(self, name: str) -> str | None:
        """The module of this package that registers a name; None if it has been imported, or is no such name."""
        return None if name in self._things else self._files.get(name)

    def __getitem__(self, name: str) -> T:
        if name not in self._things:
            self._load(name)
        return self._things[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._files, *self._outside, *self._things}))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in self._things or name in self._files or name in self._outside

    def __repr__(self) -> str:
        return f"{self.variable}({', '.join(self)})"

    @cached_property
    def _files(self) -> dict[str, str]:
        """Of each name in the kind's folder, the module that registers it."""
        line = re.compile(rf'^@?{self.variable}\.register\(\s*"([^"]+)"', re.MULTILINE)
        package = f"sparsecert.{self.folder.replace('/', '.')}"
        files = sorted((Path(__file__).parent / self.folder).glob("*.py"))
        return {name: f"{package}.{file.stem}" for file in files for name in line.findall(file.read_text("utf-8"))}

    @cached_property
    def _outside(self) -> dict[str, dict[str, EntryPoint]]:
        """Of each name that installed packages have, the modules that register it; more than one is a mistake."""
        from importlib.metadata import entry_points

        found: dict[str, dict[str, EntryPoint]] = {}
        for point in entry_points(group=self.group):
            found.setdefault(point.name, {})[point.value] = point
        return found

    def _load(self, name: str) -> None:
        if name in self._files:
            import_module(self._files[name])
        elif name in self._outside:
            where, *others = self._outside[name]
            if others:
                raise InputError(f"{self.kind} {name!r} is claimed by {' and '.join((where, *others))}; uninstall one")
            try:
                self._outside[name][where].load()
            except Exception as error:
                raise InputError(f"{self.kind} {name!r} cannot be loaded from {where}: {error!r}") from error
        else:
            raise InputError(f"{self.kind} must be one of {', '.join(self)}, got {name!r}")
        if name not in self._things:
            where = self._files.get(name) or next(iter(self._outside[name]))
            raise InputError(f'{where} does not register {self.kind} {name!r}: @{self.variable}.register("{name}")')


SCHEMES: Registry[type[Scheme]] = Registry("scheme", "SCHEMES", "schemes")
ENCODINGS: Registry[type[Encoding]] = Registry("encoding", "ENCODINGS", "encodings")
CERTIFICATES: Registry[Method] = Registry("bound", "CERTIFICATES", "certificates")
RULES: Registry[Rule] = Registry("rule", "RULES", "certificates")
ATTACKS: Registry[type[Attack]] = Registry("attack", "ATTACKS", "attacks")
DATASETS: Registry[DatasetEntry] = Registry("data set", "DATASETS", "datasets")
MODELS: Registry[Builder] = Registry("model", "MODELS", "models")
RECIPES: Registry[Recipe] = Registry("recipe", "RECIPES", "training/recipes")
REGISTRIES: tuple[Registry[Any], ...] = SCHEMES, ENCODINGS, CERTIFICATES, RULES, ATTACKS, DATASETS, MODELS, RECIPES


@dataclass(frozen=True)
class Option:
    """A command-line option of a scheme, an encoding or an attack, in the `options` of its class.

    type: int, float or str; bool for an option without a value. setting: the argument of the class that it sets, where
    that has another name. least: the smallest count. default: the class's own, for the help. short: how the setting is
    written in the name of a scheme and its settings, such as lattice-28x1 (see `schemes.SchemeSpec`).
    """

    flag: str
    type: type
    help: str
    setting: str = ""
    least: int | None = None
    default: Any = None
    required: bool = False
    short: str = ""

    def __post_init__(self) -> None:
        setting = self.setting or self.flag.removeprefix("--").replace("-", "_")
        object.__setattr__(self, "setting", setting)
        object.__setattr__(self, "short", self.short or f"-{setting}{{}}")


def check_settings(whose: str, options: Iterable[Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are not None; refuses counts that are too small, and a setting that is needed and missing."""
    settings = {name: value for name, value in given.items() if value is not None}
    for option in options:
        if option.required and option.setting not in settings:
            raise InputError(f"{whose} needs {option.setting} ({option.flag})")
        if option.least is not None and option.setting in settings:
            settings[option.setting] = check_int(option.setting, settings[option.setting], option.least, MOST)
    return settings


def check_known(whose: str, known: Iterable[str], given: Iterable[str]) -> None:
    """Refuses settings that a thing does not have."""
    names = list(known)
    for name in given:
        if name not in names:
            has = f"which has {' and '.join(names)}" if names else "which has none"
            raise InputError(f"{name} is no setting of {whose}, {has}; leave it out")


def from_config(registry: Registry[type[T]], config: Any) -> T:
    """The thing whose `config()` this is."""
    if not isinstance(config, dict) or not isinstance(config.get("kind"), str):
        raise InputError(f"{registry.kind} {config!r} cannot be understood")
    if config["kind"] not in registry:
        raise InputError(
            f"{registry.kind} kind must be one of {', '.join(registry)}, got {config['kind']!r}; a newer sparsecert, "
            "or a package that is not installed here, may know it"
        )
    try:
        return registry[config["kind"]](**{name: value for name, value in config.items() if name != "kind"})
    except TypeError as error:
        raise InputError(f"{registry.kind} {config} cannot be understood: {error}") from error
