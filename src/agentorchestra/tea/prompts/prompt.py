"""One prompt: what stands in its file, what it renders to, and its parts that may be rewritten."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentorchestra.core.errors import PromptError
from agentorchestra.core.ids import sha256_text
from agentorchestra.tea.prompts.composition import expand, parts_of, with_parts

if TYPE_CHECKING:
    import jinja2

_FENCE = "---"
_FIELDS = ("name", "version", "description", "variables", "trainable", "modules")
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.-]+)?")
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_USER = re.compile(r"^[ \t]{0,99}\{# user #\}[ \t]{0,99}\n?", re.MULTILINE)
"""Behind this line stands what goes into the user's message: the task, and what changes from request to request."""
_SHORT = 4_000  # characters of front matter that no nesting makes dangerous


@dataclass(frozen=True)
class Prompt:
    name: str  # as version and description from its front matter
    version: str
    description: str
    variables: tuple[str, ...]  # what `render` must be given
    template: str  # the body, a Jinja2 template
    content_hash: str  # hex SHA-256 of the text
    text: str = ""  # the file's text; with modules put in where it has any, so that it is whole
    trainable: tuple[str, ...] = ()  # names of the parts that may be rewritten
    modules: tuple[str, ...] = ()  # `name@version` of the prompts that it includes, theirs too

    @property
    def component(self) -> str:
        """`name@version`."""
        return f"{self.name}@{self.version}"

    @property
    def parts(self) -> dict[str, str]:
        return parts_of(self.template, self.trainable, label=f"the prompt {self.name!r}")

    def with_part(self, name: str, text: str, *, version: str = "") -> Prompt:
        """Return the prompt with another text (itself a template) for a trainable part, or raise PromptError."""
        import jinja2

        label = f"the prompt {self.name!r}"
        if name not in self.trainable:
            names = _join(self.trainable) or "none"
            raise PromptError(f"{label} has no trainable part {name!r}; its trainable parts: {names}")
        try:
            _environment().parse(text)
        except jinja2.TemplateError as exc:
            raise PromptError(f"the text for the part {name!r} of {label} is not a template by itself: {exc}") from None
        whole = _normal(self.text)
        head = whole[: len(whole) - len(self.template)]
        if version:
            head = re.sub(r"^version:.*$", f"version: {version}", head, count=1, flags=re.MULTILINE)
        return parse_prompt(head + with_parts(self.template, {name: text}, label=label), label=label)

    def render(self, **values: Any) -> str:
        """Return the prompt's text, stripped; PromptError for missing or unknown variables and failing templates."""
        self._check(values)
        return self._render(self.template, values)

    def messages(self, **values: Any) -> tuple[str, str]:
        """Return the system's and the user's text, parted by the line `{# user #}`, in no block; raise as `render`."""
        self._check(values)
        rules, *tail = _USER.split(self.template, maxsplit=1)
        return self._render(rules, values), self._render(tail[0], values) if tail else ""

    def _check(self, values: Mapping[str, Any]) -> None:
        missing = sorted(set(self.variables) - set(values))
        unknown = sorted(set(values) - set(self.variables))
        if missing or unknown:
            wrong = [*(f"{name!r} is missing" for name in missing), *(f"{name!r} is unknown" for name in unknown)]
            raise PromptError(
                f"prompt {self.name!r}: {', '.join(wrong)}; its variables: {', '.join(self.variables) or 'none'}"
            )

    def _render(self, template: str, values: Mapping[str, Any]) -> str:
        import jinja2

        try:
            return _compile(template).render(**values).strip()
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
def _compile(template: str) -> jinja2.Template:
    return _environment().from_string(template)


def _normal(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def parse_prompt(
    text: str, *, label: str, modules: Callable[[str], Prompt] | None = None, check: bool = True
) -> Prompt:
    """Return a prompt from its file's text, or raise PromptError; `where` is for messages, `modules` finds includes."""
    import yaml

    lines = _normal(text).split("\n")
    if lines[0].rstrip() != _FENCE or _FENCE not in (line.rstrip() for line in lines[1:]):
        raise PromptError(f"{label} has no front matter; begin it with the lines ---, name: ..., version: 1.0.0, ---")
    end = next(number for number, line in enumerate(lines) if number and line.rstrip() == _FENCE)
    try:
        fields = copy(_read("\n".join(lines[1:end])))
    except yaml.YAMLError as exc:
        raise PromptError(f"the front matter of {label} is not YAML: {' '.join(str(exc).split())}") from None
    if not isinstance(fields, dict):
        raise PromptError(f"the front matter of {label} is not a list of fields; it needs name: and version:")
    name, version, variables = _header(fields, label)
    template, includes = expand("\n".join(lines[end + 1 :]), modules, label=label)
    if includes:
        variables = tuple(dict.fromkeys((*variables, *(name for module in includes for name in module.variables))))
        names = dict.fromkeys(component for module in includes for component in (module.component, *module.modules))
        fields |= {"variables": [*variables], "modules": [*names]}
        head = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=10_000)
        text = f"{_FENCE}\n{head}{_FENCE}\n{template}"
    if check:
        _check_template(template, variables, label, first=0 if includes else end + 1)
    trainable = _names(fields, "trainable", label)
    parts_of(template, trainable, label=label)
    description = str(fields.get("description") or "")
    references = _names(fields, "modules", label)
    return Prompt(name, version, description, variables, template, sha256_text(text), text, trainable, references)


def placeholders(template: str) -> frozenset[str]:
    """Return the variables that a template renders; raise PromptError for text that is none."""
    import jinja2
    import jinja2.meta

    try:
        return frozenset(jinja2.meta.find_undeclared_variables(_environment().parse(template)))
    except jinja2.TemplateError as exc:
        raise PromptError(f"the text is not a template: {exc}; correct it") from None


@functools.lru_cache(maxsize=256)
def _read(head: str) -> Any:
    """Front matter; every workspace that is opened reads the packaged prompts."""
    import yaml

    # The loader in C does the same in a tenth of the time; not every build of the library has it. It ends the process
    # where lists stand in lists deeply enough, which takes text: of a long one the other loader says so.
    fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(head, Loader=fast if len(head) <= _SHORT else yaml.SafeLoader)


@functools.lru_cache(maxsize=256)
def _check_template(template: str, variables: tuple[str, ...], label: str, *, first: int) -> None:
    """Check that a template parses, stands alone, and uses declared variables only; `first` is the line above it."""
    import jinja2
    import jinja2.meta
    from jinja2 import nodes

    try:
        tree = _environment().parse(template)
        used = jinja2.meta.find_undeclared_variables(tree)
        _compile(template)
    except jinja2.TemplateSyntaxError as exc:
        raise PromptError(f"{label} is not a template: {exc.message}, line {exc.lineno + first}; correct it") from None
    except jinja2.TemplateError as exc:
        raise PromptError(f"{label} is not a template: {exc}; correct it") from None
    loaded = next(tree.find_all((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)), None)
    if loaded is not None:
        raise PromptError(
            f"{label} loads another template in line {loaded.lineno + first}; the one way is "
            '{% include "NAME" %} with the name of a prompt'
        )
    unknown = sorted(used - set(variables) - set(_environment().globals))
    if unknown:
        raise PromptError(
            f"{label} uses {', '.join(unknown)}, which it does not declare; "
            f"its variables: {', '.join(variables) or 'none'}"
        )


def _names(fields: Mapping[Any, Any], field: str, label: str) -> tuple[str, ...]:
    value = fields.get(field) or []
    if not isinstance(value, list) or not all(isinstance(name, str) and name.strip() for name in value):
        raise PromptError(f"{field} of {label} is {value!r}; give a list of names: {field}: [rules]")
    return tuple(value)


def _header(fields: dict[Any, Any], label: str) -> tuple[str, str, tuple[str, ...]]:
    unknown = sorted(str(key) for key in fields if key not in _FIELDS)
    if unknown:
        raise PromptError(f"the front matter of {label} has the unknown field {unknown[0]!r}; it has {_join(_FIELDS)}")
    for field in ("name", "version"):
        if not fields.get(field):
            raise PromptError(f"the front matter of {label} has no {field}; add e.g. {field}: {_EXAMPLES[field]}")
    name, version = str(fields["name"]), str(fields["version"])
    if not _NAME.fullmatch(name):
        raise PromptError(f"{label} has the name {name!r}; use letters, digits, '_' and '-'")
    if not _VERSION.fullmatch(version):
        raise PromptError(f"{label} has the version {version!r}; versions look like 1.2.0")
    variables = fields.get("variables") or []
    if not isinstance(variables, list) or not all(isinstance(name, str) and name.isidentifier() for name in variables):
        raise PromptError(f"the variables of {label} are {variables!r}; give a list of names: variables: [task, files]")
    return name, version, tuple(variables)


_EXAMPLES = {"name": "task", "version": "1.0.0"}


def _join(names: Iterable[str]) -> str:
    return ", ".join(names)


@functools.lru_cache(maxsize=512)
def literals(template: str) -> tuple[str, ...]:
    """Return the lines, with single blanks, that stand in every text that a template renders to: those of no block."""
    from jinja2 import nodes

    outputs = [node for node in _environment().parse(template).body if isinstance(node, nodes.Output)]
    data = [child.data for output in outputs for child in output.nodes if isinstance(child, nodes.TemplateData)]
    lines = [" ".join(line.split()) for text in data for line in text.splitlines()]
    return tuple(line for line in lines if len(line) >= _TELLING)


_TELLING = 12  # characters of a line that tell one prompt from another
