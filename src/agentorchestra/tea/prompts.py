"""Prompts are Markdown files with front matter, versioned as components; a workspace's file replaces a packaged one.

    ---
    name: task
    version: 1.0.0
    description: The first user message of an agent.
    variables: [task, files]
    ---
    <task>
    {{ task }}
    </task>

The body is a Jinja2 template. Equal values render to equal text: there is no clock, no chance and no file in it. Values
are inserted as they are and never read as templates themselves.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agentorchestra.core.errors import PromptError
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.spec import Pinned

if TYPE_CHECKING:
    import jinja2

_FENCE = "---"
_FIELDS = ("name", "version", "description", "variables")
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.-]+)?")
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")


class Resource(Protocol):
    """A file or folder: what pathlib and importlib.resources have in common."""

    @property
    def name(self) -> str:
        """The last part of its path."""
        ...

    def iterdir(self) -> Iterable[Any]:
        """What a folder holds."""
        ...

    def is_file(self) -> bool:
        """Whether it is a file."""
        ...

    def read_text(self, encoding: str) -> str:
        """A file's text."""
        ...


@dataclass(frozen=True)
class Prompt:
    """A prompt.

    Attributes:
        name, version, description: from its front matter.
        variables: what `render` must be given.
        template: the body, a Jinja2 template.
        content_hash: hex SHA-256 of the file's text.
        text: the file's text.
    """

    name: str
    version: str
    description: str
    variables: tuple[str, ...]
    template: str
    content_hash: str
    text: str = ""

    @property
    def component(self) -> str:
        """`name@version`."""
        return f"{self.name}@{self.version}"

    def render(self, **values: Any) -> str:
        """The prompt's text, without white space around it.

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
            return _compiled(self.template).render(**values).strip()
        except (jinja2.TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as exc:
            raise PromptError(f"prompt {self.name!r} cannot be rendered: {exc}; correct its file") from None


@functools.lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    # What would make two renderings differ.
    environment.filters.pop("random", None)
    environment.globals.pop("lipsum", None)
    return environment


@functools.lru_cache(maxsize=256)
def _compiled(template: str) -> jinja2.Template:
    return _environment().from_string(template)


def parse_prompt(text: str, *, where: str) -> Prompt:
    """A prompt from the text of its file.

    Args:
        text: front matter and template.
        where: the file, for messages.

    Raises:
        PromptError: if the front matter is missing, is not YAML, lacks a field or has a wrong one; if the template
            does not parse or uses a variable that is not declared.
    """
    import jinja2
    import jinja2.meta
    import yaml

    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != _FENCE or _FENCE not in (line.rstrip() for line in lines[1:]):
        raise PromptError(f"{where} has no front matter; begin it with the lines ---, name: ..., version: 1.0.0, ---")
    end = next(number for number, line in enumerate(lines) if number and line.rstrip() == _FENCE)
    try:
        fields = yaml.safe_load("\n".join(lines[1:end]))
    except yaml.YAMLError as exc:
        raise PromptError(f"the front matter of {where} is not YAML: {' '.join(str(exc).split())}") from None
    if not isinstance(fields, dict):
        raise PromptError(f"the front matter of {where} is not a list of fields; it needs name: and version:")
    name, version, variables = _checked(fields, where)
    template = "\n".join(lines[end + 1 :])
    try:
        used = jinja2.meta.find_undeclared_variables(_environment().parse(template))
        _compiled(template)
    except jinja2.TemplateSyntaxError as exc:
        raise PromptError(
            f"{where} is not a template: {exc.message}, line {exc.lineno + end + 1}; correct it"
        ) from None
    except jinja2.TemplateError as exc:
        raise PromptError(f"{where} is not a template: {exc}; correct it") from None
    undeclared = sorted(used - set(variables) - set(_environment().globals))
    if undeclared:
        raise PromptError(
            f"{where} uses {', '.join(undeclared)}, which it does not declare; "
            f"its variables: {', '.join(variables) or 'none'}"
        )
    description = str(fields.get("description") or "")
    return Prompt(name, version, description, variables, template, sha256_text(text), text)


def _checked(fields: dict[Any, Any], where: str) -> tuple[str, str, tuple[str, ...]]:
    unknown = sorted(str(one) for one in fields if one not in _FIELDS)
    if unknown:
        raise PromptError(
            f"the front matter of {where} has the unknown field {unknown[0]!r}; it has {_listed(_FIELDS)}"
        )
    for field in ("name", "version"):
        if not fields.get(field):
            raise PromptError(f"the front matter of {where} has no {field}; add e.g. {field}: {_EXAMPLES[field]}")
    name, version = str(fields["name"]), str(fields["version"])
    if not _NAME.fullmatch(name):
        raise PromptError(f"{where} has the name {name!r}; use letters, digits, '_' and '-'")
    if not _VERSION.fullmatch(version):
        raise PromptError(f"{where} has the version {version!r}; versions look like 1.2.0")
    variables = fields.get("variables") or []
    if not isinstance(variables, list) or not all(isinstance(one, str) and one.isidentifier() for one in variables):
        raise PromptError(f"the variables of {where} are {variables!r}; give a list of names: variables: [task, files]")
    return name, version, tuple(variables)


_EXAMPLES = {"name": "task", "version": "1.0.0"}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def load_prompt(file: Resource) -> Prompt:
    """A prompt from a file: a path, or a resource of a package.

    Raises:
        PromptError: if it cannot be read or is no prompt, or if its name is not the file's.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise PromptError(f"the prompt {file} cannot be read: {exc}") from None
    prompt = parse_prompt(text, where=str(file))
    if file.name != f"{prompt.name}.md":
        raise PromptError(
            f"{file} names its prompt {prompt.name!r}; name the file {prompt.name}.md, or the prompt after it"
        )
    return prompt


class PromptLibrary:
    """Packaged prompts, and the workspace's own in their place. Files are read once, when the library is made.

    Args:
        packaged: folders of `NAME.md` files; of two with one name, the later holds.
        overrides: the workspace's folder of prompts; a file there replaces the packaged prompt of its name, and may
            use that one's variables, or is a new prompt.
        given: the application's folders of prompts, which must be there; the overrides replace theirs as well.

    Raises:
        PromptError: for a file that is no prompt, or an override with other variables than it is given.
    """

    def __init__(
        self, packaged: Sequence[Resource], overrides: Path | None = None, *, given: Sequence[Path] = ()
    ) -> None:
        self._prompts: dict[str, Prompt] = {}
        for folder in packaged:
            self._prompts |= {prompt.name: prompt for prompt in _in_folder(folder)}
        self._packaged = dict(self._prompts)
        for own in given:
            if not own.is_dir():
                raise PromptError(f"the folder of prompts {own} is not there; name it beside the code that uses it")
        for place in (*given, *((overrides,) if overrides is not None and overrides.is_dir() else ())):
            for prompt in _in_folder(place):
                self._override(prompt, f"{place / prompt.name}.md")

    def _override(self, prompt: Prompt, where: str) -> None:
        replaced = self._prompts.get(prompt.name)
        if replaced is not None:
            more = sorted(set(prompt.variables) - set(replaced.variables))
            if more:
                raise PromptError(
                    f"{where} uses {', '.join(more)}, which this prompt is not given; "
                    f"its variables: {', '.join(replaced.variables) or 'none'}"
                )
            # It may ignore some of what it is given.
            prompt = replace(prompt, variables=replaced.variables)
        self._prompts[prompt.name] = prompt

    @property
    def names(self) -> tuple[str, ...]:
        """Every prompt's name, sorted."""
        return tuple(sorted(self._prompts))

    @property
    def packaged(self) -> tuple[str, ...]:
        """The names of the packaged prompts that nothing replaces."""
        return tuple(name for name, one in self._packaged.items() if self._prompts.get(name) == one)

    def get(self, name: str) -> Prompt:
        """A prompt by name.

        Raises:
            PromptError: with the names there are.
        """
        try:
            return self._prompts[name]
        except KeyError:
            raise PromptError(f"no prompt {name!r}; the prompts: {', '.join(self.names) or 'none'}") from None

    def pins(self) -> dict[str, Pinned]:
        """Name -> version, content hash and the hash of its text (the same one), for the manifest."""
        return {name: _pin(self._prompts[name]) for name in self.names}

    def texts(self) -> dict[str, str]:
        """SHA-256 -> text of every prompt."""
        return {one.content_hash: one.text for one in self._prompts.values()}

    def with_texts(self, texts: Mapping[str, str]) -> PromptLibrary:
        """Another library in which some prompts have the given texts.

        Args:
            texts: by name; a name that this library does not have is a new prompt.

        Raises:
            PromptError: for a text that is no prompt, has another name, or uses what that prompt is not given.
        """
        other = copy(self)
        other._prompts = dict(self._prompts)
        for name, text in texts.items():
            prompt = parse_prompt(text, where=f"the prompt {name!r}")
            if prompt.name != name:
                raise PromptError(f"the text for the prompt {name!r} says that its name is {prompt.name!r}")
            other._override(prompt, f"the text given for the prompt {name!r}")
        return other


def _pin(prompt: Prompt) -> Pinned:
    return Pinned(version=prompt.version, content_hash=prompt.content_hash, source=prompt.content_hash)


def _in_folder(folder: Resource) -> list[Prompt]:
    files = [entry for entry in folder.iterdir() if entry.name.endswith(".md") and entry.is_file()]
    # README.md tells people about the folder, it is no prompt.
    return [load_prompt(file) for file in sorted(files, key=lambda one: str(one.name)) if file.name != "README.md"]


__all__ = ["Prompt", "PromptLibrary", "Resource", "load_prompt", "parse_prompt"]
