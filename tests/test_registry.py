"""Registries: what is listed is what registers, every name is one thing, every option means one thing."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import sparsecert
from sparsecert.attacks import Attack
from sparsecert.cli import cli
from sparsecert.cli.declared import options_of
from sparsecert.cli.registered import Registered
from sparsecert.encodings import Encoding
from sparsecert.errors import InputError
from sparsecert.registry import (
    ATTACKS,
    CERTIFICATES,
    DATASETS,
    ENCODINGS,
    MODELS,
    RECIPES,
    REGISTRIES,
    SCHEMES,
    Option,
    Registry,
)
from sparsecert.schemes import Scheme, from_config
from tests.contracts import ALL_SCHEMES

WITH_OPTIONS: tuple[Registry[Any], ...] = SCHEMES, ENCODINGS, ATTACKS
OPTIONS = [
    pytest.param(thing, option, id=f"{registry.kind} {name} {option.flag}")
    for registry in WITH_OPTIONS
    for name, thing in registry.items()
    for option in thing.options
]


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.variable)
def test_what_is_listed_is_what_registers(registry: Registry[Any]) -> None:
    package = importlib.import_module(f"sparsecert.{registry.folder.replace('/', '.')}")
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if not module.name.endswith("_triton"):
            importlib.import_module(module.name)
    assert list(registry) == sorted(registry._things)
    assert len(registry) == len({id(thing) for thing in registry.values()}) > 1


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.variable)
def test_listing_imports_nothing(registry: Registry[Any]) -> None:
    script = (
        "import json, sys\n"
        f"from sparsecert.registry import {registry.variable} as registry\n"
        "before = {*sys.modules}\n"
        "names = list(registry)\n"
        "new = [name for name in sys.modules if name not in before and name.startswith('sparsecert')]\n"
        "print(json.dumps([names, new, 'torch' in sys.modules, 'numpy' in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == [list(registry), [], False, False]


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.variable)
def test_other_names_are_refused(registry: Registry[Any]) -> None:
    known = ", ".join(registry)
    with pytest.raises(InputError, match=f"{registry.kind} must be one of {known}, got 'nobody'"):
        registry["nobody"]
    assert "nobody" not in registry
    with pytest.raises(
        InputError, match=r"is registered by sparsecert\..*; give the one of tests\.test_registry another"
    ):
        registry.register(next(iter(registry)))


def test_a_thing_of_ones_own_is_registered_for_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODELS, "_things", {**MODELS})

    @MODELS.register("mine")
    def mine(channels: int, classes: int) -> Any:
        return channels, classes

    assert MODELS["mine"] is mine
    assert "mine" in MODELS
    assert "mine" in list(MODELS)
    assert MODELS.name_of(mine) == "mine"
    assert MODELS.name_of(Scheme) == "Scheme"


def test_names_are_those_in_files() -> None:
    assert {name: recipe.name for name, recipe in RECIPES.items()} == {name: name for name in RECIPES}
    assert {name: method.name for name, method in CERTIFICATES.items()} == {name: name for name in CERTIFICATES}
    assert {entry.recipe for entry in DATASETS.values()} <= {*RECIPES}
    assert {recipe.model for recipe in RECIPES.values()} <= {*MODELS, ""}  # empty: the data set's recipe says it
    assert {scheme.encoding for scheme in SCHEMES.values()} <= {*ENCODINGS}


@pytest.mark.parametrize(("registry", "base"), [(SCHEMES, Scheme), (ENCODINGS, Encoding), (ATTACKS, Attack)])
def test_every_class_of_the_package_is_registered(registry: Registry[Any], base: type) -> None:
    def concrete(kind: type) -> Iterator[type]:
        for child in kind.__subclasses__():
            yield from concrete(child)
            own = child.__module__.startswith("sparsecert.") and not child.__name__.startswith("_")
            if own and not inspect.isabstract(child):
                yield child

    assert {*concrete(base)} == {*registry.values()}


@pytest.mark.parametrize("scheme", ALL_SCHEMES, ids=str)
def test_a_scheme_survives_its_config(scheme: Scheme) -> None:
    config = json.loads(json.dumps(scheme.config()))
    assert from_config(config) == scheme
    assert SCHEMES[config["kind"]] is type(scheme)
    assert scheme.sides is None or scheme.sides[0] * scheme.sides[1] == scheme.units


@pytest.mark.parametrize("config", [None, [], {}, {"kind": ["uniform"]}, {"kind": "uniform", "parts": 3}])
def test_a_config_that_is_none_is_refused(config: Any) -> None:
    with pytest.raises(InputError, match="cannot be understood"):
        from_config(config)


def test_options_are_read_from_the_text_of_all_files_without_importing_them() -> None:
    script = (
        "import sys\n"
        "from sparsecert.cli.declared import options_of\n"
        "from sparsecert.registry import ATTACKS, ENCODINGS, SCHEMES\n"
        "print({registry.kind: {name: options_of(registry, name) for name in registry}\n"
        "       for registry in (SCHEMES, ENCODINGS, ATTACKS)})\n"
        "assert not {'torch', 'numpy'} & {*sys.modules}\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    imported = {registry.kind: {name: thing.options for name, thing in registry.items()} for registry in WITH_OPTIONS}
    assert done.stdout.strip() == str(imported)


def test_options_that_the_text_does_not_say_plainly_are_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "schemes").mkdir()
    file = tmp_path / "schemes" / "lattice.py"
    monkeypatch.setattr(sparsecert, "__file__", str(tmp_path / "__init__.py"))
    monkeypatch.setattr(SCHEMES, "module_to_import", lambda name: f"sparsecert.schemes.{name}")
    for options in ("tuple(sorted(PARTS))", "(*PARTS,)", "(PARTS,)"):
        file.write_text(f'@SCHEMES.register("lattice")\nclass Lattice:\n    options: tuple = {options}\n')
        assert options_of(SCHEMES, "lattice") == SCHEMES["lattice"].options
    file.write_text(
        '@SCHEMES.register("lattice")\nclass Lattice:\n    options: tuple = (Option("--few", int, "Few."),)\n'
    )
    assert options_of(SCHEMES, "lattice") == (Option("--few", int, "Few."),)


@pytest.mark.parametrize(("thing", "option"), OPTIONS)
def test_an_option_sets_an_argument_of_its_class(thing: Any, option: Option) -> None:
    parameter = inspect.signature(thing).parameters[option.setting]
    if option.required:
        assert parameter.default is inspect.Parameter.empty
    if option.default is not None:
        assert parameter.default == option.default
    assert option.help.endswith(".")


def _commands(command: click.Command, name: str = "") -> Iterator[tuple[str, click.Option]]:
    """Every option of every command."""
    if isinstance(command, click.Group):
        for child in command.commands.values():
            yield from _commands(child, f"{name} {child.name}")
        return
    yield from ((name, param) for param in command.params if isinstance(param, click.Option))


def _kind(option: click.Option) -> tuple[Any, ...]:
    named = option.type.registry if isinstance(option.type, Registered) else None
    name = "integer" if isinstance(option.type, click.IntRange) else option.type.name
    return name, named, option.is_flag


def test_an_option_has_one_meaning_in_all_commands_and_for_everything_that_is_registered() -> None:
    """Of things that are registered, in the same words, whatever the default and the argument's name; of commands, with
    values of the same type.
    """
    owned: dict[str, tuple[Any, ...]] = {}
    for param in OPTIONS:
        option = param.values[1]
        assert isinstance(option, Option)
        meaning = option.type, option.help, option.least, option.required
        assert owned.setdefault(option.flag, meaning) == meaning, option.flag
    commands: dict[str, tuple[Any, ...]] = {}
    for command, found in _commands(cli):
        for flag in found.opts:
            kind = _kind(found)
            if flag not in ("--out", "--data-dir"):  # files or folders
                assert commands.setdefault(flag, kind) == kind, (command, flag)
            if flag in owned:
                assert command.strip() in ("info", "choose"), (command, flag)  # about schemes, in the same words
    assert {"--keep", "--kappa", "--values"} == {*owned} & {*commands}


def test_an_option_that_is_taken_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(SCHEMES["lattice"], "options", (Option("--seed", int, "Where to begin.", "parts"),))
    with pytest.raises(SystemExit, match="2"):
        sparsecert.cli.main(["train", "--scheme", "lattice"])  # type: ignore[attr-defined]
    assert "--scheme lattice has an option --seed, which is already taken" in capsys.readouterr().err


def test_help_says_to_whom_an_option_belongs(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, expected in (
        (["train", "--help"], ["Options of --scheme uniform:", "--keep"]),
        (["train", "--scheme=bands", "--help"], ["Options of --scheme bands:", "--size", "--horizontal"]),
        (["attack", "--attack", "sparse-rs", "-h"], ["Options of --attack sparse-rs:", "--queries"]),
        (["train", "--scheme", "partition", "--help"], ["--scheme-seed", "(default: 1)"]),
    ):
        with pytest.raises(SystemExit, match="0"):
            sparsecert.cli.main(arguments)  # type: ignore[attr-defined]
        said = capsys.readouterr().out
        assert [text for text in expected if text not in said] == []
    with pytest.raises(SystemExit, match="0"):
        sparsecert.cli.main(["attack", "--help"])  # type: ignore[attr-defined]
    words = " ".join(capsys.readouterr().out.split()).replace("- ", "-")  # lines break after hyphens
    assert f"One of {', '.join(ATTACKS)}." in words
    assert f"One of {', '.join(DATASETS)}, or a folder" in words
