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

The body is a Jinja2 template. Of a prompt for one question, what stands behind the line `{# user #}` goes into the
user's message. Equal values render to equal text: there is no clock, no chance and no file in it. Values are inserted
as they are and never read as templates themselves. `composition.py` has modules and trainable parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from importlib.resources.abc import Traversable
from pathlib import Path

from agentorchestra.core.errors import PromptError
from agentorchestra.core.names import did_you_mean
from agentorchestra.core.spec import Pinned
from agentorchestra.tea.prompts.prompt import Prompt, parse_prompt

Resource = Path | Traversable  # a file or folder, of the disk or of a package


def load_prompt(file: Resource) -> Prompt:
    """Return a prompt from a file (a path or a resource) that includes no other, or raise PromptError."""
    source = _read(file)
    return _check_name(parse_prompt(source.text, label=source.label), source)


@dataclass(frozen=True)
class _Source:
    """A prompt's file before it is composed."""

    text: str
    label: str
    file: str = ""  # its name, "" for a text that lies in none
    name: str = ""  # that the prompt must have, "" for the file's
    variables: tuple[str, ...] | None = None  # those of the prompt that it replaces, None where it replaces none
    # that its template is right is known: every packaged one is looked at by the tests, and a process that starts need
    # not do it again
    valid: bool = False


def _read(file: Resource) -> _Source:
    try:
        return _Source(file.read_text(encoding="utf-8"), str(file), file.name)
    except (OSError, UnicodeDecodeError) as exc:
        raise PromptError(f"the prompt {file} cannot be read: {exc}") from None


def _check_name(prompt: Prompt, source: _Source) -> Prompt:
    if source.name and prompt.name != source.name:
        raise PromptError(f"the text for the prompt {source.name!r} says that its name is {prompt.name!r}")
    if source.file and source.file != f"{prompt.name}.md":
        raise PromptError(
            f"{source.label} names its prompt {prompt.name!r}; name the file {prompt.name}.md, or the prompt after it"
        )
    return prompt


_BUILTINS: dict[tuple[tuple[str, _Source], ...], dict[str, Prompt]] = {}
"""The packaged prompts as they were composed last, by what their files held."""


class PromptLibrary:
    """Packaged prompts, and the workspace's own in their place. Files are read once, when the library is made.

    Of two packaged folders with one name, the later holds. The application's folders (`app_folders`) must be there; a
    file of the workspace's (`overrides`) replaces either and may use that prompt's variables, or is a new prompt. A
    file that is no prompt, or uses other variables than it is given, raises PromptError.
    """

    def __init__(
        self, folders: Sequence[Resource], overrides: Path | None = None, *, app_folders: Sequence[Path] = ()
    ) -> None:
        self._prompts: dict[str, Prompt] = {}
        self._sources: dict[str, _Source] = {}
        for folder in folders:
            self._sources |= {name: replace(source, valid=True) for name, source in _in_folder(folder).items()}
        sources = tuple(self._sources.items())
        if sources not in _BUILTINS:  # every workspace that is opened has the same
            _BUILTINS.clear()
            _BUILTINS[sources] = self._compose(set(self._sources))
        self._prompts = self._packaged = dict(_BUILTINS[sources])
        for own in app_folders:
            if not own.is_dir():
                raise PromptError(f"the folder of prompts {own} is not there; name it beside the code that uses it")
        for place in (*app_folders, *((overrides,) if overrides is not None and overrides.is_dir() else ())):
            self._override(_in_folder(place))

    def _override(self, sources: Mapping[str, _Source]) -> None:
        for name, source in sources.items():
            former = self._prompts.get(name)
            self._sources[name] = replace(source, variables=None if former is None else former.variables)
        self._prompts = self._compose(set(sources))

    def _compose(self, changed: set[str]) -> dict[str, Prompt]:
        """Return all prompts after those of these names changed: they and what includes them are composed anew."""
        prompts = {
            name: former
            for name, former in self._prompts.items()
            if name not in changed and changed.isdisjoint(module.partition("@")[0] for module in former.modules)
        }
        making: list[str] = []

        def module(name: str) -> Prompt:
            asking = self._sources[making[-1]].label
            if name not in prompts and name not in self._sources:
                names = sorted({*prompts, *self._sources})
                guess = did_you_mean(name, names, f"the prompts: {', '.join(names) or 'none'}")
                raise PromptError(f"{asking} includes {name!r}, which is not there; {guess}")
            return prompt(name)

        def prompt(name: str) -> Prompt:
            if name in prompts:
                return prompts[name]
            source = self._sources[name]
            if name in making:
                circle = " -> ".join([*making[making.index(name) :], name])
                raise PromptError(f"{source.label} includes itself: {circle}; take one of the includes out")
            making.append(name)
            parsed = parse_prompt(source.text, label=source.label, modules=module, check=not source.valid)
            prompts[name] = _fit(_check_name(parsed, source), source)
            making.pop()
            return prompts[name]

        for name in [*self._prompts, *self._sources]:
            if name in self._sources:
                prompt(name)
            else:
                prompts.setdefault(name, self._prompts[name])
        return prompts

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._prompts))

    @property
    def builtin(self) -> tuple[str, ...]:
        """The names of the packaged prompts that nothing replaces."""
        return tuple(name for name, prompt in self._packaged.items() if self._prompts.get(name) == prompt)

    def get(self, name: str) -> Prompt:
        """Return a prompt by name; raise PromptError with the names there are."""
        try:
            return self._prompts[name]
        except KeyError:
            raise PromptError(f"no prompt {name!r}; the prompts: {', '.join(self.names) or 'none'}") from None

    def pins(self) -> dict[str, Pinned]:
        """Return version, content hash and the hash of the text (the same one) by name, for the manifest."""
        prompts = {name: self._prompts[name] for name in self.names}
        return {
            name: Pinned(version=prompt.version, content_hash=prompt.content_hash, source=prompt.content_hash)
            for name, prompt in prompts.items()
        }

    def texts(self) -> dict[str, str]:
        return {prompt.content_hash: prompt.text for prompt in self._prompts.values()}

    def with_prompts(self, prompts: Mapping[str, Prompt]) -> PromptLibrary:
        """Return a library in which some prompts are these: what the registry says of them, or further ones."""
        if all(self._prompts.get(name) is prompt for name, prompt in prompts.items()):
            return self
        other = copy(self)
        other._prompts = {**self._prompts, **prompts}
        return other

    def with_texts(self, texts: Mapping[str, str]) -> PromptLibrary:
        """Return a library in which some prompts, new ones too, have these texts, or raise PromptError."""
        other = copy(self)
        other._sources = dict(self._sources)
        label = "the text given for the prompt"
        other._override({name: _Source(text, f"{label} {name!r}", name=name) for name, text in texts.items()})
        return other


def _fit(prompt: Prompt, source: _Source) -> Prompt:
    """Return a prompt with the variables that it is given: those of the one that it replaces."""
    if source.variables is None:
        return prompt
    more = sorted(set(prompt.variables) - set(source.variables))
    if more:
        raise PromptError(
            f"{source.label} uses {', '.join(more)}, which this prompt is not given; "
            f"its variables: {', '.join(source.variables) or 'none'}"
        )
    return replace(prompt, variables=source.variables)  # it may ignore some of what it is given


def _in_folder(folder: Resource) -> dict[str, _Source]:
    files = [entry for entry in folder.iterdir() if entry.name.endswith(".md") and entry.is_file()]
    # README.md tells people about the folder, it is no prompt.
    sources = [_read(file) for file in sorted(files, key=lambda path: str(path.name)) if file.name != "README.md"]
    return {source.file.removesuffix(".md"): source for source in sources}
