"""Prompts are Markdown files with front matter, versioned as components; a workspace's file replaces a packaged one."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from agentorchestra.core.errors import PromptError
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.spec import Pinned

_FENCE = "---\n"


class _Resource(Protocol):
    """A file or folder: pathlib's and importlib.resources' common part."""

    @property
    def name(self) -> str: ...
    def iterdir(self) -> Any: ...
    def is_dir(self) -> bool: ...
    def read_text(self, encoding: str) -> str: ...


@dataclass(frozen=True)
class Prompt:
    """A prompt template.

    Attributes:
        name, version, description: from its front matter.
        variables: what `render` must be given.
        body: the Jinja2 template.
        content_hash: hex SHA-256 of the file's text.
    """

    name: str
    version: str
    description: str
    variables: tuple[str, ...]
    body: str
    content_hash: str

    def render(self, **values: Any) -> str:
        """The prompt's text. Values are inserted as they are: text from outside is never read as a template.

        Raises:
            PromptError: for a missing or unknown variable, or a template that fails.
        """
        missing = sorted(set(self.variables) - set(values))
        unknown = sorted(set(values) - set(self.variables))
        if missing or unknown:
            wrong = [*(f"{name!r} is missing" for name in missing), *(f"{name!r} is unknown" for name in unknown)]
            raise PromptError(
                f"prompt {self.name!r}: {', '.join(wrong)}; its variables: {', '.join(self.variables) or 'none'}"
            )
        import jinja2

        try:
            return str(_compiled(self.body).render(**values)).strip()
        except jinja2.TemplateError as exc:
            raise PromptError(f"prompt {self.name!r} cannot be rendered: {exc}; correct its file") from None


@functools.lru_cache(maxsize=256)
def _compiled(body: str) -> Any:
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    return environment.from_string(body)


def parse_prompt(text: str, *, where: str) -> Prompt:
    """A prompt from the text of its file.

    Raises:
        PromptError: if the front matter is missing, is not YAML, or lacks a field; or the template does not parse.
    """
    import jinja2
    import yaml

    head, separator, body = text.removeprefix(_FENCE).partition("\n" + _FENCE)
    if not text.startswith(_FENCE) or not separator:
        raise PromptError(f"{where} has no front matter; begin it with ---, name:, version:, ---")
    try:
        fields = yaml.safe_load(head)
    except yaml.YAMLError as exc:
        raise PromptError(f"the front matter of {where} is not YAML: {str(exc).splitlines()[0]}") from None
    if not isinstance(fields, dict) or not fields.get("name") or not fields.get("version"):
        raise PromptError(f"the front matter of {where} lacks name or version")
    try:
        _compiled(body)
    except jinja2.TemplateError as exc:
        raise PromptError(f"{where} is not a template: {exc}; correct it") from None
    return Prompt(
        name=str(fields["name"]),
        version=str(fields["version"]),
        description=str(fields.get("description", "")),
        variables=tuple(str(one) for one in fields.get("variables") or ()),
        body=body,
        content_hash=sha256_text(text),
    )


class PromptLibrary:
    """Packaged prompts, and the workspace's own in their place.

    Args:
        packaged: folders of `*.md` files.
        overrides: the workspace's folder of prompts; a file there replaces the packaged prompt of its name.
    """

    def __init__(self, packaged: Sequence[Any], overrides: Path | None = None) -> None:
        self._prompts: dict[str, Prompt] = {}
        for folder in packaged:
            self._read(folder)
        if overrides is not None and overrides.is_dir():
            self._read(overrides)

    def _read(self, folder: _Resource) -> None:
        for entry in sorted(folder.iterdir(), key=lambda one: str(one.name)):
            if not entry.name.endswith(".md") or entry.is_dir():
                continue
            try:
                prompt = parse_prompt(entry.read_text(encoding="utf-8"), where=str(entry))
            except (OSError, UnicodeDecodeError) as exc:
                raise PromptError(f"{entry} cannot be read: {exc}") from None
            self._prompts[prompt.name] = prompt

    def get(self, name: str) -> Prompt:
        """A prompt by name.

        Raises:
            PromptError: with the names there are.
        """
        try:
            return self._prompts[name]
        except KeyError:
            raise PromptError(f"no prompt {name!r}; the prompts: {', '.join(sorted(self._prompts))}") from None

    def pins(self) -> dict[str, Pinned]:
        """Name -> version and content hash, for the manifest."""
        return {
            name: Pinned(version=one.version, content_hash=one.content_hash)
            for name, one in sorted(self._prompts.items())
        }
