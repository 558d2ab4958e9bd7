"""The options of registered things, read from the text of their files, so that help need not import torch."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import sparsecert
from sparsecert.registry import Option, Registry

KNOWN: dict[str, Any] = {thing.__name__: thing for thing in (int, float, str, bool, Option, replace)}


def options_of(registry: Registry[Any], name: str) -> tuple[Option, ...]:
    """The options of a registered thing; imports it if its text does not say them plainly."""
    module = registry.module_to_import(name)
    if module is not None:
        source, registered = Source(module), f"{registry.variable}.register('{name}')"
        for found in source.classes.values():
            if registered in map(ast.unparse, found.decorator_list):
                try:
                    return source.options_of(found.name)
                except (KeyError, TypeError, ValueError):
                    break  # written in a way that is not known here
    options: tuple[Option, ...] = registry[name].options
    return options


class Source:
    """The text of a module of this package: what it defines and imports by name."""

    def __init__(self, module: str) -> None:
        path = Path(sparsecert.__file__).parent.joinpath(*module.split(".")[1:])
        text = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text("utf-8")
        self.classes: dict[str, ast.ClassDef] = {}
        self.constants: dict[str, ast.expr] = {}
        self.imported: dict[str, str] = {}
        for node in ast.parse(text).body:
            match node:
                case ast.ClassDef(name=name):
                    self.classes[name] = node
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.constants[name] = value
                case ast.ImportFrom(module=str(origin), names=names):
                    self.imported |= {alias.name: origin for alias in names if alias.asname is None}

    def options_of(self, name: str) -> tuple[Option, ...]:
        """The `options` of a class, its own or those of its first base class."""
        if name not in self.classes:
            return Source(self.imported[name]).options_of(name)
        for node in self.classes[name].body:
            match node:
                case ast.AnnAssign(target=ast.Name(id="options"), value=ast.expr() as value):
                    options: tuple[Option, ...] = self.value(value)
                    return options
        return self.options_of(ast.unparse(self.classes[name].bases[0]))

    def value(self, node: ast.expr) -> Any:
        """The value of a literal, of a constant by its name, or of a call of `Option` or `replace`."""
        match node:
            case ast.Name(id=name) if name in KNOWN:
                return KNOWN[name]
            case ast.Name(id=name) if name in self.constants:
                return self.value(self.constants[name])
            case ast.Name(id=name):
                source = Source(self.imported[name])
                return source.value(source.constants[name])
            case ast.Tuple(elts=parts):
                return tuple(map(self.value, parts))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
                named = {word.arg: self.value(word.value) for word in keywords if word.arg is not None}
                return KNOWN[name](*map(self.value, args), **named)
        return ast.literal_eval(node)
