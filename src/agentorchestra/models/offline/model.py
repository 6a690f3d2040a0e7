"""The offline model: no language model, only rules, on exactly the path of a real one.

It reads what any model would read - the rendered messages and the tools offered - and answers with the same decision:
reasoning as JSON text and tool calls. It keeps no state: everything it knows stands in the messages, so it serves many
runs at once and goes on after a resume. It can look facts up in files (sentences, pages, cells), compare two of
them, do arithmetic, and make a call that the task spells out; it says so in every answer, and says honestly what it
cannot do. In a team it plays every role (`team.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.budget import Usage
from agentorchestra.core.ids import canonical_json
from agentorchestra.core.messages import Message, ModelRequest, ModelResponse, ToolCall
from agentorchestra.core.settings import ModelProfile
from agentorchestra.models.client import OnDelta, stream_whole
from agentorchestra.models.offline import code, rules, team
from agentorchestra.models.offline.calls import CallRecord, spelled_calls
from agentorchestra.models.offline.passages import Passage, passages_in
from agentorchestra.models.render import parse_contents, render_message, without_contents

NOTE = "(offline model: rules, no language model)"


Arguments = dict[str, JsonValue]
NamedCall = tuple[str, Arguments]


class OfflineModel:
    """A `ModelClient` without a model behind it: no price and no key; calls are native or in programs."""

    native_tools = True
    states_plans = False
    reviews_calls = False

    def __init__(self, name: str = "offline", profile: ModelProfile | None = None) -> None:
        self.name = name
        self.profile = profile or ModelProfile(model="offline")

    async def request(
        self, request: ModelRequest, *, media: Mapping[str, Any] | None = None, on_delta: OnDelta | None = None
    ) -> ModelResponse:
        """Decide the next step from the visible prompt; media are not looked at."""
        view = _View.read(request)
        single = None if view.tools else team.single_reply(view.system, view.first)
        text, calls = (single, ()) if single is not None else _reply(_decide(view), view)
        chars = len(text) + sum(len(call.name) + len(canonical_json(call.arguments)) for call in calls)
        usage = Usage(requests=1, input_tokens=max(1, view.chars // 4), output_tokens=max(1, chars // 4), cost_usd=0.0)
        reply = ModelResponse(
            text=text, tool_calls=calls, finish_reason="tool_calls" if calls else "stop", model=self.name, usage=usage
        )
        if on_delta is not None:
            stream_whole(reply, on_delta)
        return reply

    def price(self, usage: Usage) -> float:
        return 0.0

    async def aclose(self) -> None:
        """Do nothing: no connection is held."""


# --- the prompt -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _View:
    task: str
    files: tuple[str, ...]  # the names of its files
    tools: Mapping[str, Mapping[str, Any]]  # the parameters of each tool offered
    last: bool  # whether this step must be the answer
    calls: tuple[CallRecord, ...]  # the calls made so far, in order
    passages: tuple[Passage, ...]  # of the files seen so far, in order, each once
    steps: int  # decisions taken so far
    chars: int  # the prompt's size
    system: str  # the system prompt; `first`: the user's first message
    first: str
    code: bool  # whether it acts by writing programs

    @classmethod
    def read(cls, request: ModelRequest) -> _View:
        renderings = [(message, render_message(message)) for message in request.messages]
        asked = [(at, text) for at, (message, text) in enumerate(renderings) if message.role == "user"]
        _, first = next((pair for pair in asked if "<task>" in pair[1]), asked[0] if asked else (0, ""))
        files, since = _listed_files(first), 0
        for at, text in asked:
            if renderings[at][0].name == "task":  # a later turn of a session
                first, files, since = text, files + _listed_files(text), at
        turn = renderings[since:]
        system = "\n".join(text for message, text in renderings if message.role == "system")
        functions = code.offered_functions(system)
        tools = {tool.name: tool.parameters for tool in request.tools} if functions is None else functions
        # What can be opened can be called by its name too, with arguments that nobody has described.
        waiting = [tool.description for tool in request.tools if tool.name == "open_tools"]
        tools = {name: {} for text in waiting for name in _WAITING.findall(text)} | tools
        passages = [
            passage
            for message, text in renderings
            if message.role in ("tool", "user")
            for passage in (
                *passages_in(text),
                *(piece for call in code.printed_calls(text) for piece in call.passages),
            )
        ]
        tail = renderings[-1][1] if renderings and renderings[-1][0].role in ("user", "system") else ""
        return cls(
            task=_task(first),
            files=tuple(dict.fromkeys(files)),
            tools=tools,
            last="<last_step>" in without_contents(tail) or {tool.name for tool in request.tools} == {"done"},
            calls=_calls(turn),
            code=functions is not None,
            passages=tuple(dict.fromkeys(passages)),
            steps=sum(message.role == "assistant" for message, _ in turn),
            chars=sum(len(text) for _, text in renderings)
            + sum(len(canonical_json(tool.parameters)) for tool in request.tools),
            system=system,
            first=first,
        )

    def calls_of(self, *names: str) -> list[CallRecord]:
        return [call for call in self.calls if call.name in names]

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents that it may delegate to; in the last step, which offers none, those it did delegate to."""
        names = {name for name, parameters in self.tools.items() if team.is_agent(parameters)}
        delegates = {call.name for call in self.calls if "task" in call.arguments} if self.last else set()
        return tuple(sorted(names | delegates))

    @property
    def evidence(self) -> str:
        """Return what others found and is to be written up; "" where this is no such task."""
        if set(self.tools) - {"done", "python"}:
            return ""
        texts = [content.text for content in parse_contents(self.first) if content.kind == "agent"]
        evidence = "\n".join(texts) or self.first.rpartition("</files>")[2]
        return evidence if _EVIDENCE.search(evidence) else ""


_EVIDENCE = re.compile(r"^\w+ \((?:completed|partial|blocked)\): |^\[E1\] ", re.MULTILINE)
_FILE_LINE = re.compile(r"^- (?P<name>.+) \([^()]*, [^()]*\)(?:, whole below)?$", re.MULTILINE)
_WAITING = re.compile(r"^- (\w+): ", re.MULTILINE)


def _task(first: str) -> str:
    """Return what stands between the tag of the task and its last closing one before the files are listed."""
    start = first.find("<task>") + len("<task>")
    if start < len("<task>"):
        return first
    files = first.rfind("<files>")
    end = first.rfind("</task>", start, files if files > start else len(first))
    return first[start : end if end >= 0 else len(first)].strip()


def _listed_files(text: str) -> tuple[str, ...]:
    start = text.rfind("<files>")
    end = text.find("</files>", start)
    return tuple(match["name"] for match in _FILE_LINE.finditer(text[start:end])) if 0 <= start < end else ()


def _calls(turn: list[tuple[Message, str]]) -> tuple[CallRecord, ...]:
    results = {message.tool_call_id or "": (text, message.is_error) for message, text in turn if message.role == "tool"}
    calls = []
    for message, _ in turn:
        for call in message.tool_calls:
            text, is_error = results.get(call.id, ("", False))
            arguments = call.arguments if isinstance(call.arguments, dict) else {}
            texts = (without_contents(text).strip(), *(content.text for content in parse_contents(text)))
            calls.append(CallRecord(call.name, arguments, texts, is_error))
    for message, text in turn:
        calls += code.printed_calls(text) if message.role == "user" else []
    return tuple(calls)


# --- decisions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Decision:
    thinking: str
    next_goal: str
    calls: tuple[NamedCall, ...]
    memory: str = ""


def _decide(view: _View) -> _Decision:
    """Decide: calls that are spelled out, a report, a team, arithmetic, facts in files, two facts and an operation."""
    spelled = [call for call in spelled_calls(view.task, view.tools) if call[0] != "done"]
    hidden = list(dict.fromkeys(name for name, _ in spelled if name not in view.tools))
    if hidden and "open_tools" in view.tools and not view.last and not view.calls_of("open_tools"):
        thinking = f"The task spells out calls of tools that are not open: {', '.join(hidden)}."
        return _Decision(thinking, "Open them.", (("open_tools", {"names": [*hidden]}),))
    if task_calls := [call for call in spelled if call[0] in view.tools]:
        names = ", ".join(name for name, _ in task_calls)
        if history := view.calls_of(*(name for name, _ in task_calls)):
            return _conclude(view, history, "the calls that the task spells out were made")
        if not view.last:
            return _Decision(f"The task spells out what to call: {names}.", f"Call {names}.", tuple(task_calls))
    if view.evidence:
        return _finish(view, team.report(view.evidence, NOTE), (), "everything that was found is written up")
    if view.agents:
        return _lead(view)
    expression = rules.arithmetic(view.task)
    if expression is not None:
        return _arithmetic(view, expression)
    if not view.files and not view.passages:
        return _without_files(view)
    return _answer(view, rules.parse_question(view.task, view.files))


def _answer(view: _View, question: rules.ParsedQuestion) -> _Decision:
    if not question.terms:
        sentence = "I cannot answer this: the task names nothing that could be looked up in the files."
        return _finish(view, sentence, (), "no term to look for", status="blocked")
    direct = rules.best(question, view.passages)
    if direct is not None:
        reason = f"{direct.source} ({direct.place}) holds every term of the question"
        return _finish(view, direct.answer, (direct,), reason)
    parts = [question]
    if pair := rules.split_question(question):
        operation, *parts = pair
        answers = [rules.best(part, view.passages) for part in parts]
        left, right = answers
        if left is not None and right is not None:
            return _combine(view, operation, left, right)
        parts = [part for part, answer in zip(parts, answers, strict=True) if answer is None]
    if not view.last and (calls := _look_up(view, parts)):
        terms = "; ".join(", ".join(term.text for term in part.terms) for part in parts)
        return _Decision(
            f"The passages seen so far do not hold all of these terms: {terms}."
            if view.calls
            else f"The files have to be searched for these terms: {terms}.",
            "Find a passage that holds all terms.",
            calls,
            f"Terms to match: {terms}. Passages seen: {len(view.passages)}.",
        )
    return _absence(view, question)


def _lead(view: _View) -> _Decision:
    """Hand out, have the report written, answer."""
    delegations = view.calls_of(*view.agents)
    work = [call for call in delegations if call.name != team.REPORTER]
    if not work:
        parts = team.delegations(view.task, view.files, view.agents)
        if not parts or view.last:
            return _without_files(view)
        calls: list[NamedCall] = [(agent, {"task": task}) for agent, task in parts]
        return _Decision("; ".join(f"{agent}: {task}" for agent, task in parts), "Hand the work out.", (*calls,))
    if team.wants_report(view.task) and team.REPORTER in view.agents and delegations == work and not view.last:
        report: NamedCall = (team.REPORTER, {"task": view.task})
        return _Decision("What could be found is there.", "Have the report written.", (report,))
    return _conclude(view, work, "every part came back", numbered=True)


def _conclude(view: _View, calls: Sequence[CallRecord], reason: str, *, numbered: bool = False) -> _Decision:
    """Answer with what calls gave: the answers of agents with their sources, the texts of other tools."""
    answers: list[str] = []
    citations: list[rules.CitedAnswer] = []
    failed = 0
    for call in calls:
        result = call.result
        answer = call.text if result is None else result.answer or result.report
        answers.append(answer.removesuffix(NOTE).strip())
        failed += call.is_error or (result is not None and result.status != "completed")
        for source in result.sources if result is not None else ():
            citations.append(rules.CitedAnswer("", "", source.source, source.place, source.quote))
    if numbered and len(answers) > 1:
        answers = [f"{n}. {answer}" for n, answer in enumerate(answers, start=1)]
    status = "completed" if not failed else "blocked" if failed == len(calls) else "partial"
    return _finish(view, "\n".join(answers), tuple(dict.fromkeys(citations)), reason, status=status)


def _arithmetic(view: _View, expression: str) -> _Decision:
    runs = view.calls_of("python")
    if not runs and "python" in view.tools and not view.last:
        return _compute(f"The task is arithmetic: {expression}.", expression, f"To compute: {expression}.")
    value = _last_number(runs)
    if value is None:
        reason = runs[-1].text[:200] if runs else "it is not offered"
        sentence = f"I cannot compute {expression}: the python tool gave no number: {reason}"
        return _finish(view, sentence, (), "nothing computes", status="blocked")
    return _finish(view, f"{value} = {expression} (computed by the python tool)", (), f"{expression} = {value}")


def _compute(thinking: str, expression: str, memory: str) -> _Decision:
    return _Decision(thinking, "Compute the expression.", (("python", {"code": expression}),), memory)


def _last_number(runs: Sequence[CallRecord]) -> str | None:
    text = runs[-1].text if runs and not runs[-1].is_error else ""
    numbers = re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w])", text)
    if not numbers:
        return None
    return numbers[-1] if re.fullmatch(r"-?\d+", numbers[-1]) else rules.number_text(float(numbers[-1]))


def _without_files(view: _View) -> _Decision:
    sentence = (
        "I cannot answer this: the offline model looks facts up in given files and does arithmetic. Give files with "
        "--file, or name a language model with --model."
    )
    return _finish(view, sentence, (), "neither files nor arithmetic", status="blocked")


def _combine(view: _View, operation: rules.Operation, left: rules.CitedAnswer, right: rules.CitedAnswer) -> _Decision:
    expression = rules.operate(operation, left.value, right.value)
    if expression is None:
        return _finish(view, f"{left.answer}; {right.answer}", (left, right), "both facts were found")
    runs = view.calls_of("python")
    memory = f"{left.value} at {left.source} {left.place}; {right.value} at {right.source} {right.place}."
    if not runs and "python" in view.tools and not view.last:
        return _compute(f"Both values are known; their {operation} is {expression}.", expression, memory)
    value = _last_number(runs) or "unknown"
    answer = f"{value}: the {operation} of {left.value} and {right.value}. {left.answer} {right.answer}"
    return _finish(view, answer, (left, right), memory)


def _look_up(view: _View, questions: Sequence[rules.ParsedQuestion]) -> tuple[NamedCall, ...]:
    """Return the next searches; empty when nothing is left to try."""
    searches = view.calls_of("search_files")
    if "search_files" not in view.tools or sum(call.is_error for call in searches) > 1:
        return ()
    limit: Arguments = {"limit": 12} if "limit" in view.tools["search_files"].get("properties", {}) else {}
    tried = {call.arguments.get("query") for call in searches}
    queries = (next((query for query in question.queries() if query not in tried), None) for question in questions)
    return tuple(("search_files", {"query": query, **limit}) for query in dict.fromkeys(queries) if query is not None)


def _absence(view: _View, question: rules.ParsedQuestion) -> _Decision:
    errors = [call for call in view.calls if call.is_error]
    if len(errors) == len(view.calls) and (errors or not view.passages):
        problem = errors[-1].text[:300] if errors else "no tool for that is offered."
        sentence = f"Not found in the given files. They could not be searched: {problem}"
        return _finish(view, sentence, (), "the files could not be searched", status="blocked")
    reason = "No single passage holds all the terms of the question."
    if absent := rules.missing(question, view.passages):
        reason = f"No passage found holds {', '.join(f'“{term}”' for term in absent)}."
    return _finish(view, f"Not found in the given files. {reason}", (), reason)


def _verdict(view: _View) -> str:
    if not view.calls:
        return "Nothing was done yet."
    last = view.calls[-1]
    return f"Failure: {last.name} said: {last.text[:200]}" if last.is_error else f"Success: {last.name} answered."


# --- finishing ------------------------------------------------------------------------------------------------------


def _finish(
    view: _View, answer: str, citations: tuple[rules.CitedAnswer, ...], reason: str, *, status: str = "completed"
) -> _Decision:
    sources: JsonValue = [{"source": cite.source, "place": cite.place, "quote": cite.quote} for cite in citations]
    arguments: Arguments = {"answer": f"{answer} {NOTE}", "status": status, "sources": sources}
    properties = view.tools.get("done", {}).get("properties", {})
    if properties:
        arguments = {name: value for name, value in arguments.items() if name in properties}
    return _Decision(f"The answer is ready: {reason}.", "Give the answer.", (("done", arguments),), reason[:500])


def _reply(decision: _Decision, view: _View) -> tuple[str, tuple[ToolCall, ...]]:
    """Return the decision as a model writes it: its thoughts in the form that is asked for, and its calls."""
    thoughts: dict[str, JsonValue] = {
        "thinking": decision.thinking,
        "evaluation_previous_goal": _verdict(view),
        "memory": decision.memory,
        "next_goal": decision.next_goal,
    }
    fields = "evaluation_previous_goal" in view.system
    text = json.dumps(thoughts, ensure_ascii=False) if fields else decision.thinking
    if view.code:
        return f"{text}\n```python\n{code.program(decision.calls)}\n```", ()
    calls = tuple(
        ToolCall(id=f"call_{view.steps}_{index}", name=name, arguments=arguments)
        for index, (name, arguments) in enumerate(decision.calls)
    )
    return text, calls
