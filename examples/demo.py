"""Asks questions about the documents in this folder through the command line, as a user would, and checks each quote.

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
    arguments = ["run", question.text, "--model", "offline", "--system", "react", "--json"]
    if question.file is not None:
        arguments += ["--file", str(HERE / question.file)]
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
    print(f"{len(QUESTIONS) - wrong} of {len(QUESTIONS)} right.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
