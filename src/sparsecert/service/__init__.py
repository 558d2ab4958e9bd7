"""Serves predictions and certificates of one model over HTTP, with a page to try them. Needs the extra `serve`."""

from __future__ import annotations

from sparsecert.service.app import Service, serve
from sparsecert.service.limits import Limits

__all__ = ["Limits", "Service", "serve"]
