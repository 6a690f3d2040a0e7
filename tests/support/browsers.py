"""Settings of runs that browse."""

from __future__ import annotations

from agentorchestra.core.settings import BrowserSettings, Settings, WebSettings


def settings_for(host: str) -> Settings:
    """Return settings for a scripted model that may visit one host of this machine."""
    return Settings(
        model="scripted", system="react", web=WebSettings(private=(host,)), browser=BrowserSettings(private=(host,))
    )
