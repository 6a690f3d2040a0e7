"""The offline model: no language model, only rules, on exactly the path of a real one.

It reads what any model would read - the rendered messages and the tools offered - and answers with the same decision:
reasoning as JSON text and tool calls. It keeps no state: everything it knows stands in the messages, so it serves many
runs at once and goes on after a resume. It can look facts up in files (sentences, pages, cells), compare two of
them, do arithmetic, and make a call that the task spells out; it says so in every answer, and says honestly what it
cannot do. In a team it plays every role (offline_team.py).
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.budget import Usage
from agentorchestra.core.ids import canonical_json
from agentorchestra.core.messages import Message, ModelRequest, ModelResponse, ToolCall
from agentorchestra.core.settings import ModelProfile
from agentorchestra.models.offline import code, rules, team
from agentorchestra.models.offline.calls import agent_result, spelled_calls, unknown_calls
from agentorchestra.models.offline.passages import pieces
from agentorchestra.models.render import (
    RenderedContent,
    content_spans,
    parse_contents,
    render_message,
    without_contents,
)

NOTE = "(offline model: rules, no language model)"

MAX_SEARCHES = 3
MAX_READS = 6

Arguments = dict[str, JsonValue]


class OfflineModel:
    """A `ModelClient` without a model behind it.

    Attributes:
        name: the name it is asked for by.
        profile: its profile: no price, no key.
        native_tools: calls are given natively where tools are offered, else inside the JSON text.
    """

    def __init__(self, name: str = "offline", profile: ModelProfile | None = None) -> None:
        self.name = name
        self.profile = profile or ModelProfile(model="offline")
        self.native_tools = self.profile.tools

    async def request(
        self,
        request: ModelRequest,
        *,
        media: Mapping[str, Any] | None = None,
        on_delta: Callable[[str], Any] | None = None,
    ) -> ModelResponse:
        """Decide the next step from the visible prompt; media are not looked at."""
        view = _View.read(request)
        single = None if view.tools else team.single_reply(view.system, view.first, NOTE)
        text, calls = (single, ()) if single is not None else _written(_decide(view), view)
        if on_delta is not None:
            delivered = on_delta(text)
            if inspect.isawaitable(delivered):
                await delivered
        said = len(text) + sum(len(call.name) + len(canonical_json(call.arguments)) for call in calls)
        usage = Usage(requests=1, input_tokens=max(1, view.chars // 4), output_tokens=max(1, said // 4), cost_usd=0.0)
        return ModelResponse(
            text=text,
            tool_calls=calls,
            finish_reason="tool_calls" if calls else "stop",
            model=self.name,
            usage=usage,
        )

    def price(self, usage: Usage) -> float:
        """Nothing, whatever the tokens."""
        return 0.0

    async def aclose(self) -> None:
        """Nothing is held open."""


# --- what is visible ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Call:
    """A call made earlier, with what came back ("" and no contents while it is not known)."""

    name: str
    arguments: Mapping[str, Any]
    text: str
    is_error: bool
    contents: tuple[RenderedContent, ...]


@dataclass(frozen=True)
class _View:
    """The prompt, taken apart.

    Attributes:
        task: the task's text.
        files: the names of its files.
        tools: the parameters of each tool offered.
        native: whether calls are made natively.
        last: whether this step must be the answer.
        calls: the calls made so far, in order.
        contents: the pieces of files seen so far, in order, each once.
        steps: decisions taken so far.
        chars: the prompt's size.
        answer_format: what is said of the form of a structured answer.
        system, first: the system prompt and the user's first message.
        code: whether it acts by writing programs.
    """

    task: str
    files: tuple[str, ...]
    tools: Mapping[str, Mapping[str, Any]]
    native: bool
    last: bool
    calls: tuple[_Call, ...]
    contents: tuple[RenderedContent, ...]
    steps: int
    chars: int
    answer_format: str
    system: str = ""
    first: str = ""
    code: bool = False

    @classmethod
    def read(cls, request: ModelRequest) -> _View:
        rendered = [(message, render_message(message)) for message in request.messages]
        first = next((text for message, text in rendered if message.role == "user" and "<task>" in text), None)
        if first is None:
            first = next((text for message, text in rendered if message.role == "user"), "")
        system = "\n".join(text for message, text in rendered if message.role == "system")
        native = bool(request.tools)
        functions = code.offered_functions(system)
        tools: Mapping[str, Mapping[str, Any]] = functions or _listed_tools(system)
        if native:
            tools = {tool.name: tool.parameters for tool in request.tools}
        # What can be opened can be called by its name too, with arguments that nobody has described.
        waiting = [tool.description for tool in request.tools if tool.name == "open_tools"]
        waiting += [match["body"] for match in _TOOL_TAG.finditer(system) if match["name"] == "open_tools"]
        tools = {name: {} for text in waiting for name in _WAITING.findall(text)} | {**tools}
        contents: dict[tuple[str, str, str], RenderedContent] = {}
        for message, text in rendered:
            if message.role in ("tool", "user"):
                for content in [*pieces(parse_contents(text)), *team.remembered(text)]:
                    if content.kind == "file" and content.place:  # without a place it only speaks of a file
                        contents.setdefault((content.ref, content.place, content.text), content)
                for call in code.told(text):
                    contents.update({(one.ref, one.place, one.text): one for one in call.contents})
        tail = without_contents(rendered[-1][1]) if rendered and rendered[-1][0].role in ("user", "system") else ""
        return cls(
            task=_inside(first, "task") if "<task>" in first else first,
            files=_listed_files(first),
            tools=tools,
            native=native,
            last=_must_answer(tail) or (native and set(tools) <= set(_FINISHING)),
            calls=_calls(rendered) if functions is None else _told(rendered),
            code=functions is not None,
            contents=tuple(contents.values()),
            steps=sum(message.role == "assistant" for message in request.messages),
            chars=sum(len(text) for _, text in rendered)
            + sum(len(canonical_json(tool.parameters)) for tool in request.tools),
            answer_format=_inside(first, "answer_format") if "<answer_format>" in first else "",
            system=system,
            first=first,
        )

    def made(self, name: str) -> list[_Call]:
        """The calls of one tool so far."""
        return [call for call in self.calls if call.name == name]

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents that it may delegate to; in the last step, which offers none, those it did delegate to."""
        offered = {name for name, parameters in self.tools.items() if team.is_agent(parameters)}
        asked = {call.name for call in self.calls if "task" in call.arguments} if self.last else set()
        return tuple(sorted(offered | asked))

    @property
    def evidence(self) -> str:
        """What was found by others and is to be written up, "" where this is no such task."""
        if set(self.tools) - {*_FINISHING, "python"}:
            return ""
        shown = [content.text for content in parse_contents(self.first) if content.kind == "agent"]
        given = "\n".join(shown) or self.first.rpartition("</files>")[2]
        return given if _EVIDENCE.search(given) else ""


_EVIDENCE = re.compile(r"^\w+ \((?:completed|partial|blocked)\): |^\[E1\] ", re.MULTILINE)
_FILE_LINE = re.compile(r"^- (?P<name>.+) \([^()]*, [^()]*\)(?:, whole below)?$", re.MULTILINE)
_TOOL_TAG = re.compile(r'<tool name="(?P<name>[^"]+)">(?P<body>.*?)</tool>', re.DOTALL)
_WAITING = re.compile(r"^- (\w+): ", re.MULTILINE)
_RESULT_LINE = re.compile(r"^Result of (?P<name>\S+) \((?P<id>[^()\s]+)\):$", re.MULTILINE)
_LAST_STEP = re.compile(
    r"<last_step>|(?<!if )(?<!when )\bthis is (?:your|the) (?:last|final)(?: allowed)? step\b"
    r"|\bno (?:more|further) steps? (?:is|are) (?:left|allowed)\b",
    re.IGNORECASE,
)
_STEP_OF = re.compile(r"\bstep (\d+) of (\d+)\b", re.IGNORECASE)


def _inside(text: str, tag: str) -> str:
    """What stands between a tag and its last closing one before the files are listed."""
    start = text.find(f"<{tag}>") + len(tag) + 2
    listed = text.rfind("<files>") if tag == "task" else -1
    end = text.rfind(f"</{tag}>", start, listed if listed > start else len(text))
    return text[start : end if end >= 0 else len(text)].strip()


def _listed_files(text: str) -> tuple[str, ...]:
    start = text.rfind("<files>")
    end = text.find("</files>", start)
    return tuple(match["name"] for match in _FILE_LINE.finditer(text[start:end])) if 0 <= start < end else ()


def _listed_tools(system: str) -> dict[str, Mapping[str, Any]]:
    """The tools described in the prompt of the JSON text format."""
    found: dict[str, Mapping[str, Any]] = {}
    for match in _TOOL_TAG.finditer(system):
        schema: Any = {}
        _, _, described = match["body"].rpartition("Arguments (JSON schema):")
        try:
            schema = json.loads(described)
        except ValueError:
            schema = {}
        found[match["name"]] = schema if isinstance(schema, dict) else {}
    return found


def _must_answer(tail: str) -> bool:
    if _LAST_STEP.search(tail):
        return True
    step = _STEP_OF.search(tail)
    return step is not None and int(step[1]) >= int(step[2])


def _calls(rendered: list[tuple[Message, str]]) -> tuple[_Call, ...]:
    """The calls in the history, each with its result."""
    made: list[tuple[str, str, Mapping[str, Any]]] = []
    results: dict[str, tuple[str, bool]] = {}
    for message, text in rendered:
        if message.role == "assistant":
            if message.tool_calls:
                for call in message.tool_calls:
                    made.append((call.id, call.name, call.arguments if isinstance(call.arguments, dict) else {}))
            else:
                made.extend(("", name, arguments) for name, arguments in _calls_in_text(text))
        elif message.role == "tool":
            results[message.tool_call_id or ""] = (text, message.is_error)
        elif message.role == "user" and made:
            # The JSON text format: results stand one below the other in a message, each behind its own line.
            blank = text
            for start, end in content_spans(text):
                blank = f"{blank[:start]}{' ' * (end - start)}{blank[end:]}"
            marks = list(_RESULT_LINE.finditer(blank))
            waiting = [i for i, (ident, _, _) in enumerate(made) if not ident]
            for index, mark in zip(waiting, marks, strict=False):
                following = next((other.start() for other in marks if other.start() > mark.start()), len(text))
                made[index] = (mark["id"], made[index][1], made[index][2])
                results[mark["id"]] = (text[mark.end() : following].strip(), False)
    calls = []
    for ident, name, arguments in made:
        text, is_error = results.get(ident, ("", False))
        contents = tuple(pieces(parse_contents(text)))
        calls.append(_Call(name, arguments, without_contents(text).strip(), is_error, contents))
    return tuple(calls)


def _told(rendered: list[tuple[Message, str]]) -> tuple[_Call, ...]:
    """The calls that programs made, as they printed them."""
    return tuple(
        _Call(one.name, one.arguments, one.text, one.is_error, one.contents)
        for message, text in rendered
        if message.role == "user"
        for one in code.told(text)
    )


def _calls_in_text(text: str) -> list[tuple[str, Mapping[str, Any]]]:
    start, end = text.find("{"), text.rfind("}")
    try:
        said = json.loads(text[start : end + 1]) if 0 <= start < end else {}
    except ValueError:
        return []
    listed = said.get("tool") if isinstance(said, dict) else None
    found: list[tuple[str, Mapping[str, Any]]] = []
    for item in listed if isinstance(listed, list) else []:
        if isinstance(item, dict):
            arguments = item.get("args")
            found.append((str(item.get("name", "")), arguments if isinstance(arguments, dict) else {}))
    return found


# --- decisions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Decision:
    thinking: str
    evaluation: str
    memory: str
    next_goal: str
    calls: tuple[tuple[str, Arguments], ...]


def _decide(view: _View) -> _Decision:
    """The whole course: arithmetic, a place that is named, facts in files, two facts and an operation."""
    hidden = unknown_calls(view.task, view.tools) if "open_tools" in view.tools and not view.last else []
    if hidden and not view.made("open_tools"):
        return _Decision(
            thinking=f"The task spells out calls of tools that are not open: {', '.join(hidden)}.",
            evaluation=_judged(view),
            memory="",
            next_goal="Open them.",
            calls=(("open_tools", {"names": [*hidden]}),),
        )
    spelled = spelled_calls(view.task, {name: schema for name, schema in view.tools.items() if name != "done"})
    if spelled and (decision := _spelled(view, spelled)) is not None:
        return decision
    if view.evidence:
        return _finish(view, team.reported(view.evidence, NOTE), (), "everything that was found is written up")
    if view.agents:
        return _lead(view)
    expression = rules.arithmetic(view.task)
    if expression is not None:
        return _arithmetic(view, expression)
    question = rules.parse_question(view.task, view.files)
    if not view.files and not view.contents:
        return _without_files(view)
    if not question.terms and not question.place:
        return _finish(
            view,
            "I cannot answer this: the task names nothing that could be looked up in the files.",
            (),
            "no term to look for",
            status="blocked",
        )
    if question.place and (decision := _at_place(view, question)) is not None:
        return decision
    direct = rules.best(question, view.contents)
    if direct is not None:
        return _finish(
            view, direct.answer, (direct,), f"{direct.source} ({direct.place}) holds every term of the question"
        )
    pair = rules.split_question(question)
    if pair is not None:
        operation, left, right = pair
        found = (rules.best(left, view.contents), rules.best(right, view.contents))
        if found[0] is not None and found[1] is not None:
            return _combine(view, operation, found[0], found[1])
        open_questions = [one for one, answer in zip((left, right), found, strict=True) if answer is None]
    else:
        open_questions = [question]
    if not view.last and (calls := _look_up(view, open_questions)):
        wanted = "; ".join(", ".join(term.text for term in one.terms) for one in open_questions)
        return _Decision(
            thinking=f"The passages seen so far do not hold all of these terms: {wanted}."
            if view.calls
            else f"The files have to be searched for these terms: {wanted}.",
            evaluation=_judged(view),
            memory=f"Terms to match: {wanted}. Passages seen: {len(view.contents)}.",
            next_goal="Find a passage that holds all terms.",
            calls=tuple(calls),
        )
    return _not_found(view, question)


def _spelled(view: _View, calls: list[tuple[str, Arguments]]) -> _Decision | None:
    """Make the calls that the task spells out, and answer with what they gave."""
    made = [one for name in dict.fromkeys(name for name, _ in calls) for one in view.made(name)]
    if not made and view.last:
        return None
    if not made:
        names = ", ".join(name for name, _ in calls)
        return _Decision(
            thinking=f"The task spells out what to call: {names}.",
            evaluation=_judged(view),
            memory="",
            next_goal=f"Call {names}.",
            calls=tuple(calls),
        )
    answers: list[str] = []
    found: list[rules.Found] = []
    failed = 0
    for one in made:
        text = one.text or "\n".join(content.text for content in one.contents)
        result = agent_result(text)
        answers.append(text if result is None else str(result["answer"]).removesuffix(NOTE).strip())
        failed += one.is_error or (result is not None and result["status"] != "completed")
        for source in (result or {}).get("sources", ()):
            name, place, quote = (str(source.get(name, "")) for name in ("source", "place", "quote"))
            found.append(rules.Found(answers[-1], answers[-1], name, place, quote))
    status = "completed" if not failed else "blocked" if failed == len(made) else "partial"
    why = "the calls that the task spells out were made"
    return _finish(view, "\n".join(answers), tuple(found), why, status=status)


def _lead(view: _View) -> _Decision:
    """The planner's course: hand out, try otherwise what failed, have the report written, answer."""
    first = team.first_delegations(view.task, view.files, view.agents)
    made = [call for call in view.calls if call.name in view.agents]
    work = [call for call in made if call.name != team.REPORTER]
    if not first and not work:
        return _without_files(view)
    reporting = team.wants_report(view.task) and team.REPORTER in view.agents
    if not work and not view.last:
        return _handing_out(view, first, "Hand the work out.", planned=_planned(view, first, reporting))
    findings = [team.finding_of(call.text, call.contents, is_error=call.is_error) for call in work]
    second = team.second_delegations(first, findings, view.files)
    if second and len(work) == len(first) and not view.last:
        return _handing_out(view, second, "Try otherwise what failed.", planned=())
    done = team.chosen([*first, *second], findings, view.files)
    marks = _marked(view, [finding for _, finding in done])
    asked: Arguments = {"task": view.task}
    report = (team.REPORTER, asked) if reporting and len(made) == len(work) else None
    if (marks or report) and not view.last:
        return _Decision(
            thinking="What could be found is there.",
            evaluation=_judged(view),
            memory=f"{sum(one.usable for _, one in done)} of {len(done)} parts are answered.",
            next_goal="Have the report written." if report else "Mark the plan.",
            calls=(*marks, report) if report else marks,
        )
    return _concluded(view, [finding for _, finding in done])


def _handing_out(
    view: _View, work: list[team.Delegation], goal: str, *, planned: tuple[tuple[str, Arguments], ...]
) -> _Decision:
    handed: list[tuple[str, Arguments]] = [(one.agent, {"task": one.task}) for one in work]
    return _Decision(
        thinking="; ".join(f"{one.agent}: {one.task}" for one in work),
        evaluation=_judged(view),
        memory="",
        next_goal=goal,
        calls=(*planned, *handed),
    )


def _planned(view: _View, work: list[team.Delegation], reporting: bool) -> tuple[tuple[str, Arguments], ...]:
    """The plan, for a task of several parts."""
    parts: dict[str, str] = {one.part: one.agent for one in work}
    if "todo" not in view.tools or len(parts) + reporting < 2:
        return ()
    steps: list[JsonValue] = [{"text": part, "agent": agent} for part, agent in parts.items()]
    if reporting:
        needs: list[JsonValue] = list(range(len(steps)))
        steps.append({"text": "Write the report", "agent": team.REPORTER, "needs": needs})
    return (("todo", {"action": "create", "steps": steps}),)


def _marked(view: _View, findings: list[team.Finding]) -> tuple[tuple[str, Arguments], ...]:
    """Marks for the steps of the plan, once."""
    actions = [call.arguments.get("action") for call in view.made("todo")]
    if actions != ["create"] or "todo" not in view.tools:
        return ()
    marks: list[tuple[str, Arguments]] = []
    for index, one in enumerate(findings):
        status = "blocked" if one.failed else "completed"
        marks.append(("todo", {"action": "mark_step", "step_index": index, "step_status": status}))
    return tuple(marks)


def _concluded(view: _View, findings: list[team.Finding]) -> _Decision:
    """The answer from what came back, part by part."""
    answers, found = [], []
    for one in findings:
        said = one.result.answer or one.result.report if one.result is not None else one.error
        answers.append(said.removesuffix(NOTE).strip())
        for source in one.result.sources if one.result is not None and not one.failed else ():
            found.append(rules.Found("", "", source.source, source.place, source.quote))
    text = answers[0] if len(answers) == 1 else "\n".join(f"{n}. {said}" for n, said in enumerate(answers, start=1))
    failed = sum(one.failed for one in findings)
    status = "completed" if not failed else "blocked" if failed == len(findings) else "partial"
    return _finish(view, text, tuple(dict.fromkeys(found)), "every part came back", status=status)


def _arithmetic(view: _View, expression: str) -> _Decision:
    made = view.made("python")
    if not made and "python" in view.tools and not view.last:
        return _Decision(
            thinking=f"The task is arithmetic: {expression}.",
            evaluation=_judged(view),
            memory=f"To compute: {expression}.",
            next_goal="Compute the expression.",
            calls=(("python", _code(view, expression)),),
        )
    value = _last_number(made[-1]) if made else None
    how = "computed by the python tool"
    if value is None:
        result = rules.evaluate(expression)
        value, how = (rules.number_text(result) if result is not None else ""), "computed by rule"
        if made:
            how += f"; the python tool gave no number: {made[-1].text[:200]}"
    return _finish(view, f"{value} = {expression} ({how})", (), f"{expression} = {value}")


def _code(view: _View, expression: str) -> Arguments:
    properties = view.tools.get("python", {}).get("properties", {})
    name = next((one for one in ("code", "expression", "source", "script") if one in properties), "")
    if not name:
        name = next((one for one, schema in properties.items() if schema.get("type") == "string"), "code")
    return {name: expression}


def _last_number(call: _Call) -> str | None:
    """The number a computing tool gave back."""
    if call.is_error:
        return None
    text = call.text or "\n".join(content.text for content in call.contents)
    try:
        loaded = json.loads(text)
    except ValueError:
        loaded = None
    if isinstance(loaded, dict):
        chosen = next((loaded[name] for name in ("result", "value", "output", "stdout") if loaded.get(name)), None)
        text = str(chosen) if chosen is not None else text
    numbers = re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w])", text)
    if not numbers:
        return None
    number = numbers[-1]
    return number if re.fullmatch(r"-?\d+", number) else rules.number_text(float(number))


def _without_files(view: _View) -> _Decision:
    if "delegate_task" in view.tools and not view.last:
        made = view.made("delegate_task")
        if not made:
            return _Decision(
                thinking="There is nothing here that the rules could do; a sub-agent may.",
                evaluation=_judged(view),
                memory="",
                next_goal="Hand the task on.",
                calls=(("delegate_task", _required(view, "delegate_task")),),
            )
        if not made[-1].is_error and made[-1].text:
            return _finish(view, made[-1].text, (), "the sub-agent answered")
    return _finish(
        view,
        "I cannot answer this: the offline model looks facts up in given files and does arithmetic. Give files with "
        "--file, or name a language model with --model.",
        (),
        "neither files nor arithmetic",
        status="blocked",
    )


def _required(view: _View, name: str) -> Arguments:
    """Arguments for a tool known by its schema only: the task for each string it requires."""
    schema = view.tools[name]
    properties = schema.get("properties", {})
    wanted = schema.get("required") or list(properties)[:1]
    return {one: view.task for one in wanted if properties.get(one, {}).get("type", "string") == "string"}


def _at_place(view: _View, question: rules.Question) -> _Decision | None:
    """A question about a place that it names: read the place; None when that does not lead on."""
    names = question.files or view.files
    if len(names) != 1:
        return None
    name = names[0]
    made = [call for call in view.made("read_file") if call.arguments.get("part") == question.place]
    if not made:
        if "read_file" not in view.tools or view.last:
            return None
        return _Decision(
            thinking=f"The question names a place: {question.place} of {name}.",
            evaluation=_judged(view),
            memory=f"To read: {question.place} of {name}.",
            next_goal="Read that place.",
            calls=(("read_file", {"name": name, "part": question.place}),),
        )
    read = [content for content in made[-1].contents if content.kind == "file"]
    if made[-1].is_error or not read:
        return _finish(view, f"Not found in the given files. {made[-1].text}", (), "the place could not be read")
    found = rules.best(question, read)
    if found is None:
        first = next(iter(rules.table_rows(read[0])), read[0])
        text = " ".join(first.text.split())
        found = rules.Found(f"{name} ({first.place}) says: “{text}”", text, first.ref, first.place, first.text.strip())
    return _finish(view, found.answer, (found,), "read at the place the question names")


def _combine(view: _View, operation: rules.Operation, left: rules.Found, right: rules.Found) -> _Decision:
    expression = rules.operate(operation, left.value, right.value)
    if expression is None:
        return _finish(view, f"{left.answer}; {right.answer}", (left, right), "both facts were found")
    made = view.made("python")
    memory = f"{left.value} at {left.source} {left.place}; {right.value} at {right.source} {right.place}."
    if not made and "python" in view.tools and not view.last:
        return _Decision(
            thinking=f"Both values are known; their {operation} is {expression}.",
            evaluation=_judged(view),
            memory=memory,
            next_goal=f"Compute the {operation}.",
            calls=(("python", _code(view, expression)),),
        )
    value = _last_number(made[-1]) if made else None
    if value is None:
        result = rules.evaluate(expression)
        value = rules.number_text(result) if result is not None else "unknown"
    answer = f"{value}: the {operation} of {left.value} and {right.value}. {left.answer} {right.answer}"
    return _finish(view, answer, (left, right), memory)


_READ_ON = re.compile(r"Read on with (?:part='(?P<part>[^']+)'|view_range=\[(?P<first>\d+), (?P<last>\d+)\])")


def _look_up(view: _View, questions: list[rules.Question]) -> list[tuple[str, Arguments]]:
    """The next searches, or readings where search is not offered; empty when nothing is left to try."""
    calls: list[tuple[str, Arguments]] = []
    failed = [call for call in view.made("search_files") if call.is_error]
    if "search_files" in view.tools and len(failed) < 2:
        asked = {str(call.arguments.get("query")) for call in view.made("search_files")}
        for question in questions:
            queries = question.queries()[:MAX_SEARCHES]
            query = next((one for one in queries if one not in asked), None)
            if query is not None:
                asked.add(query)
                calls.append(("search_files", _search(view, query)))
        return calls
    if "read_file" not in view.tools or len(view.made("read_file")) >= MAX_READS:
        return []
    for name in questions[0].files or view.files:
        made = [call for call in view.made("read_file") if call.arguments.get("name") == name]
        if not made:
            return [("read_file", {"name": name})]
        following = _READ_ON.search(made[-1].text)
        if following and not made[-1].is_error:
            on: Arguments = {"part": following["part"]}
            if following["first"]:
                on = {"view_range": [int(following["first"]), int(following["last"])]}
            return [("read_file", {"name": name, **on})]
    return []


def _search(view: _View, query: str) -> Arguments:
    properties = view.tools.get("search_files", {}).get("properties", {})
    return {"query": query, "limit": 12} if "limit" in properties else {"query": query}


def _not_found(view: _View, question: rules.Question) -> _Decision:
    if not view.calls and not view.contents:
        return _finish(
            view,
            "Not found in the given files. They could not be searched: no tool for that is offered.",
            (),
            "no tool reads the files",
            status="blocked",
        )
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


def _judged(view: _View) -> str:
    if not view.calls:
        return "Nothing was done yet."
    last = view.calls[-1]
    if last.is_error:
        return f"Failure: {last.name} said: {last.text[:200]}"
    return (
        f"Success: {last.name} gave {len(last.contents)} passage(s)."
        if last.contents
        else f"Success: {last.name} answered."
    )


# --- finishing ------------------------------------------------------------------------------------------------------

_FINISHING = ("done", "complete", "submit_answer", "final_answer", "finish")


def _finish(
    view: _View, answer: str, found: tuple[rules.Found, ...], why: str, *, status: str = "completed"
) -> _Decision:
    name = next((one for one in _FINISHING if one in view.tools), "done")
    return _Decision(
        thinking=f"The answer is ready: {why}.",
        evaluation=_judged(view),
        memory=why[:500],
        next_goal="Give the answer.",
        calls=((name, _finishing_arguments(view, name, f"{answer} {NOTE}", found, status)),),
    )


def _finishing_arguments(view: _View, name: str, answer: str, found: tuple[rules.Found, ...], status: str) -> Arguments:
    schema = view.tools.get(name, {})
    properties = schema.get("properties", {})
    cited: JsonValue = [{"source": one.source, "place": one.place, "quote": one.quote} for one in found]
    arguments: Arguments = {"answer": answer, "status": status, "sources": cited}
    if not properties:
        return arguments
    if "answer" not in properties:
        first = (schema.get("required") or list(properties))[0]
        arguments[first] = answer
    allowed = properties.get("status", {}).get("enum")
    if allowed and status not in allowed:
        arguments["status"] = "partial" if "partial" in allowed else allowed[0]
    if view.answer_format and "output" in properties:
        value = found[0].value if found and found[0].value else answer
        arguments["output"] = _fitted(view.answer_format, value)
    return {key: value for key, value in arguments.items() if key in properties}


def _fitted(answer_format: str, value: str) -> JsonValue:
    """The answer in the shape of a simple schema; the bare text where the schema asks for more than rules can give."""
    start, end = answer_format.find("{"), answer_format.rfind("}")
    try:
        schema = json.loads(answer_format[start : end + 1])
    except ValueError:
        return value
    number = re.search(r"-?\d+(?:\.\d+)?", value)

    def fit(one: Any) -> JsonValue:
        kind = one.get("type") if isinstance(one, dict) else None
        if kind == "integer":
            return int(float(number[0])) if number else 0
        if kind == "number":
            return float(number[0]) if number else 0.0
        if kind == "object":
            return {name: fit(inner) for name, inner in one.get("properties", {}).items()}
        if kind == "array":
            return [fit(one.get("items", {}))]
        return bool(value) if kind == "boolean" else value

    return fit(schema)


def _written(decision: _Decision, view: _View) -> tuple[str, tuple[ToolCall, ...]]:
    """The decision as a model writes it: its thoughts in the form that is asked for, and its calls."""
    said: dict[str, JsonValue] = {
        "thinking": decision.thinking,
        "evaluation_previous_goal": decision.evaluation,
        "memory": decision.memory,
        "next_goal": decision.next_goal,
    }
    fields = "evaluation_previous_goal" in view.system
    thought = json.dumps(said, ensure_ascii=False) if fields else decision.thinking
    if view.code:
        return f"{thought}\n```python\n{code.program(decision.calls)}\n```", ()
    if not view.native:
        said = said if fields else {"thought": decision.thinking}
        said["tool"] = [{"name": name, "args": arguments} for name, arguments in decision.calls]
        return json.dumps(said, ensure_ascii=False), ()
    calls = tuple(
        ToolCall(id=f"call_{view.steps}_{index}", name=name, arguments=arguments)
        for index, (name, arguments) in enumerate(decision.calls)
    )
    return thought, calls


__all__ = ["NOTE", "OfflineModel"]
