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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.budget import Usage
from agentorchestra.core.ids import canonical_json
from agentorchestra.core.messages import Message, ModelRequest, ModelResponse, ToolCall
from agentorchestra.core.settings import ModelProfile
from agentorchestra.models.client import OnDelta, stream_whole
from agentorchestra.models.offline import code, rules, team
from agentorchestra.models.offline.calls import agent_result, spelled_calls, unknown_calls
from agentorchestra.models.offline.code import CallRecord
from agentorchestra.models.offline.passages import pieces
from agentorchestra.models.render import RenderedContent, parse_contents, render_message, without_contents

NOTE = "(offline model: rules, no language model)"


Arguments = dict[str, JsonValue]


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
        single = None if view.tools else team.single_reply(view.system, view.first, NOTE)
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
    contents: tuple[RenderedContent, ...]  # the pieces of files seen so far, in order, each once
    steps: int  # decisions taken so far
    chars: int  # the prompt's size
    system: str  # the system prompt; `first`: the user's first message
    first: str
    code: bool  # whether it acts by writing programs

    @classmethod
    def read(cls, request: ModelRequest) -> _View:
        renderings = [(message, render_message(message)) for message in request.messages]
        first = next((text for message, text in renderings if message.role == "user" and "<task>" in text), None)
        if first is None:
            first = next((text for message, text in renderings if message.role == "user"), "")
        files, since = _listed_files(first), 0
        for place, (message, text) in enumerate(renderings):
            if message.role == "user" and message.name == "task":  # a later turn of a session
                first, files, since = text, files + _listed_files(text), place
        turn = renderings[since:]
        system = "\n".join(text for message, text in renderings if message.role == "system")
        functions = code.offered_functions(system)
        tools = {tool.name: tool.parameters for tool in request.tools} if functions is None else functions
        # What can be opened can be called by its name too, with arguments that nobody has described.
        waiting = [tool.description for tool in request.tools if tool.name == "open_tools"]
        tools = {name: {} for text in waiting for name in _WAITING.findall(text)} | tools
        contents: dict[tuple[str, str, str], RenderedContent] = {}
        for message, text in renderings:
            if message.role in ("tool", "user"):
                for content in [*pieces(parse_contents(text)), *team.memory_contents(text)]:
                    if content.kind == "file" and content.place:  # without a place it only speaks of a file
                        contents.setdefault((content.ref, content.place, content.text), content)
                for call in code.printed_calls(text):
                    contents.update({(piece.ref, piece.place, piece.text): piece for piece in call.contents})
        tail = (
            without_contents(renderings[-1][1]) if renderings and renderings[-1][0].role in ("user", "system") else ""
        )
        return cls(
            task=_inside(first, "task") if "<task>" in first else first,
            files=tuple(dict.fromkeys(files)),
            tools=tools,
            last=_LAST_STEP.search(tail) is not None or {tool.name for tool in request.tools} == {"done"},
            calls=_calls(turn),
            code=functions is not None,
            contents=tuple(contents.values()),
            steps=sum(message.role == "assistant" for message, _ in turn),
            chars=sum(len(text) for _, text in renderings)
            + sum(len(canonical_json(tool.parameters)) for tool in request.tools),
            system=system,
            first=first,
        )

    def calls_of(self, name: str) -> list[CallRecord]:
        return [call for call in self.calls if call.name == name]

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
_LAST_STEP = re.compile(r"<last_step>")


def _inside(text: str, tag: str) -> str:
    """Return what stands between a tag and its last closing one before the files are listed."""
    start = text.find(f"<{tag}>") + len(tag) + 2
    files = text.rfind("<files>") if tag == "task" else -1
    end = text.rfind(f"</{tag}>", start, files if files > start else len(text))
    return text[start : end if end >= 0 else len(text)].strip()


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
            contents = tuple(pieces(parse_contents(text)))
            calls.append(CallRecord(call.name, arguments, without_contents(text).strip(), is_error, contents))
    for message, text in turn:
        calls += code.printed_calls(text) if message.role == "user" else []
    return tuple(calls)


# --- decisions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Decision:
    thinking: str
    next_goal: str
    calls: tuple[tuple[str, Arguments], ...]
    memory: str = ""


def _decide(view: _View) -> _Decision:
    """Decide: calls that are spelled out, a report, a team, arithmetic, facts in files, two facts and an operation."""
    hidden = unknown_calls(view.task, view.tools) if "open_tools" in view.tools and not view.last else []
    if hidden and not view.calls_of("open_tools"):
        return _Decision(
            thinking=f"The task spells out calls of tools that are not open: {', '.join(hidden)}.",
            next_goal="Open them.",
            calls=(("open_tools", {"names": [*hidden]}),),
        )
    task_calls = spelled_calls(view.task, {name: schema for name, schema in view.tools.items() if name != "done"})
    if task_calls and (decision := _calls_of_task(view, task_calls)) is not None:
        return decision
    if view.evidence:
        return _finish(view, team.report(view.evidence, NOTE), (), "everything that was found is written up")
    if view.agents:
        return _lead(view)
    expression = rules.arithmetic(view.task)
    if expression is not None:
        return _arithmetic(view, expression)
    question = rules.parse_question(view.task, view.files)
    if not view.files and not view.contents:
        return _without_files(view)
    if not question.terms:
        sentence = "I cannot answer this: the task names nothing that could be looked up in the files."
        return _finish(view, sentence, (), "no term to look for", status="blocked")
    direct = rules.best(question, view.contents)
    if direct is not None:
        reason = f"{direct.source} ({direct.place}) holds every term of the question"
        return _finish(view, direct.answer, (direct,), reason)
    pair = rules.split_question(question)
    if pair is not None:
        operation, left, right = pair
        answers = (rules.best(left, view.contents), rules.best(right, view.contents))
        if answers[0] is not None and answers[1] is not None:
            return _combine(view, operation, answers[0], answers[1])
        open_questions = [part for part, answer in zip((left, right), answers, strict=True) if answer is None]
    else:
        open_questions = [question]
    if not view.last and (calls := _look_up(view, open_questions)):
        terms = "; ".join(", ".join(term.text for term in part.terms) for part in open_questions)
        return _Decision(
            thinking=f"The passages seen so far do not hold all of these terms: {terms}."
            if view.calls
            else f"The files have to be searched for these terms: {terms}.",
            memory=f"Terms to match: {terms}. Passages seen: {len(view.contents)}.",
            next_goal="Find a passage that holds all terms.",
            calls=tuple(calls),
        )
    return _absence(view, question)


def _calls_of_task(view: _View, calls: list[tuple[str, Arguments]]) -> _Decision | None:
    history = [call for name in dict.fromkeys(name for name, _ in calls) for call in view.calls_of(name)]
    if not history and view.last:
        return None
    if not history:
        names = ", ".join(name for name, _ in calls)
        return _Decision(
            thinking=f"The task spells out what to call: {names}.", next_goal=f"Call {names}.", calls=tuple(calls)
        )
    answers: list[str] = []
    citations: list[rules.CitedAnswer] = []
    failed = 0
    for call in history:
        text = call.text or "\n".join(content.text for content in call.contents)
        result = agent_result(text)
        answers.append(text if result is None else str(result["answer"]).removesuffix(NOTE).strip())
        failed += call.is_error or (result is not None and result["status"] != "completed")
        for source in (result or {}).get("sources", ()):
            name, place, quote = (str(source.get(name, "")) for name in ("source", "place", "quote"))
            citations.append(rules.CitedAnswer(answers[-1], answers[-1], name, place, quote))
    status = "completed" if not failed else "blocked" if failed == len(history) else "partial"
    reason = "the calls that the task spells out were made"
    return _finish(view, "\n".join(answers), tuple(citations), reason, status=status)


def _lead(view: _View) -> _Decision:
    """Hand out, try again what failed, have the report written, answer."""
    first = team.first_delegations(view.task, view.files, view.agents)
    delegations = [call for call in view.calls if call.name in view.agents]
    work = [call for call in delegations if call.name != team.REPORTER]
    if not first and not work:
        return _without_files(view)
    reporting = team.wants_report(view.task) and team.REPORTER in view.agents
    if not work and not view.last:
        return _handing_out(view, first, "Hand the work out.", plan=_plan(view, first, reporting))
    findings = [team.finding_of(call.text, call.contents, is_error=call.is_error) for call in work]
    failed = [index for index, finding in enumerate(findings[: len(first)]) if finding.failed]
    if failed and len(work) == len(first) and not view.last:
        again = [first[index] for index in failed]
        return _handing_out(view, again, "Try again what failed.", plan=())
    for index, finding in zip(failed, findings[len(first) :], strict=False):
        findings[index] = finding
    done = findings[: len(first)] or findings
    marks = _marks(view, done)
    arguments: Arguments = {"task": view.task}
    report = (team.REPORTER, arguments) if reporting and len(delegations) == len(work) else None
    if (marks or report) and not view.last:
        return _Decision(
            thinking="What could be found is there.",
            memory=f"{sum(finding.usable for finding in done)} of {len(done)} parts are answered.",
            next_goal="Have the report written." if report else "Mark the plan.",
            calls=(*marks, report) if report else marks,
        )
    return _conclude(view, done)


def _handing_out(
    view: _View, work: list[team.Delegation], goal: str, *, plan: tuple[tuple[str, Arguments], ...]
) -> _Decision:
    calls: list[tuple[str, Arguments]] = [(delegation.agent, {"task": delegation.task}) for delegation in work]
    return _Decision(
        thinking="; ".join(f"{delegation.agent}: {delegation.task}" for delegation in work),
        next_goal=goal,
        calls=(*plan, *calls),
    )


def _plan(view: _View, work: list[team.Delegation], reporting: bool) -> tuple[tuple[str, Arguments], ...]:
    parts: dict[str, str] = {delegation.task: delegation.agent for delegation in work}
    if "todo" not in view.tools or len(parts) + reporting < 2:
        return ()
    steps: list[JsonValue] = [{"text": part, "agent": agent} for part, agent in parts.items()]
    if reporting:
        needs: list[JsonValue] = list(range(len(steps)))
        steps.append({"text": "Write the report", "agent": team.REPORTER, "needs": needs})
    return (("todo", {"action": "create", "steps": steps}),)


def _marks(view: _View, findings: list[team.Finding]) -> tuple[tuple[str, Arguments], ...]:
    actions = [call.arguments.get("action") for call in view.calls_of("todo")]
    if actions != ["create"] or "todo" not in view.tools:
        return ()
    marks: list[tuple[str, Arguments]] = []
    for index, finding in enumerate(findings):
        status = "blocked" if finding.failed else "completed"
        marks.append(("todo", {"action": "mark_step", "step_index": index, "step_status": status}))
    return tuple(marks)


def _conclude(view: _View, findings: list[team.Finding]) -> _Decision:
    answers, citations = [], []
    for finding in findings:
        answer = finding.result.answer or finding.result.report if finding.result is not None else finding.error
        answers.append(answer.removesuffix(NOTE).strip())
        for source in finding.result.sources if finding.result is not None and not finding.failed else ():
            citations.append(rules.CitedAnswer("", "", source.source, source.place, source.quote))
    text = answers[0] if len(answers) == 1 else "\n".join(f"{n}. {answer}" for n, answer in enumerate(answers, start=1))
    failed = sum(finding.failed for finding in findings)
    status = "completed" if not failed else "blocked" if failed == len(findings) else "partial"
    return _finish(view, text, tuple(dict.fromkeys(citations)), "every part came back", status=status)


def _arithmetic(view: _View, expression: str) -> _Decision:
    runs = view.calls_of("python")
    if not runs and "python" in view.tools and not view.last:
        return _Decision(
            thinking=f"The task is arithmetic: {expression}.",
            memory=f"To compute: {expression}.",
            next_goal="Compute the expression.",
            calls=(("python", {"code": expression}),),
        )
    value = _last_number(runs[-1]) if runs else None
    if value is None:
        reason = runs[-1].text[:200] if runs else "it is not offered"
        sentence = f"I cannot compute {expression}: the python tool gave no number: {reason}"
        return _finish(view, sentence, (), "nothing computes", status="blocked")
    return _finish(view, f"{value} = {expression} (computed by the python tool)", (), f"{expression} = {value}")


def _last_number(call: CallRecord) -> str | None:
    text = call.text or "\n".join(content.text for content in call.contents)
    numbers = re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w])", text)
    if call.is_error or not numbers:
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
        return _Decision(
            thinking=f"Both values are known; their {operation} is {expression}.",
            memory=memory,
            next_goal=f"Compute the {operation}.",
            calls=(("python", {"code": expression}),),
        )
    value = (_last_number(runs[-1]) if runs else None) or "unknown"
    answer = f"{value}: the {operation} of {left.value} and {right.value}. {left.answer} {right.answer}"
    return _finish(view, answer, (left, right), memory)


def _look_up(view: _View, questions: list[rules.ParsedQuestion]) -> list[tuple[str, Arguments]]:
    """Return the next searches; empty when nothing is left to try."""
    searches = view.calls_of("search_files")
    if "search_files" not in view.tools or sum(call.is_error for call in searches) > 1:
        return []
    limit: Arguments = {"limit": 12} if "limit" in view.tools["search_files"].get("properties", {}) else {}
    calls: list[tuple[str, Arguments]] = []
    queries = {str(call.arguments.get("query")) for call in searches}
    for question in questions:
        query = next((candidate for candidate in question.queries() if candidate not in queries), None)
        if query is not None:
            queries.add(query)
            calls.append(("search_files", {"query": query, **limit}))
    return calls


def _absence(view: _View, question: rules.ParsedQuestion) -> _Decision:
    if not view.calls and not view.contents:
        sentence = "Not found in the given files. They could not be searched: no tool for that is offered."
        return _finish(view, sentence, (), "no tool reads the files", status="blocked")
    errors = [call for call in view.calls if call.is_error]
    if errors and len(errors) == len(view.calls):
        sentence = f"Not found in the given files. They could not be searched: {errors[-1].text[:300]}"
        return _finish(view, sentence, (), "every look-up failed", status="blocked")
    absent = rules.missing(question, view.contents)
    if absent:
        reason = "No passage found holds " + ", ".join(f"“{term}”" for term in absent) + "."
    else:
        reason = "No single passage holds all the terms of the question."
    return _finish(view, f"Not found in the given files. {reason}", (), reason)


def _verdict(view: _View) -> str:
    if not view.calls:
        return "Nothing was done yet."
    last = view.calls[-1]
    if last.is_error:
        return f"Failure: {last.name} said: {last.text[:200]}"
    return f"Success: {last.name} {f'gave {len(last.contents)} passage(s)' if last.contents else 'answered'}."


# --- finishing ------------------------------------------------------------------------------------------------------


def _finish(
    view: _View, answer: str, citations: tuple[rules.CitedAnswer, ...], reason: str, *, status: str = "completed"
) -> _Decision:
    sources: JsonValue = [{"source": cite.source, "place": cite.place, "quote": cite.quote} for cite in citations]
    arguments: Arguments = {"answer": f"{answer} {NOTE}", "status": status, "sources": sources}
    properties = view.tools.get("done", {}).get("properties", {})
    if properties:
        arguments = {name: value for name, value in arguments.items() if name in properties}
    return _Decision(
        thinking=f"The answer is ready: {reason}.",
        memory=reason[:500],
        next_goal="Give the answer.",
        calls=(("done", arguments),),
    )


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
