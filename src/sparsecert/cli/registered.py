"""Options that name something registered, and bring its own options with them: `--scheme lattice` brings `--parts`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from sparsecert.registry import Option, Registry

CHOSEN = "sparsecert.chosen"  # the choices on the command line, in the context's meta


class Registered(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since Click 8.5
    """The name of something in a registry.

    with_options: once it is chosen, its options are the command's too, and the command is called with their values as
    `<kind>_settings`, None for those not given. light: its files need no torch, so that help may import the default.
    """

    name = "name"

    def __init__(self, registry: Registry[Any], with_options: bool = False, light: bool = False) -> None:
        self.registry, self.with_options, self.light = registry, with_options, light

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """The names."""
        return f"[{'|'.join(self.registry)}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name, if it is registered."""
        if value not in self.registry:
            self.fail(f"{self.registry.kind} must be one of {', '.join(self.registry)}, got {value!r}", param, ctx)
        return str(value)


class SettingOption(click.Option):
    """An option that sets a setting of something chosen."""

    def __init__(self, kind: str, option: Option) -> None:
        default = "" if option.default is None else f" (default: {option.default})"
        text = f"{option.help.removesuffix('.')}{default}." if default else option.help
        flag = option.type is bool
        super().__init__(
            [option.flag, f"{kind}_{option.setting}"],
            type=None if flag else option.type, is_flag=flag, default=None, help=text,
        )  # fmt: skip
        self.setting = option.setting


class Choice:
    """What is chosen on a command line by one of its options: its name and its own options."""

    def __init__(self, param: click.Parameter, args: Sequence[str], helps: Sequence[str]) -> None:
        assert isinstance(param.type, Registered)
        self.flag, self.registry = param.opts[0], param.type.registry
        given = _value(param.opts, args)
        default = None if {*helps} & {*args} and not param.type.light else param.default
        self.name = str(default or "") if given is None else given
        options = self.registry[self.name].options if self.name else ()
        self.options = [SettingOption(self.registry.kind, option) for option in options]

    @property
    def title(self) -> str:
        """Over its options in the help."""
        return f"Options of {self.flag} {self.name}"

    def settings(self, params: dict[str, Any]) -> dict[str, Any]:
        """Takes its settings out of a command's parameters."""
        return {option.setting: params.pop(option.name, None) for option in self.options}


class RegisteredCommand(click.Command):
    """A command with the options of whatever is chosen on its command line."""

    @property
    def choices(self) -> list[click.Parameter]:
        """The options by which something with options of its own is chosen."""
        return [param for param in self.params if isinstance(param.type, Registered) and param.type.with_options]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads the choices first, so that their options are known; refuses options of what was not chosen."""
        chosen = ctx.meta[CHOSEN] = [Choice(param, args, ctx.help_option_names) for param in self.choices]
        try:
            rest = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise self._elsewhere(error) or error from None
        for choice in chosen:
            ctx.params[f"{choice.registry.kind}_settings"] = choice.settings(ctx.params)
        return rest

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Those of the command, and of what was chosen."""
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

    def _elsewhere(self, error: click.NoSuchOption) -> click.UsageError | None:
        """A refusal that says to what an option belongs, if to anything that was not chosen."""
        owners = [
            f"{param.opts[0]} {name}"
            for param in self.choices
            if isinstance(param.type, Registered)
            for name, thing in param.type.registry.items()
            if error.option_name in [option.flag for option in thing.options]
        ]
        if not owners:
            return None
        return click.UsageError(f"{error.option_name} is for {' or '.join(owners)}; add that, or leave it out")


def _value(flags: Sequence[str], args: Sequence[str]) -> str | None:
    """What was given for an option, as `--scheme lattice` or `--scheme=lattice`; the last counts."""
    found = None
    for place, arg in enumerate(args):
        flag, equals, value = arg.partition("=")
        if flag in flags:
            found = value if equals else next(iter(args[place + 1 : place + 2]), None)
    return found
