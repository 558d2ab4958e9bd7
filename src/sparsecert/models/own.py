"""Networks of your own, by name: `my_nets:small` is the function or class `small` of the module `my_nets`."""

from __future__ import annotations

import re
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any

from sparsecert.errors import InputError

if TYPE_CHECKING:
    from sparsecert.models import Builder


def is_own(name: str) -> bool:
    """Whether this names a network of the user's, not a registered one."""
    return ":" in name


def import_factory(name: str) -> Builder:
    """What `module:factory` names. Importing runs the module: never call this with a name that a file gives."""
    if re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*", name) is None:
        raise InputError(f"a network of yours is module:factory, for example my_nets:small, got {name!r}")
    module, _, attribute = name.partition(":")
    try:
        found: Any = getattr(import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise InputError(f"{module} needs {error.name}, which is not installed") from error
        top = module.partition(".")[0]
        raise InputError(
            f"{name} cannot be imported: no module {error.name}; add the folder that holds {top} to PYTHONPATH, "
            f"for example the current one: PYTHONPATH=. sparsecert ..."
        ) from error
    except Exception as error:
        raise InputError(f"{name} cannot be imported: {error!r}") from error
    if not callable(found):
        raise InputError(f"{module} has no function or class {attribute}; {name} must name one")
    try:
        signature(found).bind(1, 2)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} is called as {attribute}(channels, classes), which it does not take: {error}"
        ) from error
    factory: Builder = found
    return factory
