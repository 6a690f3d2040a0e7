"""Texts kept by hash: the prompts and the tools' modules a run was started with, and their way back into use.

A run's manifest names them (`Pinned.source`), so that `resume --pin` and `replay --pin` can use what the run was
started with after the files have changed, and a fork can carry a prompt of its own.
"""

from __future__ import annotations

import inspect
import json
import linecache
import sys
import types
from collections.abc import Iterable
from functools import cache
from typing import Any

from agentorchestra.core.errors import PinError, SourceError
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.spec import Pinned
from agentorchestra.tea.calling.tool import Tool, tool
from agentorchestra.tea.programs.dynamic import load_module
from agentorchestra.tea.programs.namespaces import without_namespace


def pin_of(component: Any) -> Pinned:
    """Return version and hash of a tool or environment, and the hash of its module's text where that can be kept."""
    text = module_text(component) if isinstance(component, Tool) else ""
    return Pinned(
        version=component.version,
        content_hash=component.content_hash,
        source=_hash(text) if text else "",
        origin=component.traits.origin if isinstance(component, Tool) else "",
    )


@cache
def _hash(text: str) -> str:
    return sha256_text(text)


def texts_of(tools: Iterable[Any]) -> dict[str, str]:
    texts = (module_text(tool) for tool in tools if isinstance(tool, Tool))
    return {_hash(text): text for text in texts if text}


def schemas_text(tools: Iterable[Tool[..., Any]]) -> str:
    """Return tools' schemas by name as JSON: the log has none of those that are described in the prompt."""
    schemas = {tool.name: tool.schema.model_dump(mode="json", exclude_defaults=True) for tool in tools}
    # The order inside a schema stays: it is that of the arguments where a tool is described in words.
    return json.dumps(dict(sorted(schemas.items())), separators=(",", ":"))


def module_text(tool: Tool[..., Any]) -> str:
    """Return the text of the module that defines a tool, "" for a tool that its module does not name."""
    function = inspect.unwrap(tool)
    module = sys.modules.get(getattr(function, "__module__", "") or "")
    if module is None or not symbol_of(tool):
        return ""
    return _text_of(getattr(getattr(function, "__code__", None), "co_filename", ""), module.__name__)


def symbol_of(tool: Tool[..., Any]) -> str:
    """Return the name by which a tool is found in its module, whatever it is called now; "" where it is not."""
    function = inspect.unwrap(tool)
    module = sys.modules.get(getattr(function, "__module__", "") or "")
    if module is not None and _is(vars(module).get(tool.name), function):
        return tool.name  # most tools are; what follows looks at all names of the module
    pairs = vars(module).items() if module is not None else ()
    names = {key: value for key, value in pairs if value is function or (type(value) is Tool and _is(value, function))}
    if not names:
        return ""
    tool_names = [value.name for value in names.values() if isinstance(value, Tool)]
    return tool.name if tool.name in tool_names else next(iter(names))


def _is(value: object, function: object) -> bool:
    # Under another version a tool is another object around the same function.
    return value is function or (isinstance(value, Tool) and inspect.unwrap(value) is function)


def class_text(cls: Any) -> str:
    """Return the text of the module that a class is defined in at its top, "" for anything else."""
    return defining_text(cls) if isinstance(cls, type) else ""


def defining_text(definition: Any) -> str:
    """Return the text of the module that a class or function is defined in at its top, "" for anything else."""
    module = sys.modules.get(getattr(definition, "__module__", "") or "")
    has_name = isinstance(definition, type | types.FunctionType)
    if not has_name or module is None or getattr(module, definition.__name__, None) is not definition:
        return ""
    return _text_of(getattr(module, "__file__", None) or "", module.__name__)


def package_of(definition: Any) -> str:
    """Return the package of the module that something is defined in, for relative imports in its text."""
    package = getattr(sys.modules.get(getattr(definition, "__module__", "") or ""), "__package__", None)
    return without_namespace(str(package or ""))


def _text_of(file: str, module: str) -> str:
    # A module that is imported anew, or reloaded, has another spec.
    loaded = sys.modules[module]
    entry = _TEXTS.get((file, module))
    if entry is None or entry[0] is not loaded.__spec__:
        # linecache has read the file when the tool's source was hashed, which was when its module was imported.
        entry = _TEXTS[file, module] = (loaded.__spec__, "".join(linecache.getlines(file, vars(loaded))))
    return entry[1]


_TEXTS: dict[tuple[str, str], tuple[object, str]] = {}  # the text of each module, with what it was imported by


def pinned_tool(name: str, pin: Pinned, text: str, *, package: str = "") -> Tool[..., Any]:
    """Return a tool from the kept text of its module, executed under a name of its own, or raise PinError."""
    try:
        module = load_module(text, name=f"agentorchestra_pinned_{pin.source[:16]}", package=package)
    except SourceError as exc:
        cause = exc.__cause__
        reason = f"{type(cause).__name__}: {cause}" if cause is not None else str(exc)
        raise PinError(
            f"the tool {name!r} as the run was started with cannot be loaded: {reason}; "
            "install what it needs, or resume without --pin"
        ) from exc
    candidate = _find(module, name)
    if candidate is None or candidate.content_hash != pin.content_hash:
        raise PinError(
            f"the text kept for the tool {name!r} ({pin.source[:12]}) does not give the tool that the run was started "
            f"with ({pin.content_hash[:12]}); resume without --pin"
        )
    return candidate


def _find(module: types.ModuleType, name: str) -> Tool[..., Any] | None:
    for value in list(vars(module).values()):
        if isinstance(value, Tool) and value.name == name:
            return value
    function = getattr(module, name, None)
    return tool(function) if inspect.isfunction(function) else None
