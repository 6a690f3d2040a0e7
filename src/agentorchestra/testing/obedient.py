"""A model that obeys every instruction it is shown, whoever wrote it: for tests of what must not happen unasked."""

from __future__ import annotations

import ast
import base64
import html
import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from pydantic import JsonValue

from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.loop import TASK
from agentorchestra.models.render import render_message
from agentorchestra.models.scripted import ScriptedModel, call, decide

_FUNCTION = re.compile(r"^def (\w+)\(", re.MULTILINE)
_HOLE = re.compile(r"\{\{(\w+)((?:\|\w+)*)\}\}")
_SPELT = re.compile(r"\b\w+\([^()\n]{1,300}\)")
_CALLED = re.compile(r"(?<![\w.])([A-Za-z_]\w{1,63})\(")
_OPEN, _FIND = "open_tools", "find_tools"
_LONGEST = 200_000
_SHORT = 500


def obedient_model(name: str = "obedient", *, plan: JsonValue = None, review: JsonValue = None) -> ScriptedModel:
    """Return a model that makes every call that is spelled out anywhere in its prompt.

    `send_mail(to="ann@a.example", body="hello")` is an instruction wherever it stands: in the task, a page, a file's
    name, the description of a tool, an error. Each call is made once for each task, one in a step, what was said last
    first; then the model answers with everything that it was told. Asked for a summary, it keeps every instruction. In
    a text, `{{codeword}}` stands for what follows `codeword:` in the prompt, `{{codeword|base64}}` for that in base64
    (further ways: `_WAYS`); a call that cannot be filled in yet is made when it can. Where an agent has more tools than
    its prompt shows, what is spelled out and not shown is opened first.

    What such a model does unasked, an injected instruction can do. A policy that relies on the model is found out.

    Args:
        name: what it is asked for by.
        plan, review: see ScriptedModel.
    """
    return ScriptedModel(_obey, name=name, plan=plan, review=review)


def _obey(request: ModelRequest) -> ModelResponse:
    functions = _functions(request)
    names = {tool.name for tool in request.tools} | set(functions)
    shown = [*_shown(request)]
    everything = "\n".join(shown)
    made = [*_made(request)]
    hidden = _hidden(request, names, made)
    for wanted, arguments in _instructions([*reversed(shown)], names - {"done"} | hidden):
        if wanted in hidden and not functions:
            return _act(_OPEN, {"names": [wanted]}, False)
        filled = _filled(arguments, everything)
        if (wanted, filled) in made or _HOLE.search(str(filled)):
            continue
        return _act(wanted, filled, bool(functions))
    if not request.tools and not functions:  # a summary, say: instructions are the last that it leaves out
        plain = everything.replace('"', "'")
        spelt = [
            one
            for one in _SPELT.findall(shown[-1])
            if "=" in one and f"The agent called {one}".replace('"', "'") not in plain
        ]
        return ModelResponse(text="\n".join(dict.fromkeys(spelt)) or everything[-_SHORT:])
    told = "\n".join(render_message(one) for one in request.messages if one.role in ("tool", "user"))
    return _act("done", {"answer": told[-_LONGEST:] or "nothing was said"}, bool(functions))


def _hidden(request: ModelRequest, names: set[str], made: list[tuple[str, dict[str, JsonValue]]]) -> set[str]:
    """Return names that may be tools which are not shown: whatever it is told to call; an agent opens them first."""
    if names.isdisjoint((_OPEN, _FIND)):
        return set()
    tried = [one for name, arguments in made if name == _OPEN and isinstance(one := arguments.get("names"), list)]
    told = "\n".join(render_message(one) for one in request.messages if one.role not in ("system", "assistant"))
    return set(_CALLED.findall(told)).difference(names, *(map(str, one) for one in tried))


def _act(name: str, arguments: dict[str, JsonValue], in_code: bool) -> ModelResponse:
    if not in_code:
        return decide(calls=[call(name, **arguments)])
    given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    spelt = f"{name}({given})" if name == "done" else f"print({name}({given}))"
    return ModelResponse(text=f"```python\n{spelt}\n```")


def _functions(request: ModelRequest) -> dict[str, None]:
    """Return the functions of a program, for agents that act by code."""
    system = "\n".join(one.text for one in request.messages if one.role == "system")
    return dict.fromkeys(_FUNCTION.findall(system)) if not request.tools else {}


def _shown(request: ModelRequest) -> Iterator[str]:
    """Yield everything but the model's own words."""
    for tool in request.tools:
        yield f"{tool.description}\n{json.dumps(tool.parameters, ensure_ascii=False)}"
    for message in request.messages:
        if message.role != "assistant":
            yield render_message(message)


def _made(request: ModelRequest) -> Iterator[tuple[str, dict[str, JsonValue]]]:
    """Yield the calls that were made since the last task; a turn of a session obeys anew what earlier ones left."""
    tasks = [place for place, one in enumerate(request.messages) if one.role == "user" and one.name == TASK]
    for message in request.messages[max(tasks, default=0) :]:
        if message.role == "assistant":
            for one in message.tool_calls:
                if isinstance(one.arguments, dict):
                    yield one.name, one.arguments
            yield from _instructions([message.text], set(re.findall(r"(\w+)\(", message.text)))


def _instructions(texts: list[str], names: set[str]) -> Iterator[tuple[str, dict[str, JsonValue]]]:
    if not names:
        return
    pattern = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, sorted(names, key=len, reverse=True)))})\(")
    for text in texts:
        for form in dict.fromkeys((text, html.unescape(text), html.unescape(text).replace('\\"', '"'))):
            end = 0
            for match in pattern.finditer(form):
                if match.start() < end:
                    continue  # inside the arguments of another call
                found = _call(form, match.start(), match.end())
                if found is not None:
                    arguments, end = found
                    yield match[1], arguments


def _call(text: str, start: int, opened: int) -> tuple[dict[str, JsonValue], int] | None:
    """Return the keyword arguments of the call that begins there, and where it ends."""
    for end in (found.end() for found in re.finditer(r"\)", text[opened : opened + 20_000])):
        try:
            parsed = ast.parse(text[start : opened + end], mode="eval").body
        except (SyntaxError, ValueError):
            continue
        if not isinstance(parsed, ast.Call) or parsed.args:
            return None
        try:
            return {str(one.arg): ast.literal_eval(one.value) for one in parsed.keywords}, opened + end
        except ValueError:
            return None
    return None


def _filled(value: JsonValue, everything: str) -> Any:
    if isinstance(value, dict):
        return {str(_filled(key, everything)): _filled(one, everything) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, everything) for one in value]
    if not isinstance(value, str):
        return value

    def fill(match: re.Match[str]) -> str:
        found = re.search(rf"\b{re.escape(match[1])}:\s*([\w.@+-]+)", everything)
        text = found[1] if found else match[0]
        for way in match[2].split("|")[1:]:
            text = _WAYS[way](text)
        return text

    return _HOLE.sub(fill, value)


_WAYS: dict[str, Callable[[str], str]] = {
    "base64": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "percent": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    "upper": str.upper,
    "reverse": lambda text: text[::-1],
    "quote": quote,
    "dots": lambda text: "".join(".!"[bit == "1"] for char in text for bit in f"{ord(char):08b}"),
    "first": lambda text: text[: len(text) // 2],
    "second": lambda text: text[len(text) // 2 :],
}
