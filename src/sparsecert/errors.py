"""The one exception a user's mistake raises."""

from __future__ import annotations


class InputError(ValueError):
    """Something the caller gave cannot be used: the message names the argument, what came, and the remedy.

    The command line prints the message on one line and exits with code 2; it never shows a traceback for it.
    """
