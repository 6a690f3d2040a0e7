"""The engines that a workspace has: the packaged ones, and those of its own."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from agentorchestra.core.errors import SettingsError, WebError
from agentorchestra.core.settings import SearchEngineSettings, SearchSettings
from agentorchestra.tools.web.addresses import parse_address
from agentorchestra.tools.web.http import WebClient
from agentorchestra.tools.web.page_cache import KeptResults
from agentorchestra.tools.web.search.archive import Archive
from agentorchestra.tools.web.search.ddgs import NAMES, Ddgs
from agentorchestra.tools.web.search.local import Local
from agentorchestra.tools.web.search.model_engine import AskedModel
from agentorchestra.tools.web.search.services import SERVICES, ServiceEngine
from agentorchestra.tools.web.search.tool import Engines
from agentorchestra.tools.web.search.types import SearchEngine
from agentorchestra.tools.web.search.wikipedia import Wikipedia

# The entry points of engines: each gives one, from the client of the web, its settings and the environment.
GROUP = "agentorchestra.search_engines"
AUTO = "auto"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_ALL = ("base_url", "timeout_s", "cost_usd")
# The settings that each engine uses; `_ALL` where nothing else is said
_USED: dict[str, tuple[str, ...]] = {
    "local": ("timeout_s",),
    "model": ("model", "timeout_s"),
    **{service.name: (*_ALL, "key_env") for service in SERVICES if any(service.key)},
    "google": (*_ALL, "key_env", "engine_id"),
}


def engines_of(
    settings: SearchSettings,
    *,
    folder: Path,
    near: Path,
    web: WebClient,
    environ: Mapping[str, str],
    engines: Sequence[SearchEngine] = (),
) -> Engines:
    """Return the engines that the settings name, and what those lack that cannot be asked; SettingsError for others."""
    makers: dict[str, Any] = {service.name: partial(ServiceEngine, service) for service in SERVICES}
    makers |= {"wikipedia": Wikipedia, "archive": Archive, "model": AskedModel}
    makers |= {name: partial(Ddgs, name) for name in NAMES}
    plugins = {plugin.name: plugin for plugin in _plugins(tuple(sys.path))}
    own = {_valid_engine(engine).name: engine for engine in engines}
    # The order of `auto`: this machine, one's own, what one has a key for, the rest.
    names = ["local", *(engine.name for engine in engines), *sorted(plugins), *(service.name for service in SERVICES)]
    names += ["model", "wikipedia", *NAMES, "archive"]
    if twice := [name for name in names if names.count(name) > 1]:
        raise SettingsError(f"two search engines are called {twice[0]!r}; give one of them another name")
    for name in (*settings.engines, *settings.engine):
        if name not in names and name != AUTO:
            raise SettingsError(f"search names the engine {name!r}; it can be one of: {AUTO}, {', '.join(names)}")
    for name, options in settings.engine.items():
        _check(name, options, () if name in own else None if name in plugins else _USED.get(name, _ALL))

    def make(name: str) -> SearchEngine:
        options = settings.engine.get(name, SearchEngineSettings())
        if name == "local":
            return Local(folder, settings.folders, options, near=near)
        if name in own:
            return own[name]
        if name in plugins:
            return _valid_engine(plugins[name].load()(web, options, environ))
        engine: SearchEngine = makers[name](web, options, environ)
        return engine

    selection: list[str] = []
    for name in settings.engines:
        selection += names if name == AUTO else [name]
    members = [make(name) for name in dict.fromkeys(selection)]
    lacking = {engine.name: engine.missing() for engine in members if engine.missing()}
    results = KeptResults(folder / "web", settings.cache_s)
    return Engines(tuple(members), lacking, settings.choice, settings.most, settings.timeout_s, web.denied, results)


@functools.lru_cache(maxsize=1)
def _plugins(places: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return the engines of other distributions: looking for them opens a file of every one."""
    return tuple(entry_points(group=GROUP))


def _check(name: str, settings: SearchEngineSettings, used: tuple[str, ...] | None) -> None:
    """Refuse what an engine would ignore, and an address that is none."""
    for field in sorted(settings.model_fields_set):
        if used is not None and field not in used:
            can = f"it can have: {', '.join(used)}" if used else "an engine of your own has its settings in its code"
            raise SettingsError(f"search.engine.{name} has {field}, which it does not use; {can}")
    if settings.base_url:
        try:
            parse_address(settings.base_url.replace("{language}", "en"))
        except WebError as error:
            raise SettingsError(f"search.engine.{name}.base_url: {error}") from None


def _valid_engine(engine: Any) -> SearchEngine:
    if not isinstance(engine, SearchEngine) or not _NAME.fullmatch(engine.name):
        raise SettingsError(
            f"{engine!r} is no search engine: it needs a name of lower case letters, digits and '_', traits, "
            "missing() and search(query, ctx) (docs/web-search.md)"
        )
    return engine


def key_variables(settings: SearchSettings) -> tuple[str, ...]:
    variables = {service.name: service.key[0] for service in SERVICES if service.key[0]}
    variables |= {name: options.key_env for name, options in settings.engine.items() if options.key_env}
    return tuple(sorted({*variables.values()}))
