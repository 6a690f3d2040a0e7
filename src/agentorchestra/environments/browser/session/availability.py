"""Whether a browser is to be had here: asked before a run begins, without starting anything."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from agentorchestra.core.errors import MissingExtraError, ToolError
from agentorchestra.environments.browser.session.chromium import find_chromium

_MODULES = ("playwright", "PIL", "h11", "psutil")
_OWN_BROWSERS = "PLAYWRIGHT_BROWSERS_PATH"


def check_installed(executable: str = "") -> str:
    """Return the Chromium, or the folder in which playwright keeps its own.

    Raises:
        MissingExtraError: with what has to be installed.
    """
    missing = [name for name in _MODULES if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"the environment browser needs the extra browser ({missing[0]} is not installed); install it with "
            "`pip install 'agentorchestra[browser]'`, and a Chromium"
        )
    try:
        return find_chromium(executable, _own_chromium())
    except ToolError as exc:
        raise MissingExtraError(f"the environment browser has no browser: {exc}") from None


def _own_chromium() -> str:
    """Return playwright's own Chromium, "" for none; playwright itself says so only when it runs."""
    given = os.environ.get(_OWN_BROWSERS, "")
    base = Path(given) if given not in ("", "0") else Path.home() / ".cache" / "ms-playwright"
    return next((str(one) for one in sorted(base.glob("chromium-*")) if one.is_dir()), "")


__all__ = ["check_installed"]
