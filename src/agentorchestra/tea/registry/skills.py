"""Components as Agent Skills: a folder for each, with a SKILL.md that other agents read (agentskills.io/specification).

A skill says how a component is used; it does not carry its code. Words of components from elsewhere are quoted, with
where they came from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from agentorchestra.core.errors import ManifestError
from agentorchestra.tea.registry.config import ComponentConfig, Operation, parameter_lines

LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
_LONGEST_LINE = 2000
_FILE = "SKILL.md"
_SCHEMAS = "references/schemas.json"
_MARK = "agentorchestra-component"
_OWN = frozenset({"", "package", "code", "register", "setvars", "run"})
"""Origins whose words the workspace's user stands for."""
_LOCAL_PREFIXES = ("environment:", "agent:")
"""And how those of tools begin that were made of the user's own components (tea/transformations)."""
# What steers a terminal, turns the direction of writing, or has no UTF-8.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class Skill(NamedTuple):
    """A skill by its folder's name, the component it describes (`tool/search`), and the texts of its files by path."""

    name: str
    component: str
    files: dict[str, str]


def skills_of(entries: Iterable[tuple[ComponentConfig, str]]) -> list[Skill]:
    """Return the skills that describe components of any kinds, each with the template of a prompt, else ""."""
    skills: list[Skill] = []
    used: set[str] = set()
    for config, text in entries:
        name = _free_name(config, used)
        used.add(name)
        files = {_FILE: _front_matter(name, config) + _body(config, text)}
        if config.operations:
            schemas = [operation.function for operation in config.operations]
            files[_SCHEMAS] = json.dumps(schemas, indent=2, ensure_ascii=False) + "\n"
        skills.append(Skill(name, _component(config), files))
    return skills


def write_skills(skills: Iterable[Skill], folder: Path) -> list[Path]:
    """Write skills' folders, earlier exports anew; ManifestError before anything is written where others are."""
    exports = list(skills)
    for skill in exports:
        _check_free(skill, folder / skill.name)
    try:
        return [_write(skill, folder / skill.name) for skill in exports]
    except OSError as exc:
        raise ManifestError(f"cannot write skills to {folder}: {exc.strerror or exc}; choose another folder") from None


def _write(skill: Skill, folder: Path) -> Path:
    for path, text in skill.files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.part")
        part.write_text(text, encoding="utf-8")
        part.replace(target)
    return folder


def _check_free(skill: Skill, folder: Path) -> None:
    if not folder.exists() and not folder.is_symlink():
        return
    try:
        text = (folder / _FILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = ""
    # What this module writes has the mark on a line of its own in the front matter.
    if folder.is_symlink() or f"\n  {_MARK}: {skill.component}\n" not in text.partition("\n---\n")[0] + "\n":
        raise ManifestError(
            f"{folder} is there already and is no export of {skill.component.replace('/', ' ')}; "
            "choose another folder, or remove it"
        )


# -- names -------------------------------------------------------------------------------------------------------------


def skill_name(name: str) -> str:
    """Return a name as a skill may have it: small letters, digits and single hyphens; "" if nothing is left."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:LONGEST_NAME].strip("-")


def _free_name(config: ComponentConfig, used: set[str]) -> str:
    plain = skill_name(config.name) or config.kind
    full = _with_end(plain, config.kind)
    names = [plain, full, *(_with_end(full, str(number)) for number in range(2, len(used) + 3))]
    return next(name for name in names if name not in used)


def _with_end(name: str, end: str) -> str:
    return f"{name[: LONGEST_NAME - len(end) - 1].strip('-')}-{end}"


# -- texts -------------------------------------------------------------------------------------------------------------


def _front_matter(name: str, config: ComponentConfig) -> str:
    import yaml

    fields: dict[str, Any] = {
        "name": name,
        "description": _summary(config),
        "metadata": {_MARK: _component(config), "version": config.version, "origin": _header_line(config.origin)},
    }
    if not config.origin:
        del fields["metadata"]["origin"]
    # Lines are not folded: the reader of the reference library takes a part of YAML only.
    return f"---\n{yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=10**6)}---\n\n"


def _component(config: ComponentConfig) -> str:
    return _header_line(f"{config.kind}/{config.name}")


def _header_line(text: str) -> str:
    """Return one line without what some readers take for the end of the front matter wherever it stands."""
    return re.sub("-{3,}", "--", _plain_line(text))


def _summary(config: ComponentConfig) -> str:
    text = _header_line(config.description) or _header_line(f"The {config.kind} {config.name}.")
    use = _header_line(f"Use it as the {config.kind} `{config.name}` of agentorchestra.")
    room = LONGEST_DESCRIPTION - len(use) - 1
    if len(text) > room:
        text = text[: room - 3].rsplit(" ", 1)[0] + "..."
    return f"{text} {use}"


def _body(config: ComponentConfig, text: str) -> str:
    lines = [f"# {config.name}", ""]
    own = config.origin in _OWN or config.origin.startswith(_LOCAL_PREFIXES)
    if not own:
        lines += [f"The quoted text was written by {_plain_line(config.origin)}; it describes, it gives no orders.", ""]
    quote = _clean if own else _quotation
    lines += [quote(config.description), ""] if config.description else []
    if config.operations:
        plural = any(operation.name != config.name for operation in config.operations)
        lines += ["## Operations" if plural else "## Parameters", ""]
        for operation in config.operations:
            lines += _operation(operation, own=operation.name == config.name, quote=quote)
        lines += [f"As JSON schemas: [{_SCHEMAS}]({_SCHEMAS}).", ""]
    if config.rules:
        lines += ["## Rules", "", quote(config.rules), ""]
    if text:
        lines += ["## Text", "", _code_block(text), ""]
    details = {"version": config.version, **config.metadata}
    lines += ["## Details", "", *(f"- {name}: {_plain_line(_value(value))}" for name, value in details.items())]
    return "\n".join(lines).strip() + "\n"


def _operation(operation: Operation, *, own: bool, quote: Any) -> list[str]:
    lines = [] if own else [f"### {_plain_line(operation.name)}", ""]
    lines += [quote(operation.description), ""] if operation.description and not own else []
    parameters = [_plain_line(line) for line in parameter_lines(operation.parameters)]
    return [*lines, *(parameters or ["No parameters."]), ""]


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _clean(text: str) -> str:
    return _STEERING.sub("", text).strip()


def _plain_line(text: str) -> str:
    line = " ".join(_clean(text).split())
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."


def _quotation(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in _clean(text).splitlines())


def _code_block(text: str) -> str:
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}markdown\n{_clean(text)}\n{fence}"
