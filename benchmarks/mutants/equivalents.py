"""Mutants that change nothing that is promised, each with the reason; reviewed by hand, and an error once stale."""

from __future__ import annotations

EQUIVALENTS: dict[str, str] = {}
