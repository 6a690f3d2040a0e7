"""Programs in the real Monty, with a host that answers from a dictionary."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from agentorchestra.core.errors import ProgramEndedError, ToolDefinitionError
from agentorchestra.core.messages import ToolSchema
from agentorchestra.tea.calling.tool import Tool, tool, tool_from_schema
from agentorchestra.tea.calling.toolset import AgentToolset
from agentorchestra.tea.programs.concurrency import awaited_calls
from agentorchestra.tea.programs.functions import Functions, json_argument, python_name
from agentorchestra.tea.programs.interpreter import MontyInterpreter, ProgramCall, ProgramLimits, ProgramRun, Reply

NOW = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)


class Host:
    """Answers with the calls themselves; keeps the groups in which they came."""

    names = frozenset({"f", "g"})
    ctx: Any = None

    def __init__(self) -> None:
        self.groups: list[list[Any]] = []
        self.text = ""

    async def calls(self, calls: Sequence[ProgramCall]) -> list[Reply]:
        self.groups.append([one.args[0] if one.args else None for one in calls])
        await asyncio.sleep(0)
        return [Reply(error="no bad") if one.args[:1] == ("bad",) else Reply(value=[*one.args]) for one in calls]

    def print(self, text: str) -> None:
        self.text += text
        if len(self.text) > 100_000:
            raise ProgramEndedError("too much")


@pytest.fixture
async def monty() -> AsyncIterator[MontyInterpreter]:
    made = MontyInterpreter(ProgramLimits(seconds=60, processes=2))
    yield made
    await made.aclose()


@pytest.fixture
async def hurried() -> AsyncIterator[MontyInterpreter]:
    """For programs without end."""
    made = MontyInterpreter(ProgramLimits(seconds=0.5, processes=2))
    yield made
    await made.aclose()


async def run(
    monty: MontyInterpreter, code: str, state: bytes | None = None, *, seed: int = 1
) -> tuple[ProgramRun, Host]:
    host = Host()
    return await monty.run(code, host, now=NOW, seed=seed, state=state), host


async def test_groups_are_as_the_program_awaits_them(monty: MontyInterpreter) -> None:
    code = """
import asyncio
é = "ü"; a = f(1); b = await f(2)
async def twice(n):
    first = await f(n)
    return await g(first[0] * 10)
jobs = []
for n in (3, 4):
    jobs.append(twice(n))
print(a, b, await asyncio.gather(*jobs, f(5)))
print(await asyncio.gather(*[f(n) for n in (6, 7, 8)]), f(9))
"""
    ran, host = await run(monty, code)
    assert ran.error is None
    assert host.groups == [[1], [2], [5, 3, 4], [30, 40], [6, 7, 8], [9]]  # as they were made
    assert host.text == "[1] [2] [[30], [40], [5]]\n[[6], [7], [8]] [9]\n"


async def test_an_error_in_a_group_reaches_the_program(monty: MontyInterpreter) -> None:
    code = (
        "import asyncio\ntry:\n    await asyncio.gather(f(1), f('bad'))\nexcept ToolError as e:\n    print(e)\nf('bad')"
    )
    ran, host = await run(monty, code)
    assert host.text == "no bad\n" and ran.error == "line 6: ToolError: no bad\n  line 6: f('bad')"


async def test_variables_and_functions_stay_and_what_they_await(monty: MontyInterpreter) -> None:
    first = (
        "import asyncio\nasync def both(a, b):\n    return await asyncio.gather(f(a), f(b))\nx = {'k': [1, 2]}\n1 / 0"
    )
    ran, _ = await run(monty, first)
    assert ran.error == "line 5: ZeroDivisionError: division by zero\n  line 5: 1 / 0"
    later, host = await run(monty, "\nprint(x, await both(1, 2))\nx['k'].append(3)\nx", ran.state)
    assert (later.value, host.groups) == ("{'k': [1, 2, 3]}", [[1, 2]])
    again, host = await run(
        monty, "def up():\n    return down()\ndef down():\n    return f('bad')\nprint(x)", later.state
    )
    assert host.text == "{'k': [1, 2, 3]}\n"
    failed, _ = await run(monty, "up()", again.state)
    assert failed.error is not None and failed.error.startswith("line 4 of program 3, in down: ToolError: no bad\n")


async def test_the_same_again(monty: MontyInterpreter) -> None:
    code = (
        "import random, datetime, time\nprint(random.random(), datetime.datetime.now(), time.time())\n"
        "print({'b', 'a', 'zz', 'q'}, hash('a'))\ntime.sleep(100)"
    )
    texts = {(await run(monty, code))[1].text for _ in range(3)}
    other = (await run(monty, code, seed=2))[1].text
    assert len(texts) == 1 and other not in texts and "2026-05-04 03:02:01" in other


@pytest.mark.parametrize(
    "code", ["while True: pass", "while True:\n    try:\n        f\n    except BaseException: pass"]
)
async def test_what_does_not_end_is_ended(hurried: MontyInterpreter, code: str) -> None:
    ran, host = await run(hurried, f"f(0)\n{code}")
    assert ran.error is not None and ran.state is None and host.groups == [[0]]
    assert (await run(hurried, "1 + 1"))[0].value == "2"


async def test_limits_of_time_are_told_apart_from_errors(hurried: MontyInterpreter) -> None:
    ran, _ = await run(hurried, "while True: pass")
    assert ran.chance and ran.error == "it computed for more than 0.5 s without a call"
    ran, _ = await run(hurried, "raise TimeoutError('mine')")
    assert not ran.chance and ran.error == "line 1: TimeoutError: mine\n  line 1: raise TimeoutError('mine')"


async def test_a_host_that_has_enough_ends_the_program_at_once(monty: MontyInterpreter) -> None:
    with pytest.raises(ProgramEndedError, match="too much"):
        await run(monty, "while True: print('x' * 1000)")
    assert (await run(monty, "1 + 1"))[0].value == "2"


async def test_what_the_host_raises_goes_up_and_cancellation_leaves_nothing(monty: MontyInterpreter) -> None:
    class Waits(Host):
        async def calls(self, calls: Sequence[ProgramCall]) -> list[Reply]:
            if calls[0].args:
                raise KeyError("of the host")
            started.set()
            await asyncio.Event().wait()
            return []

    started = asyncio.Event()
    with pytest.raises(KeyError, match="of the host"):
        await monty.run("try:\n    f(1)\nexcept BaseException:\n    pass", Waits(), now=NOW, seed=1)
    task = asyncio.create_task(monty.run("f()", Waits(), now=NOW, seed=1))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    computing = asyncio.create_task(run(monty, "while True: pass"))
    await asyncio.sleep(0.1)
    computing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await computing
    assert [(await run(monty, "1 + 1"))[0].value for _ in range(3)] == ["2"] * 3


def test_awaited_calls_by_their_bytes() -> None:
    def found(code: str) -> list[str]:
        text = code.encode()
        calls = (text[start:end].decode() for start, end in awaited_calls(code))
        return sorted(call for call in calls if not call.startswith("gather"))

    assert found("x = f(1)") == found("await 1 +") == found("gather") == []
    assert found("é = 'ü'\nx = 'é', await f('ß')") == ["f('ß')"]
    assert found("await gather(f(1), *[g(x) for x in y])\nf(2)") == ["f(1)", "g(x)"]
    assert found("jobs = [f(1)]\njobs.append(f(2))\nz = f(3)\nawait gather(*jobs)") == ["f(1)", "f(2)"]
    assert found("jobs = {k: f(k) for k in ks}\nfor k in jobs:\n    await jobs[k]\nf(9)") == ["f(k)"]


# -- functions ---------------------------------------------------------------------------------------------------------


@tool(name="find-all", effect="read")
def find_all(words: list[str], limit: int = 5, kind: str | None = None) -> list[str]:
    """Find "all".

    Args:
        words: what to find.
        limit: at most.
    """
    return words


def _functions(*tools: Tool[..., Any]) -> Functions:
    return Functions(AgentToolset(list(tools)))


def test_a_tool_as_a_function() -> None:
    functions = _functions(find_all)
    assert functions.names == ("find_all",) and functions.tool("find_all") == "find-all"
    text = functions.text("find_all")
    assert text.startswith("def find_all(words: list[str], limit: int = 5, kind: str | None = None):\n")
    assert "    words: what to find." in text
    compile(text, "prompt", "exec")
    assert functions.arguments(ProgramCall("find_all", (["a"], 3), {"kind": "x"})) == {
        "words": ["a"],
        "limit": 3,
        "kind": "x",
    }
    with pytest.raises(TypeError, match="takes at most 3 arguments, not 4"):
        functions.arguments(ProgramCall("find_all", (1, 2, 3, 4)))


def test_names_that_python_has_not() -> None:
    assert [python_name(one) for one in ("a-b", "class", "open", "ToolError", "ok")] == [
        "a_b", "class_", "open_", "ToolError_", "ok"
    ]  # fmt: skip
    schema = ToolSchema(name="find_all", description="", parameters={"type": "object"})
    twin = tool_from_schema(lambda **_: 1, schema, effect="read")
    with pytest.raises(ToolDefinitionError, match="'find_all' and 'find-all' are both called 'find_all' in a program"):
        _functions(find_all, twin)


def test_a_docstring_cannot_end_itself() -> None:
    schema = ToolSchema(name="odd", description='Say """x""" and \\d.', parameters={"type": "object", "properties": {}})
    text = _functions(tool_from_schema(lambda **_: 1, schema, effect="read")).text("odd")
    scope: dict[str, Any] = {}
    exec(text, scope)
    assert scope["odd"].__doc__.strip() == "Say '''x''' and \\d."


def test_arguments_that_are_json() -> None:
    assert json_argument({"a": (1, [2.5, None, True])}) == {"a": [1, [2.5, None, True]]}
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for wrong in ({1: 2}, b"x", {1}, float("inf"), deep, "x" * 1_000_001, object()):
        with pytest.raises(TypeError):
            json_argument(wrong)
