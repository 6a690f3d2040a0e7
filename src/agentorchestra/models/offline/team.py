"""The offline model as a team: how it splits a task, judges what comes back, writes it up, shortens it.

Rules over what stands in the prompt, as in the rest of the offline model; nothing here knows a document or a tool.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentorchestra.core.spec import AgentResult, RunStatus
from agentorchestra.models.offline import rules
from agentorchestra.models.offline.passages import pieces
from agentorchestra.models.render import RenderedContent, parse_contents, without_contents

ANALYZER, WORKER, REPORTER = "deep_analyzer", "worker", "reporter"

_CALL = re.compile(r"(?<![\w.])[A-Za-z_]\w*\(")
_WRITE = re.compile(r"\b(?:write|give|make|prepare|draw up|schreib\w*|erstell\w*)\b", re.IGNORECASE)
_REPORT = re.compile(r"\b(?:report|bericht)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Delegation:
    """A part of the user's task, and the agent that is given it."""

    agent: str
    task: str


@dataclass(frozen=True)
class Finding:
    """What came back from a delegation: a result, or the sentence of a failure."""

    result: AgentResult | None
    error: str = ""

    @property
    def failed(self) -> bool:
        """Return True if the agent could not do it; to have found nothing is no failure."""
        return self.result is None or self.result.status is not RunStatus.COMPLETED

    @property
    def usable(self) -> bool:
        return not self.failed and self.result is not None and not self.result.answer.startswith("Not found")


def is_agent(parameters: Mapping[str, Any]) -> bool:
    properties = parameters.get("properties", {})
    return parameters.get("required", []) in ([], ["task"]) and {"task", "context"} <= set(properties)


def wants_report(task: str) -> bool:
    verbs = ((part, _WRITE.search(part)) for part in re.split("[.?!]", task))
    is_request = any(verb is not None and _REPORT.search(part, verb.end()) for part, verb in verbs)
    return is_request or re.search(r"\bas a report\b", task, re.IGNORECASE) is not None


def parts_of(task: str) -> list[str]:
    """Return the questions of a task, where it holds several; else the task itself."""
    parts = rules.questions(task)
    return parts if len(parts) > 1 or (parts and wants_report(task)) else [task]


def first_delegations(task: str, files: Sequence[str], agents: Collection[str]) -> list[Delegation]:
    mentions = [name for name in sorted(agents) if name not in (REPORTER, WORKER) and _mentions(task, name)]
    if mentions and ANALYZER not in mentions:
        return [Delegation(mentions[0], task)]
    delegations = []
    for part in parts_of(task):
        if WORKER in agents and _CALL.search(part):
            delegations.append(Delegation(WORKER, part))
        elif ANALYZER in agents and (files or rules.arithmetic(part) is not None):
            delegations.append(Delegation(ANALYZER, part))
        elif WORKER in agents:
            delegations.append(Delegation(WORKER, part))
    return delegations


def finding_of(text: str, contents: Sequence[RenderedContent], *, is_error: bool) -> Finding:
    message = text or "\n".join(content.text for content in contents)
    if is_error:
        return Finding(None, message)
    for candidate in (*(content.text for content in contents), text):
        try:
            value = json.loads(candidate)
            if isinstance(value, dict):
                return Finding(AgentResult.model_validate(value))
        except ValueError:
            continue
    return Finding(None, message)


def _mentions(task: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b|\b{re.escape(name.replace('_', ' '))}\b", task, re.IGNORECASE) is not None


def _inside(text: str, tag: str) -> str:
    start, end = text.find(f"<{tag}>"), text.rfind(f"</{tag}>")
    return text[start + len(tag) + 2 : end].strip() if 0 <= start < end else ""


def single_reply(system: str, request: str, note: str) -> str | None:
    """Return the reply to a request that offers no tools and is no step of an agent; None for any other."""
    if "<found_by_the_team>" in request:
        return verdict(
            _inside(request, "task"), _inside(request, "answer"), _inside(request, "found_by_the_team"), note
        )
    if "<answer>" in request and "<task>" in request:
        return bare_value(_inside(request, "answer"), note)
    if "<task_of_the_analysis>" in request:
        return analysis(request, judging="whether a task is answered" in system)
    if '{"given"' in system or '"steps": [' in system:
        return plan(_inside(request, "task"))
    if '"needs"' in system:  # the rules do a task as a whole
        return json.dumps({"subtasks": []})
    if "<rules_of_memory>" in system:
        limit = re.search(r"at most (\d+) words", system)
        if limit is None or "insights:" in system:
            return lessons(request, objects='"text"' in system)
        summary = short_memory(request, int(limit[1]))
        return json.dumps({"summary": summary}, ensure_ascii=False) if '{"summary"' in system else summary
    if "<task_of_the_agent>" in system:
        limit = re.search(r"at most (\d+) words", system)
        return task_summary(_inside(system, "task_of_the_agent"), request, int(limit[1]) if limit else 300)
    return None


_FIGURE = re.compile(r"(?<![\w.,])\d+(?:[.,]\d+)*")


def verdict(task: str, answer: str, evidence: str, note: str) -> str:
    """Return a verdict: every figure and every quote of the answer has to stand in what was found, or in the task."""
    material = " ".join(f"{task} {evidence}".split())
    figures = [figure for figure in _FIGURE.findall(answer.replace(note, "")) if len(figure) > 1]
    quotes = re.findall(r"“([^”]+)”", answer)
    wrong = [figure for figure in figures if figure not in _FIGURE.findall(material)]
    wrong += [quote for quote in quotes if " ".join(quote.split()) not in material]
    reason = f"not in what was found: {'; '.join(wrong)}" if wrong else "all of it stands in what was found"
    settle = "find what is missing, or leave it out" if wrong else ""
    return json.dumps({"reason": reason, "settle": settle, "supported": not wrong}, ensure_ascii=False)


_VALUE = re.compile(r"^(?P<value>[^\s“”(:=][^“”(:=\n]{0,60}?)(?: = | \(|: the (?:difference|sum|ratio|average) of )")


def bare_value(answer: str, note: str) -> str:
    """Return the bare value at the beginning of an answer of the rules, else KEEP."""
    match = _VALUE.match(answer)
    if match is None or answer.startswith(("According to", "Not found", "I cannot")) or re.match(r"\d+\. ", answer):
        return "KEEP"
    return f"{match['value'].strip()} {note}"


def task_summary(task: str, request: str, most: int) -> str:
    """Return the passages that hold the most words of the task, each with its place, and what was called."""
    terms = rules.parse_question(task, ()).terms
    lines = [line for line in request.splitlines() if _NOTE.match(line)]
    passages = [content for content in pieces(parse_contents(request)) if content.kind == "file" and content.place]

    def overlap(content: RenderedContent) -> int:
        words = rules.keys_of(content.text)
        return sum(any(term.matches(word) for word in words) for term in terms)

    for passage in sorted(passages, key=overlap, reverse=True):
        lines.append(f"- {passage.ref} ({passage.place}): {' '.join(passage.text.split())}")
    tools = dict.fromkeys(re.findall(r"^The agent called (\S+?)\(", request, re.MULTILINE))
    selection: list[str] = []
    for line in dict.fromkeys(lines):
        if sum(len(entry.split()) for entry in [*selection, line]) > most:
            break
        selection.append(line)
    return "\n".join(selection or ["Nothing that was read holds a word of the task."]) + (
        f"\nCalled: {', '.join(tools)}." if tools else ""
    )


def plan(task: str) -> str:
    """Return the survey and the plan of a task: each of its questions is looked up, one after the other."""
    steps = parts_of(task)
    return json.dumps({"given": [task], "to_look_up": steps, "steps": steps}, ensure_ascii=False)


_OUTCOME = re.compile(r"^(?:- )*(?P<what>Task|Answer \((?P<status>\w+)\)): (?P<text>.+)$", re.MULTILINE)
_FAILED = re.compile(r"^- Step \d+: (?P<tool>\w+) .*? failed: (?P<text>[^;]+)", re.MULTILINE)


def short_memory(request: str, most: int) -> str:
    """Return a memory in fewer words: the newest tasks with their answers."""
    lines = [f"- {match['what']}: {' '.join(match['text'].split())}" for match in _OUTCOME.finditer(request)]
    selection: list[str] = []
    for line in reversed(list(dict.fromkeys(lines))):
        if sum(len(entry.split()) for entry in [*selection, line]) > most:
            break
        selection.insert(0, line)
    return "\n".join(selection) or "Nothing was asked yet."


def lessons(request: str, *, objects: bool) -> str:
    """Return what a task came to, and which of its calls failed, as JSON; insights as texts or as objects."""
    ends = [f"{match['what']}: {' '.join(match['text'].split())}" for match in _OUTCOME.finditer(request)]
    failed = dict.fromkeys(f"{match['tool']} failed: {match['text'].strip()}" for match in _FAILED.finditer(request))
    insights = [{"text": text} for text in failed] if objects else [*failed]
    return json.dumps({"summary": "; ".join(ends) or "Nothing was asked.", "insights": insights}, ensure_ascii=False)


_NOTE = re.compile(r"^- (?P<ref>[^()\n]+) \((?P<place>(?:p|pp|lines?|rows?)\.? [\d-]+|[A-Z]{1,3}\d+)\): (?P<text>.+)$")


def memory_contents(text: str) -> list[RenderedContent]:
    matches = (_NOTE.match(line) for line in text.splitlines())
    return [RenderedContent(kind="file", ref=m["ref"], place=m["place"], text=m["text"]) for m in matches if m]


_RESULT = re.compile(r"^(?P<agent>\w+) \((?P<status>\w+)\): (?P<text>.*?)(?=^\w+ \(\w+\): |^\[E\d+\] |\Z)", re.M | re.S)


def analysis(words: str, *, judging: bool) -> str:
    """Return whether an analysis goes on (never: the rules have tried what they can), or the first of its answers."""
    if judging:
        return json.dumps({"reason": "the rules have tried what they can", "go_on": False})
    text = "\n".join([*(content.text for content in parse_contents(words)), without_contents(words)])
    answers = [" ".join(match["text"].split()) for match in _RESULT.finditer(text)]
    results = [re.sub(r"(?:\s*\[E\d+\])+$", "", answer) for answer in answers]
    unanimous = len(set(results)) < 2
    return json.dumps(
        {
            "answer": results[0] if results else "",
            "agreed": unanimous,
            "disagreement": "" if unanimous else " / ".join(results),
        },
        ensure_ascii=False,
    )


def report(evidence: str, note: str) -> str:
    """Return the report: what each agent found, with the marks of its evidence, without the note of each answer."""
    lines = []
    for match in _RESULT.finditer(evidence):
        text = " ".join(match["text"].replace(note, "").split())
        lines.append(f"- {text}" if match["status"] == "completed" else f"- Not settled: {text}")
    successes = sum("[E" in line for line in lines)
    head = f"{successes} of {len(lines)} questions could be answered from the files."
    return "\n".join([head, "", "## Findings", "", *lines, ""])
