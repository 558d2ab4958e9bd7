"""`python -m studies.levine_feizi_2020`."""

from __future__ import annotations

from sparsecert.cli import run_command
from studies.levine_feizi_2020.command import NAME, command

if __name__ == "__main__":
    run_command(command, NAME)
