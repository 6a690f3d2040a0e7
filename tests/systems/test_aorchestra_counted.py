"""The bill of a run is what the models' servers counted themselves: orchestrator, sub-agents and reviewer."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.messages import ModelResponse, ToolCall
from agentorchestra.core.settings import Price
from agentorchestra.testing import LoopbackModelServer, ServerReply, call, http_error
from tests.chaos.support import python

ROLES = ("lead", "hand", "eye", "spare")
"""Who orchestrates, works, reads logs, and stands in for who works."""

WORDS = ("bell", "rope", "wheel", "crown")


class Counting:
    """A model server that counts what it answers: requests and tokens by class, by the model's name.

    Attributes:
        counted: what it answered, by model: requests, input, cached input and output tokens.
        refused: the requests that it refused with 503, by model.
        fails: of a model, which of its requests are refused, from 0 on.
    """

    def __init__(self, chance: random.Random, fails: Mapping[str, range]) -> None:
        self.counted: dict[str, Counter[str]] = {}
        self.refused: Counter[str] = Counter()
        self.fails = fails
        self._chance = chance
        self._met: Counter[str] = Counter()

    def answer(self, body: dict[str, Any]) -> ServerReply:
        """Answer a request with a usage of its own."""
        model = str(body["model"])
        number, self._met[model] = self._met[model], self._met[model] + 1
        if number in self.fails.get(model, ()):
            self.refused[model] += 1
            return http_error(503, "out of service")
        read, written = self._chance.randint(200, 9_000), self._chance.randint(5, 900)
        cached = self._chance.randint(0, read)
        one = {"requests": 1, "input": read, "cached": cached, "output": written}
        self.counted.setdefault(model, Counter()).update(one)
        usage = {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        return ServerReply(answer=decided(body), usage=usage)


def decided(body: dict[str, Any]) -> ModelResponse:
    """What the prompt asks for: two delegations and their sum, a line of a file, the points of a log."""
    said = [str(one["content"]) for one in body["messages"] if one["role"] == "tool"]
    offered = {one["function"]["name"] for one in body.get("tools", ())}
    told = "\n".join(_text(one) for one in body["messages"] if one["role"] == "user")
    if "delegate_task" in offered:
        (file,) = re.findall(r"- (\S+\.txt) \(", told)
        if not said:
            things = re.findall(r"the (\w+) and the (\w+)", told)[0]
            parts = [f"Look up the weight of the {one} in {file}." for one in things]
            return _calls(*(call("delegate_task", task_instruction=one, tools=["read_file"]) for one in parts))
        weights = [int(one) for text in said for one in re.findall(r'"result":\s*"(\d+)"', text)]
        return _calls(call("complete", answer=str(sum(weights))))
    if "done" in offered:
        ((thing, file),) = re.findall(r"weight of the (\w+) in (\S+\.txt)\.", told)
        if not said:
            return _calls(call("read_file", name=file))
        (weight,) = re.findall(rf"{thing}: (\d+) kg", said[-1])
        return _calls(call("done", answer=weight))
    return ModelResponse(text='{"points": ["The file was read."], "issues": []}')


def _calls(*calls: ToolCall) -> ModelResponse:
    return ModelResponse(tool_calls=calls)


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(str(part.get("text", "")) for part in content)


def lay_out(folder: Path, chance: random.Random, addresses: Iterator[str]) -> tuple[dict[str, Price], str, str]:
    """Put settings and a file into a folder; the prices by model, the task and its answer."""
    prices = {
        role: Price(
            input=chance.randint(1, 400) / 100,
            output=chance.randint(100, 2_000) / 100,
            cache_read=chance.choice([None, chance.randint(1, 50) / 100]),
        )
        for role in ROLES
    }
    lines = ['model = "lead"', 'system = "aorchestra"', "in_view_chars = 0"]
    for role, price in prices.items():
        lines += [
            f"[models.{role}]",
            f'model = "{role}-model"',
            f'base_url = "{next(addresses)}"',
            'api_key_env = ""',
            "max_attempts = 2",
            "backoff_s = 0",
            *(['fallbacks = ["spare"]'] if role == "hand" else []),
            f"[models.{role}.price]",
            *(f"{name} = {value}" for name, value in price.model_dump(exclude_none=True).items()),
        ]
    lines += ["[roles.reviewer]", 'model = "eye"', "[aorchestra]", 'models = ["hand"]', "review_from = 1"]
    (folder / "agentorchestra.toml").write_text("\n".join(lines))
    weights = {word: chance.randint(2, 900) for word in WORDS}
    (folder / "weights.txt").write_text("".join(f"{word}: {weight} kg\n" for word, weight in weights.items()))
    one, other = chance.sample(WORDS, 2)
    return prices, f"What do the {one} and the {other} weigh together?", str(weights[one] + weights[other])


ONCE = {f"{role}-model": range(1) for role in ROLES}
ALWAYS = {"hand-model": range(1_000)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("fails", "refused", "worked"),
    [
        pytest.param({}, 0, "hand", id="nothing fails"),
        pytest.param(ONCE, 3, "hand", id="each model fails once"),
        pytest.param(ALWAYS, None, "spare", id="one is out of service", marks=pytest.mark.long),
    ],
)
async def test_the_bill_is_what_the_servers_counted(
    tmp_path: Path, fails: Mapping[str, range], refused: int | None, worked: str
) -> None:
    chance = random.Random(2602)
    counting = Counting(chance, fails)
    async with LoopbackModelServer(counting.answer) as one, LoopbackModelServer(counting.answer) as other:
        prices, task, answer = lay_out(tmp_path, chance, iter([one.base_url, other.base_url] * 2))
        found = await command(tmp_path, "run", task, "--file", "weights.txt")
        asked = one.count + other.count
    counted = {name.removesuffix("-model"): of for name, of in counting.counted.items()}
    assert (found["status"], found["answer"]) == ("completed", answer)
    assert set(counted) == {"lead", "eye", worked}
    assert sum(of["requests"] for of in counted.values()) == asked - counting.refused.total()
    assert counting.refused.total() == refused if refused is not None else counting.refused["hand-model"] > 1

    dollars = {name: cost(prices[name], of) for name, of in counted.items()}
    total: Counter[str] = sum(counted.values(), Counter())
    bill = {row["name"]: row for row in (await command(tmp_path, "cost", found["run_id"]))["rows"]}
    assert {name.removesuffix("-model") for name in bill} == set(counted)
    for name, of in counted.items():
        (row,) = [row for model, row in bill.items() if model.removesuffix("-model") == name]
        assert classes(row) == of, name
        assert row["cost_usd"] == pytest.approx(dollars[name], abs=1e-9)
    assert classes(found["usage"]) == total
    assert found["usage"]["cost_usd"] == pytest.approx(sum(dollars.values()), abs=1e-9)


def classes(usage: Mapping[str, Any]) -> Counter[str]:
    """What we count, under the names of the servers."""
    names = {"requests": "requests", "input": "input_tokens", "cached": "cache_read_tokens", "output": "output_tokens"}
    return Counter({name: usage.get(ours, 0) for name, ours in names.items()})


def cost(price: Price, of: Mapping[str, int]) -> float:
    """US dollars of what a server counted."""
    cached = price.input if price.cache_read is None else price.cache_read
    plain = of["input"] - of["cached"]
    return (plain * price.input + of["cached"] * cached + of["output"] * price.output) / 1e6


async def command(folder: Path, *words: str) -> dict[str, Any]:
    """A command in a process of its own; what it printed."""
    line: list[str | Path] = ["-m", "agentorchestra", *words, "--workspace", folder / "ws", "--json"]
    printed: dict[str, Any] = json.loads(await asyncio.to_thread(python, line, cwd=folder))
    return printed
