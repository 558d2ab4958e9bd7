"""A Chromium to open the page in: the one that SPARSECERT_CHROMIUM names, or the one on the PATH."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

VARIABLE = "SPARSECERT_CHROMIUM"
FLAGS = (
    "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync "
    "--no-first-run"
)


def chromium() -> str | None:
    """Its path; None where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get(VARIABLE) or next((found for name in names if (found := shutil.which(name))), None)


@contextmanager
def opened() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS.split())
        try:
            yield browser
        finally:
            browser.close()
