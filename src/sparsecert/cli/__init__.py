"""The command line: parse, call, write. Torch is imported only inside the commands that need it.

A command is a file here that defines a Click command of the file's name; nothing else lists it.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click

from sparsecert import __version__
from sparsecert.cli.interrupted import exit_code, last_words, sigterm_interrupts
from sparsecert.errors import InputError, OneClassWarning


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="sparsecert")
def cli() -> None:
    """Certified robustness to sparse attacks by randomized ablation.

    \b
    Example, on the digits that ship with the package:
      sparsecert train --data digits --out runs/digits
      sparsecert certify runs/digits --data digits --out runs/digits/certify.jsonl
      sparsecert report runs/digits/certify.jsonl
    """


def _commands() -> Iterator[click.Command]:
    """The command of each file that has one; files without one are not imported."""
    for file in Path(__file__).parent.glob("[!_]*.py"):
        if re.search(r"^@click\.(command|group)\(", file.read_text("utf-8"), re.MULTILINE):
            yield getattr(import_module(f"{__name__}.{file.stem}"), file.stem)


for command in _commands():
    cli.add_command(command)


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Runs `sparsecert`."""
    run_command(cli, "sparsecert", args)


def run_command(command: click.Command, name: str, args: Sequence[str] | None = None) -> NoReturn:
    """Runs a command. A user's mistake prints one line on stderr and exits with code 2, without a traceback."""
    warnings.showwarning = _warning_lines()
    try:
        with sigterm_interrupts():
            code = command.main(args, prog_name=name, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(2)
    except BrokenPipeError:
        sys.stdout = None  # the reader of the pipe is gone; nothing is left to flush
        sys.exit(141)
    except (click.ClickException, InputError, OSError) as error:
        message = error.format_message() if isinstance(error, click.ClickException) else str(error)
        click.echo(f"Error: {' '.join(message.split())}", err=True)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt) as stopped:
        click.echo(last_words(stopped), err=True)
        sys.exit(exit_code(stopped))
    sys.exit(code if isinstance(code, int) else 0)


def _warning_lines() -> Callable[..., None]:
    """Shows warnings as lines on stderr; that certificates are of no use, once."""
    said = False

    def show(message: Warning | str, category: type[Warning], *_: Any) -> None:
        nonlocal said
        if issubclass(category, OneClassWarning):
            if said:
                return
            said = True
        if issubclass(category, UserWarning):
            click.echo(f"Warning: {message}", err=True)

    return show
