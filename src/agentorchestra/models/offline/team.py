"""The offline model as a team: who gets which part of a task, the report, and replies to requests without tools."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agentorchestra.models.offline import rules
from agentorchestra.models.offline.passages import passages_in

ANALYZER, WORKER, REPORTER = "deep_analyzer", "worker", "reporter"

_CALL = re.compile(r"(?<![\w.])[A-Za-z_]\w*\(")
_REPORT = re.compile(r"\b(?:write|give|make|prepare)\b[^.?!]{0,200}\breport\b|\bas a report\b", re.IGNORECASE)


def is_agent(parameters: Mapping[str, Any]) -> bool:
    properties = parameters.get("properties", {})
    return parameters.get("required", []) in ([], ["task"]) and {"task", "context"} <= set(properties)


def wants_report(task: str) -> bool:
    return _REPORT.search(task) is not None


def delegations(task: str, files: Sequence[str], agents: Collection[str]) -> list[tuple[str, str]]:
    """Return the questions of a task, or the task where it holds no several, each behind the agent that gets it."""
    parts = rules.questions(task)
    pairs = []
    for part in parts if len(parts) > 1 or (parts and wants_report(task)) else [task]:
        is_read = ANALYZER in agents and (files or rules.arithmetic(part) is not None)
        if WORKER in agents and (_CALL.search(part) or not is_read):
            pairs.append((WORKER, part))
        elif is_read:
            pairs.append((ANALYZER, part))
    return pairs


_RESULT = re.compile(r"^\w+ \((?P<status>\w+)\): (?P<text>.*?)(?=^\w+ \(\w+\): |^\[E\d+\] |\Z)", re.M | re.S)


def report(evidence: str, note: str) -> str:
    """Return the report: what each agent found, with the marks of its evidence, without the note of each answer."""
    lines = []
    for match in _RESULT.finditer(evidence):
        text = " ".join(match["text"].replace(note, "").split())
        lines.append(f"- {text}" if match["status"] == "completed" else f"- Not settled: {text}")
    successes = sum("[E" in line for line in lines)
    head = f"{successes} of {len(lines)} questions could be answered from the files."
    return "\n".join([head, "", "## Findings", "", *lines, ""])


# --- requests that offer no tools -----------------------------------------------------------------------------------


def single_reply(system: str, request: str) -> str | None:
    """Return the reply to a request that offers no tools and is no step of an agent; None for any other.

    Rules judge nothing and phrase nothing: they doubt no answer, keep each form, and shorten by leaving lines out.
    """
    if "<found_by_the_team>" in request:
        return json.dumps({"reason": "rules judge nothing", "settle": "", "supported": True})
    if "<answer>" in request and "<task>" in request:
        return "KEEP"
    if "<task_of_the_analysis>" in request:
        return json.dumps({"reason": "the rules have tried what they can", "go_on": False})
    if "<rules_of_memory>" in system or "<task_of_the_agent>" in system:
        most = re.search(r"at most (\d+) words", system)
        text = shortened(request, int(most[1]) if most else 300)
        return json.dumps({"summary": text, "insights": []}, ensure_ascii=False) if '{"summary"' in system else text
    return None


_OUTCOME = re.compile(r"^(?:- )*((?:Task|Answer \(\w+\)): .+)$", re.MULTILINE)


def shortened(request: str, most: int) -> str:
    """Return what is worth keeping in at most so many words: passages with their places, the newest tasks, answers."""
    lines = [f"- {passage.ref} ({passage.place}): {passage.text}" for passage in passages_in(request)]
    lines += [f"- {outcome}" for outcome in _OUTCOME.findall(request)]
    selection: list[str] = []
    for line in dict.fromkeys(" ".join(line.split()) for line in reversed(lines)):
        most -= len(line.split())
        if most < 0:
            break
        selection.insert(0, line)
    return "\n".join(selection) or "Nothing was asked yet."
