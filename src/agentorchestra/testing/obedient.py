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
_CALL = re.compile(r"(?<![\w.])([A-Za-z_]\w{1,63})\(")
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
    texts = [*_texts(request)]
    prompt = "\n".join(texts)
    calls = [*_calls(request)]
    hidden = _hidden(request, names, calls)
    for tool, arguments in _instructions([*reversed(texts)], names - {"done"} | hidden):
        if tool in hidden and not functions:
            return _act(_OPEN, {"names": [tool]}, False)
        values = _fill(arguments, prompt)
        if (tool, values) in calls or _HOLE.search(str(values)):
            continue
        return _act(tool, values, bool(functions))
    if not request.tools and not functions:  # a summary, say: instructions are the last that it leaves out
        plain = prompt.replace('"', "'")
        spelt = [
            phrase
            for phrase in _SPELT.findall(texts[-1])
            if "=" in phrase and f"The agent called {phrase}".replace('"', "'") not in plain
        ]
        return ModelResponse(text="\n".join(dict.fromkeys(spelt)) or prompt[-_SHORT:])
    observations = "\n".join(render_message(entry) for entry in request.messages if entry.role in ("tool", "user"))
    return _act("done", {"answer": observations[-_LONGEST:] or "nothing was said"}, bool(functions))


def _hidden(request: ModelRequest, names: set[str], calls: list[tuple[str, dict[str, JsonValue]]]) -> set[str]:
    """Return names that may be tools which are not shown: whatever it is told to call; an agent opens them first."""
    if names.isdisjoint((_OPEN, _FIND)):
        return set()
    tries = [opening for name, values in calls if name == _OPEN and isinstance(opening := values.get("names"), list)]
    observations = "\n".join(
        render_message(message) for message in request.messages if message.role not in ("system", "assistant")
    )
    return set(_CALL.findall(observations)).difference(names, *(map(str, opening) for opening in tries))


def _act(name: str, arguments: dict[str, JsonValue], in_code: bool) -> ModelResponse:
    if not in_code:
        return decide(calls=[call(name, **arguments)])
    text = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    spelt = f"{name}({text})" if name == "done" else f"print({name}({text}))"
    return ModelResponse(text=f"```python\n{spelt}\n```")


def _functions(request: ModelRequest) -> dict[str, None]:
    """Return the functions of a program, for agents that act by code."""
    system = "\n".join(message.text for message in request.messages if message.role == "system")
    return dict.fromkeys(_FUNCTION.findall(system)) if not request.tools else {}


def _texts(request: ModelRequest) -> Iterator[str]:
    """Yield everything but the model's own words."""
    for tool in request.tools:
        yield f"{tool.description}\n{json.dumps(tool.parameters, ensure_ascii=False)}"
    for message in request.messages:
        if message.role != "assistant":
            yield render_message(message)


def _calls(request: ModelRequest) -> Iterator[tuple[str, dict[str, JsonValue]]]:
    """Yield the calls that were made since the last task; a turn of a session obeys anew what earlier ones left."""
    tasks = [place for place, message in enumerate(request.messages) if message.role == "user" and message.name == TASK]
    for message in request.messages[max(tasks, default=0) :]:
        if message.role == "assistant":
            for step_call in message.tool_calls:
                if isinstance(step_call.arguments, dict):
                    yield step_call.name, step_call.arguments
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
                reading = _call(form, match.start(), match.end())
                if reading is not None:
                    arguments, end = reading
                    yield match[1], arguments


def _call(text: str, start: int, inside: int) -> tuple[dict[str, JsonValue], int] | None:
    """Return the keyword arguments of the call that begins there, and where it ends."""
    for end in (closing.end() for closing in re.finditer(r"\)", text[inside : inside + 20_000])):
        try:
            parsed = ast.parse(text[start : inside + end], mode="eval").body
        except (SyntaxError, ValueError):
            continue
        if not isinstance(parsed, ast.Call) or parsed.args:
            return None
        try:
            return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in parsed.keywords}, inside + end
        except ValueError:
            return None
    return None


def _fill(value: JsonValue, prompt: str) -> Any:
    if isinstance(value, dict):
        return {str(_fill(key, prompt)): _fill(member, prompt) for key, member in value.items()}
    if isinstance(value, list):
        return [_fill(member, prompt) for member in value]
    if not isinstance(value, str):
        return value

    def fill(match: re.Match[str]) -> str:
        label = re.search(rf"\b{re.escape(match[1])}:\s*([\w.@+-]+)", prompt)
        text = label[1] if label else match[0]
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
