"""The case study G.2 of the paper (000): experts debate whether a stock is a good investment.

    python examples/team/debate.py [--model NAME] [FOLDER]

A finance expert and a mathematics expert get the topic and a table of prices and earnings, which were made up for this
example. They read it, compute with `python`, answer each other's arguments by their marks and accept what convinces
them; the manager sums up and concludes. What is an agreement is checked by code against what they said.

No key and no network: what a language model would decide is decided by `Panel` below, which says what follows from what
it is shown. `--model openai:gpt-5`, or any other, lets a language model do it. FOLDER keeps the workspace. The exit
status is 1 if the debate came to no conclusion.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from agentorchestra import RunResult, Workspace
from agentorchestra.core.errors import AgentOrchestraError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.spec import RunStatus
from agentorchestra.models.render import render_message
from agentorchestra.testing import ScriptedModel, call, decide

TOPIC = "Let's debate about the stock of AAPL. Is it a good investment?"
EXPERTS = ["finance_expert", "mathematics_expert"]
TABLE = """quarter,price,earnings_per_share
1,150.0,1.20
2,171.0,1.25
3,160.0,1.40
4,192.0,2.00
5,185.0,1.35
6,214.0,1.45
7,196.0,1.60
8,228.0,2.10
"""

PRICE_OF_EARNINGS = "print(round({price} / ({earnings}), 1))"
SPREAD = """
prices = [{prices}]
returns = [after / before - 1 for before, after in zip(prices, prices[1:])]
mean = sum(returns) / len(returns)
spread = (sum((one - mean) ** 2 for one in returns) / (len(returns) - 1)) ** 0.5
print(round(100 * mean, 1), round(100 * spread, 1), round(100 * spread / len(returns) ** 0.5, 1))
"""


class Panel(ScriptedModel):
    """Decides for the manager and both experts, from what each of them is shown."""

    def __init__(self) -> None:
        super().__init__(self._reply, name="panel")

    def _reply(self, request: ModelRequest) -> ModelResponse:
        asked = request.messages[0].text
        text = "\n".join(render_message(one) for one in request.messages[1:])
        said = dict(re.findall(r"^\[([AB]\d)\](?: \(answers .*?\))? (.*)$", text, re.MULTILINE))
        if "in a debate as" in text:
            return self._argued(request, text, said)
        if "You lead debates" in asked:
            return _json({"issues": ["Is the price fair?", "Is the risk paid for?"]})
        if "After each round" in asked:
            return _json({"summary": f"{len(said)} arguments so far.", "agreed": "Accepts" in text, "new": True})
        return _json(self._concluded(said, text))

    # -- experts -----------------------------------------------------------------------------------------------------

    def _argued(self, request: ModelRequest, text: str, said: dict[str, str]) -> ModelResponse:
        names = {one.id: one.name for message in request.messages for one in message.tool_calls}
        results = {names.get(one.tool_call_id or ""): one.text for one in request.messages if one.role == "tool"}
        finance = "debate as finance_expert" in text
        if "Round 2" in text:
            return self._convinced(said, finance=finance)
        if "read_file" not in results:
            return decide(calls=[call("read_file", name="aapl.csv")])
        rows = re.findall(r"^\d+,\d+,(\d+\.\d+),(\d+\.\d+)$", results["read_file"], re.MULTILINE)
        if "python" not in results:
            code = SPREAD.format(prices=", ".join(price for price, _ in rows))
            if finance:
                earnings = " + ".join(earned for _, earned in rows[-4:])
                code = PRICE_OF_EARNINGS.format(price=rows[-1][0], earnings=earnings)
            return decide(calls=[call("python", code=code)])
        numbers = re.findall(r"\d+\.\d+", results["python"])
        source = {"source": "aapl.csv", "place": f"B{len(rows) + 1}", "quote": rows[-1][0]}
        words = self._of_finance(said, *numbers) if finance else self._of_mathematics(said, *numbers)
        return decide(calls=[call("done", answer="", output=words, sources=[source])])

    def _of_finance(self, said: dict[str, str], multiple: str) -> dict[str, Any]:
        argument: dict[str, Any] = {"text": f"It costs {multiple} times what it earned in the last four quarters."}
        if "B1" in said:
            argument = {"text": "Who holds it for years is paid for these swings by the earnings.", "answers": ["B1"]}
        return {"position": "A good investment for those who hold it.", "arguments": [argument]}

    def _of_mathematics(self, said: dict[str, str], mean: str, spread: str, error: str) -> dict[str, Any]:
        argument: dict[str, Any] = {
            "text": f"Its quarterly return was {mean} % with a standard deviation of {spread} %."
        }
        if "A2" in said:
            words = f"Seven returns leave the mean uncertain by {error} points: what will be paid is not known."
            argument = {"text": words, "answers": ["A2"]}
        return {"position": "Nobody can say from these figures.", "arguments": [argument]}

    def _convinced(self, said: dict[str, str], *, finance: bool) -> ModelResponse:
        """Each accepts what the other one computed, where it was shown it."""
        mark = "B2" if finance else "A1"
        if mark not in said:
            return decide(calls=[call("done", answer="", output={"position": "As before.", "arguments": []})])
        position = "Good as a part of a spread portfolio." if finance else "Fairly priced; the risk stays."
        output: dict[str, Any] = {
            "position": position,
            "change": f"[{mark}] is computed.",
            "arguments": [],
            "accepts": [mark],
        }
        return decide(calls=[call("done", answer="", output=output)])

    # -- manager -----------------------------------------------------------------------------------------------------

    def _concluded(self, said: dict[str, str], text: str) -> dict[str, Any]:
        accepted = re.findall(r"Accepts \[(\w\d)\]", text)
        agreements = [
            {"statement": said[mark], "experts": EXPERTS, "arguments": [mark]} for mark in accepted if mark in said
        ]
        sides = [
            {"statement": said[mark], "experts": [expert], "arguments": [mark]}
            for expert, mark in zip(EXPERTS, ("A2", "B1"), strict=True)
            if mark in said
        ]
        return {
            "conclusion": "Its price is in line with what it earns [A1], what it will pay is not known [B2]: a part of "
            "a spread portfolio, no more.",
            "agreements": agreements,
            "disagreements": [{"about": "whether the swings are paid for", "sides": sides, "why": "other horizons"}],
            "open_questions": ["How will the earnings grow?"],
        }


def _json(reply: dict[str, Any]) -> ModelResponse:
    return ModelResponse(text=json.dumps(reply))


async def debated(folder: Path, model: str = "") -> RunResult:
    """The debate.

    Args:
        folder: where its table and its workspace are made.
        model: a language model; "" for `Panel`.
    """
    table = folder / "aapl.csv"
    table.write_text(TABLE, encoding="utf-8")
    async with Workspace(folder / "workspace") as ws:
        options = {"experts": EXPERTS, "rounds": 2}
        return await ws.run(TOPIC, system="debate", files=[table], model=model or Panel(), options=options)


def main() -> int:
    """Run it from the command line; 0 when there is a conclusion."""
    reading = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    reading.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="keeps the table and the workspace")
    reading.add_argument("--model", default="", metavar="NAME", help="a language model, such as openai:gpt-5")
    given = reading.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            result = asyncio.run(debated(folder, given.model))
        except AgentOrchestraError as exc:
            print(f"error: {exc}", file=sys.stderr)
            return 1
    print(result.report or result.error)
    print(f"\nrun: {result.run_id} ({result.status}, ${result.cost_usd or 0:.4f})")
    return 0 if result.status is RunStatus.COMPLETED else 1


if __name__ == "__main__":
    sys.exit(main())
