"""All actions of the environment `browser`, in the order in which agents are shown them."""

from __future__ import annotations

from agentorchestra.environments.browser.actions.navigation import Navigating
from agentorchestra.environments.browser.actions.overview import Looking
from agentorchestra.environments.browser.actions.pdfs import Pdfs
from agentorchestra.environments.browser.actions.pointer import Pointing
from agentorchestra.environments.browser.actions.video import Films
from agentorchestra.environments.browser.session.logins import Logins
from agentorchestra.environments.browser.view.obstacles import Walls


class Actions(Looking, Films, Pdfs, Logins, Pointing, Navigating, Walls):
    """What can be done with pages."""

    def repeatable(self, action: str) -> bool:
        """Return True if it may be done again after a crash: pages are got again, nothing was given to them."""
        return action in _AGAIN


_AGAIN = frozenset(
    {
        *("go_to_url", "go_back", "go_forward", "reload", "open_tab", "switch_tab", "close_tab", "wait"),
        *(
            "scroll",
            "scroll_to_text",
            "hover",
            "read_page",
            "screenshot",
            "find_archive_url",
            "find_elements",
            "pdf_viewer",
            "video_viewer",
        ),
    }
)
"""Navigation by GET, looks and waits. A click, a key, a text or a file may have had an effect that is had once."""


__all__ = ["Actions"]
