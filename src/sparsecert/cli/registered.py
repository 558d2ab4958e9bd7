"""Options that name a registered thing and add its own options: `--scheme lattice` adds `--parts`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from sparsecert.cli.declared import options_of
from sparsecert.errors import InputError
from sparsecert.registry import Option, Registry

Command = Callable[..., Any]
CHOSEN = "sparsecert.chosen"  # key of the choices in the context's meta


class Registered(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since Click 8.5
    """The name of something in a registry.

    with_options: its own options become options of the command, which receives their values as `<kind>_settings`, None
    if not given.
    """

    name = "name"
    other = ""  # what else is accepted, for the help

    def __init__(self, registry: Registry[Any], with_options: bool = False) -> None:
        self.registry, self.with_options = registry, with_options

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.registry:
            self.fail(f"{self.registry.kind} must be one of {', '.join(self.registry)}, got {value!r}", param, ctx)
        return str(value)


class NameOption(click.Option):
    """An option whose type is `Registered`; its help lists the names."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Looks up the names only for help, to keep other commands fast."""
        assert isinstance(self.type, Registered)
        text, self.help = self.help, f"{self.help} One of {', '.join(self.type.registry)}{self.type.other}."
        try:
            return super().get_help_record(ctx)
        finally:
            self.help = text


def name_option(
    *flags: str, registry: Registry[Any], with_options: bool = False, **settings: Any
) -> Callable[[Command], Command]:
    """Like `click.option`, for a name in a registry."""
    return click.option(*flags, cls=NameOption, type=Registered(registry, with_options), **settings)


class SettingOption(click.Option):
    """An option of the chosen thing."""

    def __init__(self, kind: str, option: Option) -> None:
        default = "" if option.default is None else f" (default: {option.default})"
        text = f"{option.help.removesuffix('.')}{default}." if default else option.help
        flag = option.type is bool
        super().__init__(
            [option.flag, f"{kind}_{option.setting}"],
            type=None if flag else option.type, is_flag=flag, default=None, help=text,
        )  # fmt: skip
        self.setting = option.setting


class Chosen:
    """What the command line chooses by a name option, and the options this adds."""

    def __init__(self, param: click.Parameter, args: Sequence[str]) -> None:
        assert isinstance(param.type, Registered)
        self.flag, self.registry = param.opts[0], param.type.registry
        default = param.default if isinstance(param.default, str) else None
        self.name = _value(param.opts, args) or default
        options = () if self.name is None else options_of(self.registry, self.name)
        self.options = [SettingOption(self.registry.kind, option) for option in options]

    @property
    def title(self) -> str:
        """The heading of its options in the help."""
        return f"Options of {self.flag} {self.name}"

    def claim(self, taken: set[str]) -> None:
        """Refuses an option that the command or another choice already has."""
        for flag in (option.opts[0] for option in self.options):
            if flag in taken:
                raise InputError(f"{self.flag} {self.name} has an option {flag}, which is already taken")
            taken.add(flag)

    def settings(self, params: dict[str, Any]) -> dict[str, Any]:
        """Moves its settings out of a command's parameters."""
        return {option.setting: params.pop(option.name, None) for option in self.options}


class RegisteredCommand(click.Command):
    """A command with the options of whatever its command line chooses."""

    @property
    def choices(self) -> list[click.Parameter]:
        """The name options whose choice adds options."""
        return [param for param in self.params if isinstance(param.type, Registered) and param.type.with_options]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads the choices first, to know their options; refuses options of things not chosen."""
        taken = {flag for param in super().get_params(ctx) for flag in param.opts}
        chosen = ctx.meta[CHOSEN] = [Chosen(param, args) for param in self.choices]
        for choice in chosen:
            choice.claim(taken)
        try:
            rest = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise self._elsewhere(error) or error from None
        for choice in chosen:
            ctx.params[f"{choice.registry.kind}_settings"] = choice.settings(ctx.params)
        return rest

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The parameters of the command and of its choices."""
        return [*super().get_params(ctx), *(option for choice in ctx.meta.get(CHOSEN, ()) for option in choice.options)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options of the command, then those of each choice."""
        sections = [(choice.title, choice.options) for choice in ctx.meta.get(CHOSEN, ())]
        for title, options in (("Options", super().get_params(ctx)), *sections):
            found = [option.get_help_record(ctx) for option in options if isinstance(option, click.Option)]
            records = [record for record in found if record is not None]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def _elsewhere(self, error: click.NoSuchOption) -> InputError | None:
        """An error that names what the option belongs to, if to anything not chosen."""
        owners = [
            f"{param.opts[0]} {name}"
            for param in self.choices
            if isinstance(param.type, Registered)
            for name in param.type.registry
            if error.option_name in _flags(param.type.registry, name)
        ]
        if not owners:
            return None
        return InputError(f"{error.option_name} is for {' or '.join(owners)}; add that, or leave it out")


def _flags(registry: Registry[Any], name: str) -> list[str]:
    """The options of a registered thing; none if it cannot be imported."""
    try:
        return [option.flag for option in options_of(registry, name)]
    except InputError:
        return []


def _value(flags: Sequence[str], args: Sequence[str]) -> str | None:
    """The value of an option, from `--scheme lattice` or `--scheme=lattice`; the last wins."""
    found = None
    for place, arg in enumerate(args):
        flag, equals, value = arg.partition("=")
        if flag in flags:
            found = value if equals else next(iter(args[place + 1 : place + 2]), None)
    return found
