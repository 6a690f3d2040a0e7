"""Asks questions about the documents in this folder through the command line, as a user would, and checks each quote.

First one agent answers question by question (`--system react`), then the team works on two documents at once: a planner
hands each question to a deep analyzer of its own, and the reporter writes up what they found.

    python examples/demo.py

No key and no network: the model is `offline`, which follows rules. Runs are kept in `.agentorchestra/` in the current
folder. The exit status is 1 when an answer or a quote is not right.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentorchestra.tools.files import verify_quote

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Question:
    """A question, the file it is asked of, and what the answer and its sources must hold."""

    kind: str
    text: str
    file: str | None
    expected: str
    places: tuple[str, ...] = ()


QUESTIONS = (
    Question(
        "text",
        "How many days after receipt of the notice must a violation be cured?",
        "gpl-3.txt",
        "30 days",
        ("lines 422-427",),
    ),
    Question("PDF page", "Who created the Debian Project in 1993?", "debian-faq.pdf", "Ian Murdock", ("p. 10",)),
    Question("table cell", "How much did General Electric invest in 1946?", "investment.csv", "159.9", ("A53",)),
    Question(
        "two cells and arithmetic",
        "How much more did Chrysler invest in 1954 than in 1935?",
        "investment.csv",
        "132.2",
        ("A81", "A62"),
    ),
    Question("arithmetic", "What is 12.5% of 840?", None, "105"),
    Question("no answer", "How much did Ford invest in 1940?", "investment.csv", "Not found"),
)


def command() -> list[str]:
    """The installed command, or the module where it is not installed."""
    script = Path(sys.executable).with_name("agentorchestra")
    return [str(script)] if script.exists() else [sys.executable, "-m", "agentorchestra.cli"]


def ask(question: Question) -> dict[str, Any]:
    """One run of the command line; its JSON result.

    Raises:
        RuntimeError: if the command failed.
    """
    arguments = ["run", question.text, "--model", "offline", "--system", "react", "--json", "--no-out"]
    if question.file is not None:
        arguments += ["--file", str(HERE / question.file)]
    return run_json(*arguments)


def run_json(*arguments: str) -> dict[str, Any]:
    """The JSON that the command line prints.

    Raises:
        RuntimeError: if the command failed.
    """
    done = subprocess.run([*command(), *arguments], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise RuntimeError(
            f"the command ended with status {done.returncode}: {done.stderr.strip() or done.stdout.strip()}"
        )
    result = json.loads(done.stdout)
    assert isinstance(result, dict)
    return result


def problems(question: Question, result: dict[str, Any]) -> list[str]:
    """What is not right about a result."""
    found = []
    if question.expected not in result["answer"]:
        found.append(f"the answer does not hold {question.expected!r}")
    sources = result["sources"]
    if tuple(source["place"] for source in sources) != question.places:
        found.append(f"the places are {[source['place'] for source in sources]}, not {list(question.places)}")
    for source in sources:
        if not verify_quote(HERE / source["source"], source["place"], source["quote"]):
            found.append(f"{source['quote']!r} does not stand at {source['source']}, {source['place']}")
    return found


def show(question: Question, result: dict[str, Any], faults: list[str]) -> None:
    """Print a question with all there is to its answer."""
    usage = result["usage"]
    print(f"[{question.kind}] {question.text}")
    print(textwrap.fill(result["answer"], 100, initial_indent="  answer:  ", subsequent_indent="           "))
    for source in result["sources"]:
        quote = f"“{' '.join(source['quote'].split())}”"
        print(f"  source:  {source['source']}, {source['place']}")
        print(textwrap.fill(quote, 100, initial_indent="  quote:   ", subsequent_indent="           "))
    print(f"  tokens:  {usage['input_tokens']} in, {usage['output_tokens']} out; cost: {result['cost_usd']} US dollars")
    print(f"  run:     {result['run_id']} ({result['status']})")
    right = "right, each quote stands verbatim at its place" if result["sources"] else "right, nothing to quote"
    print(f"  check:   {'; '.join(faults) or right}\n")


TEAM_TASK = (
    "Write a report. How much did General Electric invest in 1946? "
    "How many days after receipt of the notice must a violation be cured?"
)
TEAM_FILES = ("investment.csv", "gpl-3.txt")
TEAM_FACTS = ("159.9", "30 days")


def team() -> list[str]:
    """The team over two files: print its report, and say what is not right about it."""
    files = [word for name in TEAM_FILES for word in ("--file", str(HERE / name))]
    print(f"[team] {TEAM_TASK}")
    result = run_json("run", TEAM_TASK, "--model", "offline", "--json", "--no-out", *files)
    print(textwrap.indent(result["report"], "  "))
    shown = run_json("show", result["run_id"], "--json")
    faults = [f"the report does not hold {fact!r}" for fact in TEAM_FACTS if fact not in result["report"]]
    cited = {source["source"] for source in result["sources"]}
    faults += [f"{name} is no source of the report" for name in TEAM_FILES if name not in cited]
    for source in result["sources"]:
        if not verify_quote(HERE / source["source"], source["place"], source["quote"]):
            faults.append(f"{source['quote']!r} does not stand at {source['source']}, {source['place']}")
    if not overlap(shown["events"]):
        faults.append("the two analyzers did not work at the same time")
    print(f"  run:     {result['run_id']} ({result['status']}, {result['steps']} steps)")
    print(f"  check:   {'; '.join(faults) or 'right: both analyzers at once, each quote verbatim at its place'}\n")
    return faults


def overlap(events: list[dict[str, Any]]) -> bool:
    """Whether two deep analyzers were at work at once: each asked its model between the other's start and end."""
    spans: dict[str, tuple[int, int]] = {}
    asked: dict[str, list[int]] = {}
    for event in events:
        span, name = event["span"] or "", str(event["body"].get("effect", {}).get("component", ""))
        if event["type"] == "started" and name.startswith("deep_analyzer@"):
            spans[span] = (event["seq"], 0)
        elif event["type"] == "completed" and span in spans:
            spans[span] = (spans[span][0], event["seq"])
        elif event["type"] == "started" and event["body"].get("effect", {}).get("kind") == "RequestModel":
            asked.setdefault(event["parent_span"], []).append(event["seq"])
    pairs = [(one, other) for one in spans for other in spans if one != other]
    return bool(pairs) and all(
        any(spans[other][0] < seq < spans[other][1] for seq in asked.get(one, ())) for one, other in pairs
    )


NEXT_STEPS = """Next:
  .venv/bin/agentorchestra show last
  .venv/bin/agentorchestra run "How much did Chrysler invest in 1950?" -f examples/investment.csv --model offline
  .venv/bin/agentorchestra new tool price_of --folder shop"""
"""Commands that work in the clone as they are printed, without activating `.venv`."""


def main() -> int:
    """Ask everything; 0 when all is right."""
    wrong = 0
    for question in QUESTIONS:
        try:
            result = ask(question)
        except (RuntimeError, ValueError, subprocess.SubprocessError) as error:
            print(f"[{question.kind}] {question.text}\n  check:   {error}\n")
            wrong += 1
            continue
        faults = problems(question, result)
        show(question, result, faults)
        wrong += bool(faults)
    print(f"{len(QUESTIONS) - wrong} of {len(QUESTIONS)} right.\n")
    try:
        faults = team()
    except (RuntimeError, ValueError, KeyError, subprocess.SubprocessError) as error:
        print(f"  check:   {error}\n")
        faults = [str(error)]
    print(NEXT_STEPS)
    return 1 if wrong or faults else 0


if __name__ == "__main__":
    sys.exit(main())
