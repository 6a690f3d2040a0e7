"""A workspace whose search engines are stand-ins on the loopback address."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentorchestra.core.settings import Settings
from agentorchestra.log.store import MemoryStore
from agentorchestra.workspace import Workspace
from tests.site import Site
from tests.site.engines import KEY

KEYS = {
    "SERPER_API_KEY": KEY,
    "GOOGLE_API_KEY": KEY,
    "BRAVE_API_KEY": KEY,
    "BING_API_KEY": KEY,
    "BAIDU_API_KEY": KEY,
    "FIRECRAWL_API_KEY": KEY,
    "TAVILY_API_KEY": KEY,
}
BELOW = (
    "serper",
    "google",
    "brave",
    "bing",
    "baidu",
    "firecrawl",
    "tavily",
    "searxng",
    "crossref",
    "duckduckgo",
    "mojeek",
    "brave_web",
    "yahoo",
)
"""Those that answer below /engines/NAME."""


def settings(site: Site, *engines: str, engine: dict[str, dict[str, Any]] | None = None, **search: Any) -> Settings:
    """Settings in which these engines are asked at the site; `engine` says more of single ones."""
    where: dict[str, dict[str, Any]] = {name: {"base_url": f"{site.address}/engines/{name}"} for name in BELOW}
    where |= {"wikipedia": {"base_url": f"{site.address}/wikis/{{language}}"}, "archive": {"base_url": site.address}}
    where["google"]["engine_id"] = "engine-1"
    for name, more in (engine or {}).items():
        where[name] = {**where.get(name, {}), **more}
    named = {name: one for name, one in where.items() if name in engines or "auto" in engines}
    return Settings.model_validate({"search": {"engines": engines, "engine": named, **search}})


def workspace(folder: Path, chosen: Settings, **options: Any) -> Workspace[Any]:
    """A workspace without a database file."""
    options.setdefault("environ", KEYS)
    return Workspace(folder / "ws", store=MemoryStore(), settings=chosen, **options)


async def searched(folder: Path, chosen: Settings, query: str, **arguments: Any) -> dict[str, Any]:
    """What `search` gives; its sentence under `error` where it fails."""
    given = arguments.pop("options", {})
    async with workspace(folder, chosen, **given) as ws:
        outcome = await ws.tcp.invoke("search", {"query": query, **arguments})
    return dict(outcome.value) if outcome.ok else {"error": outcome.error}  # type: ignore[arg-type]


def titles(found: dict[str, Any]) -> list[str]:
    """Of the results."""
    return [str(one["title"]) for one in found["results"]]
