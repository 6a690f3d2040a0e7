"""A real browser for tests: any Chromium that is installed, driven by playwright.

async with chromium() as browser:
    page = await browser.new_page()
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, async_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium(own: str = "") -> str:
    """The path of a Chromium.

    Args:
        own: where playwright keeps its own.

    Where root could have installed one (Debian, see scripts/setup-system.sh) its absence is a failure, elsewhere the
    test is skipped.
    """
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None and own and Path(own).exists():
        found = own
    if found is not None:
        return found
    sentence = "no Chromium was found: run scripts/setup-system.sh, or install one as `chromium` on the PATH"
    if os.geteuid() == 0 and Path("/etc/debian_version").exists():
        pytest.fail(sentence)
    pytest.skip(sentence)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A browser without a window, closed at the end."""
    async with async_playwright() as playwright:
        path = find_chromium(playwright.chromium.executable_path)
        # Chromium's own sandbox does not work for root.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = await playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            await browser.close()


__all__ = ["chromium", "find_chromium"]
