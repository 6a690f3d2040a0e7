"""The corpus of replies (tests/data/replies): what a decider makes of each. As a program it gives the shares right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from agentorchestra.agents.decider import ModelDecider
from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Effect, Outcome
from agentorchestra.core.messages import ModelResponse, ToolCall, ToolSchema
from agentorchestra.core.spec import CHECKS
from agentorchestra.loop import Decision, State
from agentorchestra.models.wire import _arguments
from agentorchestra.tea.calling.replies import ModelReply, read_reply
from agentorchestra.tea.calling.tool import Tool, tool_from_schema
from agentorchestra.tea.calling.toolset import AgentToolset

FOLDER = Path(__file__).parent.parent / "data" / "replies"
EFFECTS: dict[str, Any] = {
    "python": "execute",
    "terminal_run": "execute",
    "files_write": "write",
    "send_mail": "send",
    "set_status": "write",
    "remember": "write",
}
FINISHED = {"length", "max_tokens", "MAX_TOKENS"}


def schemas() -> dict[str, tuple[ToolSchema, ...]]:
    listed = json.loads((FOLDER / "tools.json").read_text(encoding="utf-8"))
    return {name: tuple(ToolSchema(**one) for one in tools) for name, tools in listed.items()}


SCHEMAS = schemas()


def cases(*, long: bool = False) -> list[dict[str, Any]]:
    """All cases; texts that are repeated up to 2 MB are so only where `long`, else up to 50 kB."""
    found = []
    for path in sorted(FOLDER.rglob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            if again := case.pop("repeat", None):
                text = again["of"] * (again["times"] if long else again["times"] // 40 + 1)
                case["reply"] = _put(case["reply"], again["in"], text)
                case["becomes"] = _put(case["becomes"], again["in"], text)
            found.append(case)
    return found


def _put(value: Any, mark: str, text: str) -> Any:
    if isinstance(value, dict):
        return {name: _put(one, mark, text) for name, one in value.items()}
    if isinstance(value, list):
        return [_put(one, mark, text) for one in value]
    return value.replace(mark, text) if isinstance(value, str) else value


def response_of(case: dict[str, Any]) -> ModelResponse:
    """The reply as the provider's library hands it over; test_replies.py has samples go through the library."""
    reply, text, thinking, calls = case["reply"], "", "", []
    finish = reply.get("finish_reason") or reply.get("stop_reason") or reply.get("finishReason")
    if case["provider"] == "openai":
        message = reply["message"]
        text = message.get("content") or message.get("refusal") or ""
        if isinstance(text, list):
            thinking = "".join(part["text"] for chunk in text for part in chunk.get("thinking", ()))
            text = "".join(chunk.get("text", "") for chunk in text)
        thinking = thinking or message.get("reasoning_content") or message.get("reasoning") or ""
        for one in message.get("tool_calls") or ():
            calls.append((one.get("id", ""), one["function"]["name"], one["function"].get("arguments", "")))
    elif case["provider"] == "anthropic":
        for block in reply["content"]:
            text += block.get("text", "")
            thinking += f"\n{block.get('thinking', '')}"
            if block["type"] == "tool_use":
                calls.append((block["id"], block["name"], block["input"]))
    else:
        for part in reply.get("content", {}).get("parts", ()):
            if part.get("thought"):
                thinking += part.get("text", "")
            else:
                text += part.get("text", "")
            if "functionCall" in part:
                calls.append(("", part["functionCall"]["name"], part["functionCall"].get("args", {})))
    cut = finish in FINISHED
    made = [ToolCall(id=ident, name=name, arguments=_arguments(given)) for ident, name, given in calls]
    if cut and made and isinstance(calls[-1][2], dict):
        made[-1] = made[-1].model_copy(update={"arguments": json.dumps(calls[-1][2])})
    usual = "tool_calls" if made else "stop"
    reason: Any = "length" if cut else "content_filter" if finish in ("content_filter", "refusal", "SAFETY") else usual
    return ModelResponse(text=text, thinking=thinking, tool_calls=tuple(made), finish_reason=reason)


def tool(schema: ToolSchema) -> Tool[..., Any]:
    def call(**arguments: Any) -> str:
        return ""

    made = tool_from_schema(call, schema, effect=EFFECTS.get(schema.name, "read"), trust=Trust.SYSTEM)
    return made.finishing() if schema.name == "done" else made


@cache
def toolset(name: str) -> AgentToolset:
    return AgentToolset([tool(one) for one in SCHEMAS[name]])


def decided(case: dict[str, Any], response: ModelResponse) -> tuple[ModelReply, Decision]:
    """What is read of a reply, and what an agent decides by it."""
    native = case["offered"] == "native"
    listed = SCHEMAS[case["tools"]]
    decider = ModelDecider(model="m", tools=toolset(case["tools"]), tail=lambda state, view: "", native=native)
    ctx: Any = SimpleNamespace(manifest=SimpleNamespace(checks=CHECKS), actor="agent")
    outcome = Outcome(value=response.model_dump(mode="json", exclude_defaults=True), trust=Trust.AGENT)
    decision = decider._interpret(State(messages=()), outcome, ctx, (), (), final=False)
    return read_reply(response, listed, native=native), decision


def faults(case: dict[str, Any], response: ModelResponse) -> list[str]:
    """What differs from what the reply must become."""
    reply, decision = decided(case, response)
    wanted = {"thoughts": "", "words": "", "calls": [], "cut": False} | case["becomes"]
    found = []
    for name in ("thoughts", "words"):
        if _plain(getattr(reply, name)) != _plain(wanted[name]):
            found.append(f"{name}: {getattr(reply, name)[:300]!r}, not {wanted[name][:300]!r}")
    if reply.cut is not wanted["cut"]:
        found.append(f"cut: {reply.cut}")
    made = [_made(call, effect) for call, effect in zip(decision.tool_calls, decision.calls, strict=True)]
    asked = [{**one, "arguments": _without_defaults(one)} if "arguments" in one else one for one in wanted["calls"]]
    if [_shown(one) for one in made] != [_shown(one) for one in asked]:
        found.append(f"calls: {str(made)[:500]}, not {str(asked)[:500]}")
    return found


def _shown(call: dict[str, Any]) -> str:
    # Of one that is refused the name may be as written, or that of the tool.
    return f"refused {_plain(call['name'])}" if call.get("refused") else json.dumps(call, sort_keys=True)


def _plain(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def _made(call: ToolCall, effect: Effect) -> dict[str, Any]:
    if effect.invalid is not None:
        return {"name": call.name, "refused": True}
    return {"name": effect.name, "arguments": _without_defaults({"name": effect.name, "arguments": effect.arguments})}


def _without_defaults(call: dict[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in call["arguments"].items() if value is not None}
    if isinstance(given.get("code"), str):
        given["code"] = given["code"].rstrip("\n")
    if call["name"] == "done" and str(given.get("answer"))[:1] in ("{", "["):
        given["answer"] = json.loads(given["answer"])
    return given


def lines() -> Iterator[str]:
    """The shares right, by who wrote the cases."""
    for name, fresh in (("written with the module", False), ("written by a reader who had not seen it", True)):
        chosen = [case for case in cases() if case["id"].startswith("fresh-") is fresh]
        right = sum(not faults(case, response_of(case)) for case in chosen)
        yield f"{name}: {right} of {len(chosen)} right"


if __name__ == "__main__":
    print("\n".join(lines()))
