"""Sources of components: decorated functions, classes, objects, files, folders, manifests, entry points."""

from __future__ import annotations

import functools
import importlib.metadata
import inspect
import json
import re
import reprlib
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, JsonValue, ValidationError

from agentorchestra.core.errors import (
    ManifestError,
    SourceError,
    ToolDefinitionError,
    UndeclaredToolWarning,
    UsageError,
)
from agentorchestra.tea.calling.tool import Tool, tool
from agentorchestra.tea.programs.dynamic import load_source, tools_from_source
from agentorchestra.tea.prompts.prompt import parse_prompt
from agentorchestra.tea.registry.config import KindName
from agentorchestra.tea.registry.history import Maker, checked_component_name
from agentorchestra.tea.registry.kind import Kind, Made

FORMAT = 1
GROUP = "agentorchestra."
"""Entry points of other distributions: `agentorchestra.tools`, `agentorchestra.environments`, ..."""

_LONGEST_PATH = 4000


class Draft(NamedTuple):
    """A component that was found somewhere; `made` and `version` where its place knows them better than the object."""

    name: str
    component: Any
    made: Made | None = None
    version: str | None = None


async def components_of(
    kind: Kind[Any],
    component: Any,
    name: str | None,
    source: str | None,
    path: str | Path | None,
    *,
    trusted: bool,
    environments: Callable[[], Mapping[str, Any]],
) -> Sequence[Draft]:
    """Return the components in what was given to `register`, objects, a text or a path; raise UsageError for none."""
    if len([origin for origin in (component, source, path) if origin is not None]) != 1:
        raise UsageError(f"give a {kind.name}, its source= or its path=, one of them")
    if not trusted:
        if not isinstance(source, str):
            raise SourceError("code that the user did not write is registered as its text: give source=")
        return await _from_foreign_source(kind, source, name)
    if source is not None:
        return from_source(kind, source, name=name)
    if path is not None:
        place = place_of(path)
        if place.suffix == ".json" and place.is_file():
            return from_manifest(kind, place, environments())
        return from_path(kind, place)
    objects = component if isinstance(component, list | tuple) else [component]
    return [draft for member in objects for draft in objects_in(kind, member)]


def place_of(path: object) -> Path:
    """Return the path of a file that someone named."""
    if not isinstance(path, str | Path) or "\0" in str(path) or len(str(path)) > _LONGEST_PATH:
        raise UsageError(f"{reprlib.repr(path)} is no path of a file")
    return Path(path)


# -- objects -----------------------------------------------------------------------------------------------------------


def tools_in(thing: Any) -> list[Tool[..., Any]]:
    """Return the tools that a tool, function, class (made without arguments) or object is or has."""
    if isinstance(thing, Tool):
        return [thing]
    if inspect.isroutine(thing):
        return [tool(thing)]
    owner = thing
    if inspect.isclass(thing):
        try:
            owner = thing()
        except Exception as exc:
            raise ToolDefinitionError(
                f"the class {thing.__name__} cannot be made without arguments ({type(exc).__name__}: {exc}); give an "
                "object of it"
            ) from None
    tools = [
        getattr(owner, name)
        for name in dict.fromkeys(name for cls in reversed(type(owner).__mro__) for name in vars(cls))
        if isinstance(inspect.getattr_static(owner, name), Tool)
    ]
    if tools:
        return tools
    if callable(owner) and not inspect.isclass(thing):
        return [tool(owner)]
    raise ToolDefinitionError(f"{thing!r} has no tools: mark its methods with @tool, or give a function")


def objects_in(kind: Kind[Any], thing: Any) -> list[Draft]:
    """Return the components of a kind that something is or has; raise SourceError or ToolDefinitionError for none."""
    if kind.name == "tool":
        return [Draft(tool.name, tool) for tool in tools_in(thing)]
    if not kind.fits(thing):
        raise SourceError(f"{reprlib.repr(thing)} is no {kind.name}; {_HINTS[kind.name]}")
    try:
        name = kind.name_of(thing)
        kind.describe(name, thing, False)
    except Exception as exc:
        raise SourceError(
            f"{reprlib.repr(thing)} makes no {kind.name} ({type(exc).__name__}: {str(exc)[:200]}); {_HINTS[kind.name]}"
        ) from None
    return [Draft(name, thing)]


_HINTS = {
    "environment": "give its class, or a function without arguments that makes one",
    "agent": "make one with agentorchestra.agents.agent.Agent",
    "prompt": "give a Markdown file, or its text as source=",
    "memory": "give its class",
}


def entry_points(kind: Kind[Any]) -> list[Draft]:
    """Return the components that installed distributions offer under `agentorchestra.tools` and the like."""
    drafts: list[Draft] = []
    for point in _all_points(tuple(sys.path)):
        if point.group != GROUP + kind.plural:
            continue
        try:
            loaded = point.load()
            drafts += objects_in(kind, loaded)
        except Exception as exc:
            raise SourceError(
                f"the entry point {point.name} = {point.value} ({point.group}) cannot be loaded: "
                f"{type(exc).__name__}: {exc}; correct or uninstall {point.dist.name if point.dist else 'it'}"
            ) from None
    return drafts


@functools.lru_cache(maxsize=1)
def _all_points(places: tuple[str, ...]) -> tuple[importlib.metadata.EntryPoint, ...]:
    """Return the entry points of all kinds; looking for them opens a file of every distribution."""
    points = importlib.metadata.entry_points()
    return tuple(point for group in points.groups if group.startswith(GROUP) for point in points.select(group=group))


_WARNINGS: dict[Any, Any] = {}
"""What `warnings` has told already: the same tool of the same place is told once, whichever workspace has it."""


def warn_undeclared(tool: Tool[..., Any]) -> None:
    """Warn of a tool that does not say what it touches, with the place of its function."""
    if not tool.is_undeclared or tool.traits.approval != "policy":
        return
    code = getattr(inspect.unwrap(tool), "__code__", None)
    warnings.warn_explicit(
        f"the tool {tool.name!r} does not say what it touches, so it is treated as doing everything: its calls are "
        'asked about like those of a tool that sends. Write @tool(effect="read") or what else it does: "pure", '
        '"write", "network", "execute", "send", "spend", "composite" (docs/security.md)',
        UndeclaredToolWarning,
        code.co_filename if code is not None else tool.__module__,
        code.co_firstlineno if code is not None else 1,
        registry=_WARNINGS,
    )


# -- texts -------------------------------------------------------------------------------------------------------------


def from_source(kind: Kind[Any], text: str, *, name: str | None = None) -> list[Draft]:
    """Return the component `name`, or all, of a text that the workspace's user stands for, or raise SourceError."""
    value: object = text
    if not isinstance(value, str) or not value.strip():
        fault = "empty" if isinstance(value, str) else f"a {type(value).__name__}"
        raise SourceError(f"the source of the {kind.name} is {fault}; give its text")
    if kind.name == "prompt":
        prompt = parse_prompt(text, label=f"the prompt {name or ''}".strip())
        return [Draft(name or prompt.name, prompt)]
    if kind.name == "tool":
        tools = tools_from_source(text, name=name)
        return [Draft(tool.name, tool, Made(text, Maker(how="source", symbol=_symbol(text, tool)))) for tool in tools]
    if kind.name == "agent":
        module = load_source(text)
        agents = [value for value in vars(module).values() if kind.fits(value)]
        matches = [agent for agent in agents if name in (None, agent.name)]
        if not matches:
            raise SourceError(f"the source defines no agent {name or ''}; make one with Agent(...)".replace("  ", " "))
        return [Draft(agent.name, agent) for agent in matches]
    # A class may be named by its own name, or be the only one and be given any name.
    maker = Maker(how="source", symbol=name if name and re.search(rf"^class {re.escape(name)}\b", text, re.M) else "")
    component = kind.make(name or "", maker, text)
    if inspect.isclass(component):
        maker = Maker(how="source", symbol=component.__name__)
    return [Draft(kind.name_of(component), component, Made(text, maker))]


def _symbol(text: str, tool: Tool[..., Any]) -> str:
    return str(getattr(inspect.unwrap(tool), "__name__", tool.name)) if tool.name not in text else tool.name


async def _from_foreign_source(kind: Kind[Any], source: str, name: str | None) -> list[Draft]:
    maker = Maker(how="prompt" if kind.name == "prompt" else "source", symbol=name or "")
    if not kind.is_code(maker):
        return from_source(kind, source, name=name)
    if kind.make_foreign is None:
        raise SourceError(f"code of {kind.plural} that the workspace's user did not write is not executed")
    if name is None:
        raise SourceError("name the function of the source: name=")
    return [Draft(name, await kind.make_foreign(name, maker, source, None), Made(source, maker))]


def from_path(kind: Kind[Any], path: Path) -> list[Draft]:
    """Return the components of a file (Python, a prompt, a manifest) or of all such files of a folder."""
    try:
        folder = path.is_dir()
    except OSError as exc:
        raise SourceError(f"{str(path)[:200]} cannot be read: {exc.strerror}") from None
    if folder:
        files = sorted(file for file in path.iterdir() if file.is_file() and _fits(kind, file))
        if not files:
            raise ManifestError(f"the folder {path} holds no file with {kind.plural}; they end in .py, .md or .json")
        return [draft for file in files for draft in from_path(kind, file)]
    if path.suffix == ".json":
        return [entry.draft(kind) for entry in read_manifest(path) if entry.kind == kind.name]
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise SourceError(f"{path} cannot be read: {exc}") from None
    try:
        return from_source(kind, text)
    except SourceError as exc:
        raise SourceError(f"{path}: {exc}") from None


def _fits(kind: Kind[Any], file: Path) -> bool:
    if file.name.startswith(("_", ".")) or file.name == "README.md":
        return False
    if file.suffix == ".json":
        return True
    return file.suffix == (".md" if kind.name == "prompt" else ".py")


# -- manifests ---------------------------------------------------------------------------------------------------------


class ManifestEntry(BaseModel, extra="forbid"):
    """One component of a manifest."""

    kind: KindName
    name: str
    version: str | None = None  # written down; without it, computed
    file: str = ""  # with its source or prompt, relative to the manifest
    source: str = ""  # its text, in place of a file
    description: str = ""  # and `fields`: of an agent
    fields: dict[str, JsonValue] | None = None
    environments: tuple[str, ...] = ()  # of the workspace or the manifest, which it needs
    folder: Path = Path()

    def draft(self, kind: Kind[Any]) -> Draft:
        """Return the component; raise SourceError or ManifestError if it cannot be made."""
        checked_component_name(self.kind, self.name)
        if self.fields is not None and self.kind == "agent":
            fields = {"description": self.description, **self.fields, "name": self.name}
            draft = Draft(self.name, kind.make(self.name, Maker(how="fields", fields=fields), ""))
        else:
            draft = from_source(kind, self._text(), name=self.name)[0]
        return draft._replace(version=self.version)

    def _text(self) -> str:
        text = self.source
        if self.file:
            path = self.folder / self.file
            if not path.resolve().is_relative_to(self.folder.resolve()):
                raise ManifestError(f"{self.kind} {self.name!r} names {self.file!r}, which is outside of {self.folder}")
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as exc:
                raise ManifestError(f"{self.kind} {self.name!r} names {path}, which cannot be read: {exc}") from None
        if not text:
            raise ManifestError(
                f"{self.kind} {self.name!r} in the manifest has neither file, source nor fields; give one"
            )
        return text


class Manifest(BaseModel, extra="forbid"):
    """A JSON file that names components."""

    agentorchestra_manifest: int  # the format; later ones are refused
    components: tuple[ManifestEntry, ...] = ()


def read_manifest(path: Path) -> list[ManifestEntry]:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as exc:
        raise ManifestError(f"the manifest {path} cannot be read: {exc}; it is a JSON file") from None
    if not isinstance(raw, dict) or not isinstance(raw.get("agentorchestra_manifest"), int):
        raise ManifestError(f'{path} is no manifest; it begins with {{"agentorchestra_manifest": {FORMAT}, ...')
    if raw["agentorchestra_manifest"] > FORMAT:
        raise ManifestError(
            f"the manifest {path} has the format {raw['agentorchestra_manifest']}, this version of agentorchestra reads"
            f" up to {FORMAT}; install a later one"
        )
    try:
        manifest = Manifest.model_validate(raw)
    except ValidationError as exc:
        first = exc.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ManifestError(
            f"the manifest {path} does not fit at {place[:200]}: {first['msg'][:200]} ({reprlib.repr(first['input'])})"
        ) from None
    entries = [entry.model_copy(update={"folder": path.parent}) for entry in manifest.components]
    seen: set[tuple[str, str]] = set()
    for entry in entries:
        if (entry.kind, entry.name) in seen:
            raise ManifestError(f"the manifest {path} names the {entry.kind} {entry.name!r} twice; leave one out")
        seen.add((entry.kind, entry.name))
    return entries


def from_manifest(kind: Kind[Any], path: Path, environments: Mapping[str, Any]) -> list[Draft]:
    """Return the components of a manifest; raise ManifestError if they need environments that are not there."""
    entries = read_manifest(path)
    names = {*environments, *(entry.name for entry in entries if entry.kind == "environment")}
    for entry in entries:
        for name in entry.environments:
            if name not in names:
                raise ManifestError(
                    f"{entry.kind} {entry.name!r} in {path} needs the environment {name!r}, which is not there; there "
                    f"are: {', '.join(sorted(names)) or 'none'}"
                )
    return [entry.draft(kind) for entry in entries if entry.kind == kind.name]
