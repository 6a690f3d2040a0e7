"""Code as action through the whole workspace. The models answer from what was printed to them, from nothing else."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import SettingsError
from agentorchestra.core.events import Event
from agentorchestra.core.messages import ModelRequest, ModelResponse, ToolCall
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import SandboxSettings, Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.tea.calling.tool import tool
from agentorchestra.tea.programs.interpreter import MontyInterpreter, ProgramLimits
from agentorchestra.testing import ScriptedModel, call, decide, say
from agentorchestra.workspace import Workspace
from tests.support.patience import LONGEST_S
from tests.support.programs import effects, printed, program
from tests.systems.support import seen


def problem(request: ModelRequest) -> str:
    """What the tail says was wrong with the decision."""
    found = re.search(r"<problem>\n(.*?)\n</problem>", seen(request), re.DOTALL)
    return found[1] if found else ""


def then_done(check: Callable[[str], object], answer: str = "ok") -> Callable[[ModelRequest], ModelResponse]:
    """Looks at what was printed, and finishes."""

    def reply(request: ModelRequest) -> ModelResponse:
        check(printed(request))
        return program(f"done(answer={answer!r})")

    return reply


class Calls:
    """Tools that count."""

    def __init__(self) -> None:
        self.made: list[Any] = []
        self.tools = [self.add, self.send, self.meet]
        self._met = asyncio.Event()

    @tool(effect="read")
    async def add(self, a: int, b: int = 1) -> int:
        """Add two numbers.

        Args:
            a: the first.
            b: the second.
        """
        if a == 99:
            raise ValueError("there is no 99")
        self.made.append((a, b))
        return a + b

    @tool(effect="send")
    async def send(self, to: str) -> str:
        """Send a letter."""
        self.made.append(to)
        return f"sent to {to}"

    @tool(effect="read")
    async def meet(self, who: str) -> str:
        """Wait until two have come."""
        self.made.append(who)
        if len(self.made) == 2:
            self._met.set()
        await self._met.wait()
        return who.upper()


@pytest.fixture
def calls() -> Calls:
    return Calls()


async def ask(folder: Path, model: ScriptedModel, calls: Calls, task: str = "Do it.", **options: Any) -> Any:
    """A run, and its replay."""
    settings = Settings(sandbox=SandboxSettings(backend="none"))
    async with Workspace(folder / "ws", models={model.name: model}, tools=calls.tools, settings=settings) as ws:
        result = await ws.run(task, model=model, system="react", action="code", **options)
        if result.status is RunStatus.COMPLETED:
            made = list(calls.made)
            report = await ws.replay(result.run_id, model=model)
            assert report.answer == result.answer_text and calls.made == made
        return result


async def log(folder: Path, run_id: str) -> list[Event]:
    async with Workspace(folder / "ws") as ws:
        return list(await ws.log.events(run_id))


# -- the ordinary course -----------------------------------------------------------------------------------------------


async def test_what_is_printed_reaches_the_next_prompt_and_variables_stay(tmp_path: Path, calls: Calls) -> None:
    def second(request: ModelRequest) -> ModelResponse:
        assert not request.tools
        assert "def add(a: int, b: int = 1):" in seen(request) and "Add two numbers." in seen(request)
        assert "<output>" not in seen(request) and "tool_context_rules" not in seen(request)
        assert printed(request) == "[1, 2, 3]\n6"
        assert "<memory>" not in seen(request) and "next_goal" not in request.messages[0].text
        return program("def twice(n):\n    return add(n, b=n)\nprint(sum(sums), twice(4))")

    def third(request: ModelRequest) -> ModelResponse:
        assert printed(request) == "6 8"
        return program(f"done(answer=str(twice({printed(request).split()[0]})))\nadd(1000)\nprint('never')")

    first = program("sums = [add(a=i) for i in range(3)]\nprint(sums)\nsum(sums)", memory="sums are known")
    result = await ask(tmp_path, ScriptedModel([first, second, third]), calls)
    assert (result.status, result.answer, result.steps) == (RunStatus.COMPLETED, "12", 3)
    assert calls.made == [(0, 1), (1, 1), (2, 1), (4, 4), (6, 6)]  # nothing after done
    made = effects(await log(tmp_path, result.run_id))
    assert [key for key, name in made.items() if name == "add"] == [
        *(f"/1.react/3.program#{n}" for n in (1, 2, 3)), "/1.react/6.program#1", "/1.react/9.program#1"
    ]  # fmt: skip
    assert made["/1.react/9.program#2"] == "done" and made["/1.react#9"] == "program"


async def test_calls_that_are_gathered_run_at_the_same_time_under_stable_keys(tmp_path: Path, calls: Calls) -> None:
    code = "import asyncio\njobs = [meet(who) for who in ('ann', 'bob')]\nprint(await asyncio.gather(*jobs), add(1))"
    model = ScriptedModel([program(code), then_done(lambda text: _equal(text, "['ANN', 'BOB'] 2"))])
    result = await ask(tmp_path, model, calls)
    assert result.status is RunStatus.COMPLETED and calls.made == ["ann", "bob", (1, 1)]
    named = {e.span: e.body["effect"] for e in await log(tmp_path, result.run_id) if e.span and e.body.get("effect")}
    assert [named[f"/1.react/3.program#{n}"]["arguments"] for n in (1, 2)] == [{"who": "ann"}, {"who": "bob"}]


def _equal(text: str, expected: str) -> None:
    assert text == expected


# -- mistakes ----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("x = {}\nx['a']", "line 3: KeyError: a"),
        ("add(a=99)", "line 2: ToolError: tool add failed: ValueError: there is no 99"),
        ("add(a='x')", "line 2: ToolError: add: a: Input should be a valid integer"),
        ("add()", "line 2: ToolError: add: a: Field required"),
        ("add(1, 2, 3)", "line 2: TypeError: add() takes at most 2 arguments, not 3: def add(a: int, b: int = 1)"),
        ("add(1, a=2)", "line 2: TypeError: add() got two values for the argument 'a'"),
        ("add({1, 2})", "line 2: TypeError: a set cannot be an argument"),
        ("add(float('nan'))", "line 2: TypeError: an argument cannot be passed on"),
        ("ad(1)", "line 2: NameError: name 'ad' is not defined; the functions: add, "),
        ("print(ad)", "line 2: NameError: name 'ad' is not defined"),
        ("done(answer='')", "line 2: ToolError: done: answer: it is empty"),
        ("done(reply='x')", "line 2: ToolError: done: "),
        ("import asyncio\nawait asyncio.gather(done(answer='a'), add(1))", "done: call it by itself"),
        ("def f(n):\n    return f(n + 1)\nf(0)", "RecursionError: maximum recursion depth exceeded"),
        ("x = 'a' * 100_000_000", "MemoryError"),
        ("while True:\n    try:\n        add(1)\n    except Exception:\n        pass", "more than 200 calls"),
        ("while True:\n    print('x' * 10_000)", "it printed more than 2,000,000 characters"),
        ("open('/etc/passwd')", "the program was not started: Monty does not have files (open) (line 2)"),
        ("import numpy", "the program was not started: Monty does not have the module numpy (line 2)"),
        ("print(1 +)", "line 2: SyntaxError"),
    ],
)  # fmt: skip
async def test_an_error_of_a_program_is_seen_and_what_was_printed_before(
    tmp_path: Path, calls: Calls, code: str, said: str
) -> None:
    def check(text: str) -> None:
        assert said in text
        if "not started" not in said and "SyntaxError" not in said:
            assert "What it printed before:\nbefore" in text
        assert len(text) < 110_000

    model = ScriptedModel([program(f"print('before')\n{code}"), then_done(check)])
    result = await ask(tmp_path, model, calls)
    assert (result.status, result.steps) == (RunStatus.COMPLETED, 2)


@pytest.mark.long
async def test_a_tools_error_can_be_caught(tmp_path: Path, calls: Calls) -> None:
    code = "for n in (1, 99, 2):\n    try:\n        print(add(n))\n    except ToolError as e:\n        print('no:', e)"
    expected = "2\nno: tool add failed: ValueError: there is no 99\n3"
    await ask(tmp_path, ScriptedModel([program(code), then_done(lambda text: _equal(text, expected))]), calls)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (say('{"memory": "m"}'), "your reply held no program; write exactly one"),
        (say("```python\nprint(1)\n```\nand\n```python\nprint(2)\n```"), "your reply held 2 programs"),
        (ModelResponse(text="```python\nprint(", finish_reason="length"), "tokens within the program; be brief"),
        (
            ModelResponse(text="", tool_calls=(ToolCall(id="1", name="add", arguments={"a": 1}),)),
            "your reply called add as a tool; call functions from a program",
        ),
    ],
)
async def test_a_reply_that_is_no_program(tmp_path: Path, calls: Calls, reply: ModelResponse, said: str) -> None:
    def corrected(request: ModelRequest) -> ModelResponse:
        assert said in problem(request)
        return program("done(answer='ok')")

    result = await ask(tmp_path, ScriptedModel([reply, corrected]), calls)
    assert (result.answer, result.steps, calls.made) == ("ok", 2, [])


async def test_plain_words_said_twice_are_the_answer(tmp_path: Path, calls: Calls) -> None:
    result = await ask(tmp_path, ScriptedModel([say("It is 5."), say("It is five.")]), calls, finish="done")
    assert (result.status, result.answer) == (RunStatus.COMPLETED, "It is five.")
    result = await ask(tmp_path, ScriptedModel([say("It is 5.")]), calls)
    assert (result.status, result.answer) == (RunStatus.COMPLETED, "It is 5.")


async def test_the_last_step_may_call_nothing_but_done(tmp_path: Path, calls: Calls) -> None:
    model = ScriptedModel([program("print(add(1))"), program("print(add(2))")])
    result = await ask(tmp_path, model, calls, max_steps=2)
    assert result.status is RunStatus.PARTIAL and calls.made == [(1, 1)]
    assert "NameError: name 'add' is not defined; the functions: done" in result.report
    model = ScriptedModel([program("x = add(1)"), program("done(answer=f'it is {x}')")])
    assert (await ask(tmp_path, model, calls, max_steps=2)).answer == "it is 2"
    model = ScriptedModel([program("print('it may be 7')")])
    result = await ask(tmp_path, model, calls, max_steps=1)
    assert (result.status, result.answer) == (RunStatus.PARTIAL, "it may be 7")


class Sum(BaseModel):
    """A structured answer."""

    total: int


async def test_a_structured_answer(tmp_path: Path, calls: Calls) -> None:
    wrong = program("print('before')\ndone(answer='5', output={'total': 'five'})")

    def right(request: ModelRequest) -> ModelResponse:
        assert "ToolError: done: `output` does not fit" in printed(request)
        return program("done(answer='5', output={'total': 5})")

    assert (await ask(tmp_path, ScriptedModel([wrong, right]), calls, output_type=Sum)).output == Sum(total=5)


def _contains(text: str, part: str) -> None:
    assert part in text


@pytest.mark.parametrize("after", ["except BaseException: print('go on')\nadd(1)", "finally:\n    done(answer='b')"])
async def test_nothing_is_done_after_done(tmp_path: Path, calls: Calls, after: str) -> None:
    result = await ask(tmp_path, ScriptedModel([program(f"try:\n    done(answer='a')\n{after}")]), calls)
    assert (result.answer, calls.made) == ("a", [])


async def test_an_unknown_action_is_refused(tmp_path: Path, calls: Calls) -> None:
    async with Workspace(tmp_path / "ws") as ws:
        with pytest.raises(SettingsError, match="action is 'words'; it is 'tools' or 'code'"):
            await ws.run("x", action="words")  # type: ignore[arg-type]


# -- waiting, budget, nesting ------------------------------------------------------------------------------------------

LETTERS = """
text = add(1)
for to in ('ann@a.example', 'eve@e.example'):
    try:
        print(send(to))
    except ToolError as error:
        print('no:', error)
print(add(text))
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("allowed", [True, False])
async def test_a_program_waits_for_a_human_and_goes_on(tmp_path: Path, calls: Calls, allowed: bool) -> None:
    """What it called before is not called again; the second letter needs leave, in another process' workspace."""
    said = "sent to eve@e.example" if allowed else "no: denied by the user"
    check = then_done(lambda text: _equal(text, f"sent to ann@a.example\n{said}\n3"))
    model = ScriptedModel([program("print(add(7))"), lambda request: program(LETTERS), check])
    options: dict[str, Any] = {"models": {model.name: model}, "tools": calls.tools}
    async with Workspace(tmp_path / "ws", **options) as ws:
        waiting = await ws.run("Write to ann@a.example.", model=model.name, system="react", action="code")
        assert waiting.status is RunStatus.WAITING and len(model.requests) == 2
        (question,) = waiting.questions
        assert question.kind == "approval" and question.details["arguments"] == {"to": "eve@e.example"}
        assert question.key == "/1.react/6.program/3.approval#1"
        model.finish = lambda: None  # type: ignore[method-assign]
    del model.finish
    assert calls.made == [(7, 1), (1, 1), "ann@a.example"]
    async with Workspace(tmp_path / "ws", **options) as ws:
        await (ws.approve if allowed else ws.deny)(waiting.run_id)
        result = await ws.resume(waiting.run_id)
        assert result.status is RunStatus.COMPLETED, result.error
        await ws.replay(waiting.run_id)
    letters = ["eve@e.example"] if allowed else []
    assert calls.made == [(7, 1), (1, 1), "ann@a.example", *letters, (2, 1)]


async def test_a_budget_that_ends_inside_a_program(tmp_path: Path) -> None:
    """The run ends there; with a larger budget the program goes on where it was, and nothing is paid twice."""
    searched: list[str] = []

    @tool(effect=("read", "network"), max_cost_usd=0.01)
    async def paid_search(query: str) -> str:
        """Search, for a cent."""
        searched.append(query)
        return f"found {query}"

    code = (
        "for i in range(9):\n    try:\n        print(paid_search(f'q{i}'))\n    except Exception:\n        print('no')"
    )
    expected = "\n".join(f"found q{i}" for i in range(9))
    model = ScriptedModel([program(code), then_done(lambda text: _equal(text, expected))])
    async with Workspace(tmp_path / "ws", tools=[paid_search], models={model.name: model}) as ws:
        ended = await ws.run("Go.", model=model.name, system="react", action="code", budget=Budget(cost_usd=0.055))
        assert ended.status is RunStatus.BUDGET_EXHAUSTED and len(searched) == 5
        result = await ws.resume(ended.run_id, budget=Budget(cost_usd=1))
        assert result.answer == "ok", result.error
        assert searched == [f"q{i}" for i in range(9)] and result.cost_usd == pytest.approx(0.09)
        await ws.replay(result.run_id)


@pytest.mark.long
async def test_many_programs_that_wait_for_programs_need_one_interpreter(tmp_path: Path) -> None:
    """A program that waits for an agent holds no process: three levels, four at a time, with a single one."""

    @tool(effect="composite")
    async def delegate(ctx: RunContext[Any], depth: int) -> str:
        """Let a sub-agent do it."""
        from agentorchestra.core.spec import AgentSpec

        result = await ctx.call_agent(AgentSpec(name="sub", instruction=f"depth {depth}", tools=("delegate",)))
        return result.answer

    def model(request: ModelRequest) -> ModelResponse:
        found = re.search(r"<task>\ndepth (\d)", request.messages[1].text)
        depth = int(found[1]) if found else 0
        if depth == 2:
            return program("done(answer='leaf')")
        return program(
            f"import asyncio\nfound = await asyncio.gather(*[delegate(depth={depth + 1}) for _ in range(2)])\n"
            "done(answer=' '.join(found))"
        )

    scripted = ScriptedModel(model)
    async with Workspace(tmp_path / "ws", tools=[delegate]) as ws:
        ws.assembly().parts.programs = (MontyInterpreter(ProgramLimits(processes=1)),)
        runs = [ws.run("Go.", model=scripted, system="react", action="code") for _ in range(4)]
        async with asyncio.timeout(LONGEST_S):
            found = await asyncio.gather(*runs)
    assert [one.answer for one in found] == [" ".join(["leaf"] * 4)] * 4


# -- files: the same question, with tools and with code ----------------------------------------------------------------


def _notes(folder: Path, count: int) -> list[Path]:
    found = []
    for number in range(count):
        path = folder / f"note{number:02}.txt"
        path.write_text(f"Heading of chapter{number}x\nThe amount is {number * 3} euros.\n")
        found.append(path)
    return found


def _names(request: ModelRequest) -> list[str]:
    return re.findall(r"^- (note\d+\.txt) ", seen(request), re.MULTILINE)


@pytest.mark.long
async def test_a_loop_over_files_needs_fewer_requests_and_gives_the_same_answer(tmp_path: Path) -> None:
    files = _notes(tmp_path, 40)

    def with_tools(request: ModelRequest) -> ModelResponse:
        results = [message.text for message in request.messages if message.role == "tool"]
        amounts = [int(found[1]) for text in results if (found := re.search(r"The amount is (\d+) euros", text))]
        names = _names(request)
        if len(amounts) == len(names):
            return decide(calls=[call("done", answer=str(sum(amounts)))])
        return decide(calls=[call("read_file", name=name) for name in names[len(results) : len(results) + 16]])

    def with_code(request: ModelRequest) -> ModelResponse:
        if request.messages[-2].text.startswith("Result of program"):
            return program(f"done(answer={printed(request)!r})")
        return program(
            f"import re\ntotal = 0\nfor name in {_names(request)!r}:\n    for piece in read_file(name=name):\n"
            "        found = re.search(r'The amount is (\\d+) euros', piece['text'])\n"
            "        total += int(found.group(1)) if found else 0\nprint(total)"
        )

    tools, code = ScriptedModel(with_tools), ScriptedModel(with_code)
    async with Workspace(tmp_path / "ws") as ws:
        one = await ws.run("The total?", files=files, model=tools, system="react")
        other = await ws.run("The total?", files=files, model=code, system="react", action="code")
        made = list((effects(list(await ws.log.events(other.run_id)))).values())
    assert one.answer_text == other.answer_text == str(sum(number * 3 for number in range(40)))
    assert made.count("read_file") == 40
    assert (len(tools.requests), len(code.requests)) == (4, 2)
    assert other.usage.input_tokens < one.usage.input_tokens


@pytest.mark.long
async def test_fifty_searches_in_one_program(tmp_path: Path) -> None:
    files = _notes(tmp_path, 50)
    code = (
        "places = []\nfor number in range(50):\n    hits = search_files(query=f'Heading chapter{number}x', limit=1)\n"
        "    places.append((hits[0]['source'], hits[0]['place']))\nprint(len(set(places)), places[7])"
    )
    check = then_done(lambda text: _contains(text, "50 ('note07.txt', 'line"))
    model = ScriptedModel([program(code), check])
    async with Workspace(tmp_path / "ws") as ws:
        result = await ws.run("Where?", files=files, model=model, system="react", action="code")
        made = list(effects(list(await ws.log.events(result.run_id))).values())
    assert result.status is RunStatus.COMPLETED and made.count("search_files") == 50
