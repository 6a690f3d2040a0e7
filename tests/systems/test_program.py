"""Programs as systems: real processes, the official client, the run's own address, and nothing left of them."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from agentorchestra.core.budget import Budget
from agentorchestra.core.content import TextBlock, Trust
from agentorchestra.core.effects import EffectKind, Mode
from agentorchestra.core.errors import (
    BudgetError,
    MissingKeyError,
    ModelUnavailableError,
    SettingsError,
    SystemDefinitionError,
)
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.settings import AOrchestraSettings, Price, ProgramSettings, Settings
from agentorchestra.core.spec import AgentResult, AgentSpec, RunResult, RunStatus
from agentorchestra.log.ledger import Ledger
from agentorchestra.testing import LoopbackModelServer, ScriptedModel, call, decide, say
from agentorchestra.workspace import Workspace, load_settings
from tests.chaos.support import python, until
from tests.support.processes import Seen
from tests.systems import program_agent
from tests.systems.support import seen, workspace

ASK = """
import json, os, sys, urllib.error, urllib.request

model = os.environ["OPENAI_MODEL"]

class Refused(Exception):
    pass

def ask(text, **more):
    body = {"model": model, "messages": [{"role": "user", "content": text}], **more}
    head = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    address = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    try:
        with urllib.request.urlopen(urllib.request.Request(address, json.dumps(body).encode(), head)) as reply:
            return json.load(reply)["choices"][0]["message"]["content"]
    except urllib.error.HTTPError as exc:
        raise Refused(exc.code, json.load(exc)["error"]["message"])

"""
CLIENT = """
import json, os, sys
from openai import APIStatusError, OpenAI

model = os.environ["OPENAI_MODEL"]
client = OpenAI()

def ask(text, **more):
    return client.chat.completions.create(model=model, messages=[{"role": "user", "content": text}], **more)

"""


def one(code: str, *arguments: str, **more: Any) -> Settings:
    """Settings with the program `prog`."""
    command = (sys.executable, "-c", code, *arguments)
    return Settings(programs={"prog": ProgramSettings(command=command, **more)}, system="prog")


async def run(
    folder: Path, code: str, model: ScriptedModel, *, program: Mapping[str, Any] | None = None, **options: Any
) -> RunResult:
    """Run the program once."""
    async with workspace(folder, model, settings=one(code, **(program or {}))) as ws:
        return await ws.run("What is 2 + 2?", model=model.name, **options)


# -- task and answer ---------------------------------------------------------------------------------------------------


async def test_it_gets_the_task_and_prints_the_answer(tmp_path: Path) -> None:
    code = ASK + (
        "task = sys.stdin.read()\n"
        "assert task == os.environ['AGENTORCHESTRA_TASK'] == sys.argv[1].removeprefix('<').removesuffix('>')\n"
        "assert sys.argv[2:] == [model, os.environ['OPENAI_BASE_URL'], os.getcwd()]\n"
        "reply = ask(task)\n"
        "open('made.txt', 'w').write(reply)\n"
        "print('It is', reply)\n"
    )
    model = ScriptedModel([say("4")])
    settings = one(code, "<{task}>", "{model}", "{base_url}", "{folder}")
    async with workspace(tmp_path, model, settings=settings) as ws:
        result = await ws.run("What is 2 + 2? {model}", model="scripted")
        assert (result.status, result.answer, result.steps) == (RunStatus.COMPLETED, "It is 4", 1)
        assert result.cost_usd == 0 and result.usage.requests == 1
        assert (ws.files.folder(result.run_id) / "made.txt").read_text() == "4"
    assert seen(model.requests[0]) == "What is 2 + 2? {model}"
    assert all(b.trust is Trust.UNTRUSTED for m in model.requests[0].messages for b in m.content)


async def test_each_request_is_an_effect_of_its_agent(tmp_path: Path) -> None:
    code = ASK + "print(ask('one'), ask('two'))\n"
    model = ScriptedModel([say("1"), say("2")])
    async with workspace(tmp_path, model, settings=one(code)) as ws:
        result = await ws.run("Count.", model="scripted")
        found = Ledger.of(await ws.log.events(result.run_id)).records
        kinds = {str(key): record.kind for key, record in found.items()}
        requests = [one for one in found.values() if one.kind is EffectKind.REQUEST_MODEL]
        text = json.dumps([event.body for event in await ws.log.events(result.run_id)])
        report = await ws.replay(result.run_id)
    assert kinds == {"/#1": "InvokeAgent", "/1.prog#1": "RequestModel", "/1.prog#2": "RequestModel"}
    assert [one.effect["purpose"] for one in requests] == ["decision"] * 2
    assert all({"kind": "agent", "ref": "prog"} in one.effect["provenance"] for one in requests)  # untrusted
    assert (report.keys, report.answer) == (3, "1 2")
    assert "127.0.0.1" not in text  # neither address nor key is logged
    assert len(model.requests) == 2


async def test_only_named_variables_reach_it_and_their_values_stay_out_of_the_log(tmp_path: Path) -> None:
    code = ASK + (
        "ask('my key is ' + os.environ['MINE'])\n"
        "print(os.environ['MINE'], os.environ['OPENAI_API_KEY'], 'OTHER' in os.environ)\n"
    )
    environ = {"PATH": "/usr/bin:/bin", "MINE": "a-very-secret-value", "OTHER": "x"}
    model = ScriptedModel([say("ok")])
    async with workspace(tmp_path, model, settings=one(code, env=("MINE",)), environ=environ) as ws:
        result = await ws.run("Print.", model="scripted")
        text = json.dumps([event.body for event in await ws.log.events(result.run_id)])
    assert result.answer == "secret:MINE secret:key of prog False"
    assert "a-very-secret-value" not in text
    assert seen(model.requests[0]) == "my key is secret:MINE"


async def test_a_long_output_is_cut_and_kept_whole(tmp_path: Path) -> None:
    async with workspace(tmp_path, ScriptedModel([]), settings=one("print('x' * 50_000, end='!')")) as ws:
        result = await ws.run("Print.", model="scripted")
        (artifact,) = result.artifacts
        assert await ws.files.artifact(result.run_id, artifact.name) == b"x" * 50_000 + b"!"
    assert len(result.answer) < 21_000 and "characters left out here" in result.answer and result.answer.endswith("!")


@pytest.mark.long
async def test_what_it_prints_beyond_all_measure_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentorchestra.systems.program.MOST_PRINTED", 100_000)
    result = await run(tmp_path, "print('y' * 300_000)", ScriptedModel([]))
    assert result.status is RunStatus.COMPLETED and result.artifacts[0].size == 100_000


async def test_without_a_request_its_cost_is_unknown(tmp_path: Path) -> None:
    async with workspace(tmp_path, ScriptedModel([]), settings=one("print('elsewhere')")) as ws:
        result = await ws.run("Print.", model="scripted")
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "elsewhere")
        assert result.cost_usd is None and result.usage.requests == 0 and result.duration_s > 0
        assert (await ws.runs.result(result.run_id)).cost_usd is None
        assert (await ws.replay(result.run_id)).answer == "elsewhere"
    told = python(["-m", "agentorchestra.cli", "cost", "last", "--by", "agent", "--workspace", tmp_path / "ws"])
    assert re.search(r"^prog .* unknown price$", told, re.MULTILINE), told


# -- ends --------------------------------------------------------------------------------------------------------------


async def test_an_exit_code_is_a_failure_with_the_last_words(tmp_path: Path) -> None:
    code = "import sys\nprint('half')\nprint('z' * 9_000, 'it broke', file=sys.stderr)\nsys.exit(3)"
    result = await run(tmp_path, code, ScriptedModel([]))
    assert (result.status, result.answer) == (RunStatus.BLOCKED, "half")
    assert "prog ended with the exit code 3" in result.report and result.report.endswith("it broke")
    assert len(result.report) < 4_200


@pytest.mark.long
async def test_a_time_limit_ends_it_with_all_that_it_started(tmp_path: Path) -> None:
    code = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "below = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "time.sleep(600)\n"
    )
    below = Seen()
    watching = asyncio.create_task(below.keep_looking())
    result = await run(tmp_path, code, ScriptedModel([]), program={"timeout_s": 1.5})
    watching.cancel()
    assert result.status is RunStatus.TIMED_OUT and "after its time limit of 1.5 s" in result.report
    assert below.processes
    await below.gone()


async def test_what_it_leaves_behind_is_ended_with_it(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys\n"
        "below = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(below.pid)\n"
    )
    result = await run(tmp_path, code, ScriptedModel([]))
    assert result.status is RunStatus.COMPLETED
    await _gone(int(result.answer))


async def _gone(pid: int) -> None:
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def test_a_cancelled_run_leaves_no_process(tmp_path: Path) -> None:
    code = ASK + "open('pid.txt', 'w').write(str(os.getpid()))\nask('never answered')\n"

    async def silent(request: ModelRequest) -> str:
        await asyncio.Event().wait()
        return ""

    model = ScriptedModel(silent)
    async with workspace(tmp_path, model, settings=one(code)) as ws:
        run_id = await ws.create("Ask.", model="scripted")
        work = asyncio.create_task(ws.resume(run_id))
        await until(lambda: bool(model.requests))
        pid = int((ws.files.folder(run_id) / "pid.txt").read_text())
        assert psutil.pid_exists(pid)
        await ws.cancel(run_id)
        result = await work
        assert result.status is RunStatus.CANCELLED
        await _gone(pid)


@pytest.mark.long
async def test_a_pause_ends_it_before_its_next_request_and_a_resume_starts_it_anew(tmp_path: Path) -> None:
    paused: list[str] = []

    async def answer(request: ModelRequest) -> str:
        if not paused:
            paused.append(run_id)
            await ws.pause(run_id)
        return seen(request).upper()

    model = ScriptedModel(answer)
    async with workspace(tmp_path, model, settings=one(ASK + "print(ask('a'), ask('b'))\n")) as ws:
        run_id = await ws.create("Ask.", model="scripted")
        assert (await ws.resume(run_id)).status is RunStatus.PAUSED
        assert (await ws.resume(run_id)).answer == "A B"
    assert [seen(request) for request in model.requests] == ["a", "b"]


@pytest.mark.long
async def test_the_end_of_the_budget_ends_it_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    """Refused with 402; raised, the program starts anew and what it asked is answered from the log."""
    code = ASK + (
        "open('starts.txt', 'a').write('x')\nfor number in range(3):\n    print(ask(str(number)), flush=True)\n"
    )
    model = ScriptedModel([say("a"), say("b"), say("c")])
    async with workspace(tmp_path, model, settings=one(code)) as ws:
        result = await ws.run("Ask.", model="scripted", budget=Budget(steps=2))
        assert result.status is RunStatus.BUDGET_EXHAUSTED
        assert len(model.requests) < 3
        ended = await ws.resume(result.run_id, budget=Budget(steps=10))
        assert (ended.status, ended.answer, ended.steps) == (RunStatus.COMPLETED, "a\nb\nc", 3)
        assert (ws.files.folder(result.run_id) / "starts.txt").read_text() == "xx"
        assert (await ws.replay(result.run_id)).answer == "a\nb\nc"
    assert len(model.requests) == 3  # nothing was asked twice


@pytest.mark.long
async def test_a_refused_budget_is_told_to_the_program(tmp_path: Path) -> None:
    code = ASK + (
        "ask('0')\n"
        "for number in range(2):\n"
        "    try:\n"
        "        ask('more')\n"
        "    except Refused as exc:\n"
        "        print(*exc.args)\n"
    )
    result = await run(tmp_path, code, ScriptedModel([say("a")]), max_steps=1)
    said = "402 prog has made its 1 requests (max_steps); give it more with --max-steps"
    assert result.answer == f"{said}\n{said}"
    assert result.status is RunStatus.BUDGET_EXHAUSTED and result.steps == 1


@pytest.mark.long
async def test_a_model_that_fails_for_good_ends_the_run_which_can_be_resumed(tmp_path: Path) -> None:
    code = ASK + "print(ask('0'), ask('1'))\n"
    model = ScriptedModel([say("a"), ModelUnavailableError("the model is away"), say("b")])
    settings = one(code)
    async with workspace(tmp_path, model, settings=settings) as ws:
        model.profile = model.profile.model_copy(update={"max_attempts": 1})
        result = await ws.run("Ask.", model="scripted")
        assert (result.status, result.error_type) == (RunStatus.FAILED, "ModelUnavailableError")
        assert (await ws.resume(result.run_id)).answer == "a b"
    assert len(model.requests) == 3


# -- the address -------------------------------------------------------------------------------------------------------


async def test_the_official_client_streams_calls_tools_and_shows_pictures(tmp_path: Path) -> None:
    picture = base64.b64encode(b"\x89PNG not really").decode()
    code = CLIENT + (
        "tools = [{'type': 'function', 'function': {'name': 'add', 'description': 'Add.', 'parameters':"
        " {'type': 'object', 'properties': {'a': {'type': 'integer'}}}}}]\n"
        "first = ask('Add.', tools=tools, tool_choice='required', temperature=0.5, max_tokens=50)\n"
        "made = first.choices[0].message\n"
        "assert first.choices[0].finish_reason == 'tool_calls'\n"
        "assert json.loads(made.tool_calls[0].function.arguments) == {'a': 2}\n"
        "messages = [{'role': 'developer', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Add.'}, made,\n"
        "  {'role': 'tool', 'tool_call_id': made.tool_calls[0].id, 'content': '4'},\n"
        "  {'role': 'user', 'content': [{'type': 'text', 'text': 'And this?'},\n"
        f"   {{'type': 'image_url', 'image_url': {{'url': 'data:image/png;base64,{picture}'}}}}]}}]\n"
        "stream = client.chat.completions.create(model=model, messages=messages, tools=tools, stream=True,"
        " tool_choice={'type': 'function', 'function': {'name': 'add'}},"
        " stream_options={'include_usage': True})\n"
        "pieces = list(stream)\n"
        "text = ''.join(p.choices[0].delta.content or '' for p in pieces if p.choices)\n"
        "calls = [c for p in pieces if p.choices for c in p.choices[0].delta.tool_calls or ()]\n"
        "print(text, calls[0].function.name, pieces[-1].usage.total_tokens > 0, [m.id for m in client.models.list()])\n"
    )
    model = ScriptedModel([call("add", a=2), [call("add", a=3)]])
    result = await run(tmp_path, code, model)
    assert result.status is RunStatus.COMPLETED, result.report
    assert result.answer == "add True ['scripted']"
    first, second = model.requests
    assert (first.settings.tool_choice, first.settings.temperature, first.settings.max_tokens) == ("required", 0.5, 50)
    assert [(one.name, one.trust) for one in first.tools] == [("add", Trust.UNTRUSTED)]
    assert second.settings.tool_choice == "add"
    assert [one.role for one in second.messages] == ["system", "user", "assistant", "tool", "user"]
    assert second.messages[2].tool_calls[0].arguments == {"a": 2}
    assert second.messages[3].tool_call_id == second.messages[2].tool_calls[0].id
    assert second.messages[4].media[0].size == len(b"\x89PNG not really")


@pytest.mark.long
async def test_a_form_of_the_answer_is_asked_for(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    code = ASK + f"print(ask('n?', response_format={form!r}))\n"
    model = ScriptedModel([say('{"n": 1}')])
    assert (await run(tmp_path, code, model)).answer == '{"n": 1}'
    assert model.requests[0].settings.output_schema == schema


WITH = "tools=[{'type': 'function', 'function': {'name': 'f'}}]"
SHOW = "client.chat.completions.create(model=model, messages=[{'role': 'user', 'content': [{'type': 'image_url',"
REFUSED: list[tuple[str, int, str]] = [
    ("OpenAI(api_key='x').models.list()", 401, "the key does not fit this address; take the one in OPENAI_API_KEY"),
    ("OpenAI(api_key='x').chat.completions.create(model=model, messages=[])", 401, "the key does not fit"),
    ("client.chat.completions.create(model='gpt', messages=[{'role': 'user', 'content': 'a'}])", 404,
     "there is no model 'gpt' here; ask for 'scripted', which is in OPENAI_MODEL"),
    ("client.embeddings.create(model=model, input='a')", 404, "there is no POST /v1/embeddings here"),
    ("ask('a', stop=['x'])", 400, "the parameter 'stop' is not taken: words that end an answer"),
    ("ask('a', n=2)", 400, "n = '2' does not fit"),
    ("client.chat.completions.create(model=model, messages=[])", 400, "messages = '[]' does not fit"),
    ("client.chat.completions.create(model=model, messages=[{'role': 'x', 'content': 'a'}])", 400,
     "the roles: system, developer, user, assistant, tool"),
    (SHOW + " 'image_url': {'url': 'http://x/y.png'}}]}])", 400, "is not read; give its bytes"),
    (SHOW + " 'image_url': {'url': 'data:image/png;base64,&&'}}]}])", 400, "is no base64"),
    (f"ask('a', {WITH}, tool_choice={{'type': 'function', 'function': {{'name': 'g'}}}})", 400, "'g' is none of"),
    (f"ask('a', {WITH}, response_format={{'type': 'json_object'}})", 400, "exclude each other"),
    ("ask('a', response_format={'type': 'json_schema', 'json_schema': {'name': 'x'}})", 400, "has no schema"),
    ("client.post('/chat/completions', cast_to=object, content=b'{', options={'headers': {}})", 400, "is no JSON"),
]  # fmt: skip


@pytest.mark.long
async def test_what_does_not_fit_is_refused_and_asks_nobody(tmp_path: Path) -> None:
    tried = "".join(
        f"try:\n    {code}\nexcept APIStatusError as exc:\n    print(exc.status_code, exc.body['message'])\n"
        for code, _, _ in REFUSED
    )
    result = await run(tmp_path, CLIENT + tried, ScriptedModel([]))
    lines = result.answer.splitlines()
    assert len(lines) == len(REFUSED), result
    for line, (code, status, said) in zip(lines, REFUSED, strict=True):
        assert line.startswith(f"{status} ") and said in line, code


@pytest.mark.long
async def test_tool_calls_of_a_model_that_takes_none_are_refused(tmp_path: Path) -> None:
    code = ASK + (
        "try:\n    ask('a', tools=[{'type': 'function', 'function': {'name': 'f'}}])\n"
        "except Refused as exc:\n    print(exc.args[1])\n"
    )
    result = await run(tmp_path, code, ScriptedModel([], native_tools=False))
    assert result.answer == "the model 'scripted' takes no tool calls; leave tools out"


@pytest.mark.long
async def test_requests_at_the_same_time_are_asked_one_after_the_other(tmp_path: Path) -> None:
    code = ASK + (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(4) as pool:\n"
        "    print(sorted(r for r in pool.map(ask, 'abcd')))\n"
    )
    model = ScriptedModel(lambda request: say(request.messages[-1].text.upper()))
    assert (await run(tmp_path, code, model)).answer == "['A', 'B', 'C', 'D']"


# -- bill, resume ------------------------------------------------------------------------------------------------------


async def test_the_bill_is_what_the_server_counted(tmp_path: Path) -> None:
    async with LoopbackModelServer("ok") as server:
        settings = program_agent.settings(tmp_path, server.base_url)
        async with Workspace(tmp_path / "ws", settings=settings) as ws:
            result = await ws.run("begin", budget=Budget(cost_usd=1.0))
    assert (result.answer, result.usage.requests, server.count) == ("ok ok", 2, 2)
    assert [body["messages"][0]["content"] for body in server.requests] == ["begin", "x"]
    used = result.usage
    assert result.cost_usd == pytest.approx((used.input_tokens * 1.0 + used.output_tokens * 2.0) / 1e6)


POINTS = ["before:/#1", "after_mark:/1.asks#1", "after_record:/1.asks#1", "after:/1.asks#2", "after:/1.asks#3"]
"""Of its agent, its two requests, and the snapshot of the folder: what an earlier start wrote there is gone."""


@pytest.mark.long
@pytest.mark.parametrize(
    "point", [POINTS[2], *(pytest.param(one, marks=pytest.mark.long) for one in POINTS[:2] + POINTS[3:])]
)
async def test_killed_and_resumed_it_starts_anew_and_pays_nothing_twice(tmp_path: Path, point: str) -> None:
    async with LoopbackModelServer("ok") as server:
        words: list[str | Path] = ["-m", "tests.systems.program_agent", tmp_path, server.base_url]
        await asyncio.to_thread(python, [*words, "run"], kill_at=point)
        answered = Ledger.of(await _log(tmp_path)).spent
        for pid in (tmp_path / "notes.txt").read_text().split() if (tmp_path / "notes.txt").exists() else ():
            await _gone(int(pid))  # the kernel ended it with its parent
        asked = server.count
        assert await asyncio.to_thread(python, [*words, "resume"]) == "completed: ok ok: \n"
        assert server.count == asked + 2 - len(answered)


async def _log(folder: Path) -> list[Any]:
    async with Workspace(folder / "ws", settings=Settings()) as ws:
        (record,) = await ws.runs.list()
        return await ws.log.events(record.id)


@pytest.mark.long
async def test_a_program_that_asks_otherwise_after_an_interruption_is_ended(tmp_path: Path) -> None:
    async with LoopbackModelServer("ok") as server:
        words: list[str | Path] = ["-m", "tests.systems.program_agent", tmp_path, server.base_url]
        await asyncio.to_thread(python, [*words, "run"], kill_at="before:/#1")
        await asyncio.to_thread(python, [*words, "resume"], kill_at="after_record:/1.asks#2")
        asked = server.count
        told = await asyncio.to_thread(python, [*words, "resume", "something else"])
        assert server.count == asked
    assert told.startswith("blocked: : asks was started again after an interruption and asks otherwise than before")
    assert "message 0 (user) changed" in told


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[programs.p]\ncommand = []", "the command is empty; write the program and its arguments"),
        (
            '[programs.p]\ncommand = ["x", "{prompt}"]',
            "there is no placeholder {prompt}; the placeholders: {task}, {model}",
        ),
        ("[programs.p]", "programs.p.command"),
        ('[programs.p]\ncommand = ["x"]\ntimeout_s = 0', "programs.p.timeout_s = 0"),
        ('[programs.p]\ncommand = ["x"]\nshell = true', "programs.p.shell, which does not exist"),
    ],
)
def test_settings_that_fit_no_program(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "agentorchestra.toml").write_text(text)
    with pytest.raises(SettingsError) as info:
        load_settings(tmp_path)
    assert said in str(info.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [("react", "a system or agent has that name"), ("planner_x Y", "lower case"), ("deep_analyzer", "has that name")],
)
async def test_a_name_that_is_taken_or_is_none(tmp_path: Path, name: str, said: str) -> None:
    settings = Settings(programs={name: ProgramSettings(command=("true",))})
    with pytest.raises(SystemDefinitionError, match=said):
        await Workspace(tmp_path / "ws", settings=settings).open()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("program", "error", "said"),
    [
        (
            {"command": ("no-such-program",)},
            SystemDefinitionError,
            "'no-such-program' of the system 'prog' is not there",
        ),
        ({"command": ("./agent",)}, SystemDefinitionError, "give its whole path in programs.prog.command"),
        ({"command": ("true", "a\0b")}, SystemDefinitionError, "cannot be started: embedded null byte"),
        ({"command": ("true",), "env": ("NOT_THERE",)}, MissingKeyError, "NOT_THERE"),
    ],
)
async def test_what_cannot_be_started_fails_before_anything_is_spent(
    tmp_path: Path, program: dict[str, Any], error: type[Exception], said: str
) -> None:
    settings = Settings(programs={"prog": ProgramSettings(**program)}, system="prog")
    async with workspace(tmp_path, ScriptedModel([]), settings=settings) as ws:
        result = await ws.run("Go.", model="scripted")
    assert (result.status, result.error_type) == (RunStatus.FAILED, error.__name__)
    assert said in str(result.error)


async def test_a_structured_answer_and_dollars_without_a_price_are_refused(tmp_path: Path) -> None:
    async with workspace(tmp_path, ScriptedModel([]), settings=one("print(1)")) as ws:
        result = await ws.run("Go.", model="scripted", output_type=int)
        assert (result.error_type, result.error) == (
            "SettingsError",
            "the program 'prog' prints a text; leave output_type out",
        )
    async with workspace(tmp_path, ScriptedModel([], price=None), settings=one("print(1)")) as ws:
        with pytest.raises(BudgetError):
            await ws.run("Go.", model="scripted", budget=Budget(cost_usd=1.0))


# -- as a sub-agent ----------------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_as_a_sub_agent_it_gets_context_model_and_budget_of_its_own(tmp_path: Path) -> None:
    code = ASK + "task = sys.stdin.read()\nprint(model, ask(task))\n"
    got: list[AgentResult] = []

    async def boss(spec: AgentSpec, session: Any, kit: Any) -> AgentResult:
        known = TextBlock(text="The mast is 7 m.", trust=Trust.AGENT)
        for limit in (Budget(cost_usd=1.0), Budget(tokens=1)):
            child = AgentSpec(
                name="kid", instruction="Go.", context=(known,), system="prog", model="other", budget=limit
            )
            got.append(await session.call_agent(child))
        return AgentResult(answer="over")

    other = ScriptedModel([say("yes")], name="other", price=Price(input=1.0, output=1.0))
    models = {"scripted": ScriptedModel([]), "other": other}
    async with Workspace(tmp_path / "ws", models=models, settings=one(code), systems={"boss": boss}) as ws:
        result = await ws.run("Lead.", model="scripted", system="boss")
        assert result.answer == "over" and set(result.usage_by_model) == {"other"} and result.cost_usd
        assert (await ws.replay(result.run_id)).answer == "over"
    assert (got[0].status, got[0].answer) == (RunStatus.COMPLETED, "other yes")
    assert got[1].status is RunStatus.BUDGET_EXHAUSTED
    assert seen(other.requests[0]) == "Go.\n\nThe mast is 7 m."


def _orchestrator(*below: Any) -> ScriptedModel:
    delegate = decide(calls=[call("delegate_task", task_instruction="Count.", tools=["bash"])])
    return ScriptedModel([delegate, *below, decide(calls=[call("complete", answer="over")])])


@pytest.mark.long
async def test_it_is_an_executor_of_aorchestra(tmp_path: Path) -> None:
    settings = one(ASK + "print(ask(sys.stdin.read()))\n")
    settings = settings.model_copy(update={"aorchestra": AOrchestraSettings(executor="prog")})
    model = _orchestrator(say("There are 4."))
    async with workspace(tmp_path, model, settings=settings) as ws:
        result = await ws.run("Lead.", model="scripted", system="aorchestra")
        assert (result.answer, result.cost_usd, result.usage.requests) == ("over", 0, 3), result
        assert (await ws.replay(result.run_id)).answer == "over"
    assert seen(model.requests[1]) == "Count."
    assert "There are 4." in seen(model.requests[2])


@pytest.mark.long
async def test_what_it_costs_elsewhere_is_unknown_to_the_orchestrator_too(tmp_path: Path) -> None:
    settings = one("print('7' * 30_000)")
    settings = settings.model_copy(update={"aorchestra": AOrchestraSettings(executor="prog")})
    async with workspace(tmp_path, _orchestrator(), settings=settings) as ws:
        result = await ws.run("Lead.", model="scripted", system="aorchestra")
        records = Ledger.of(await ws.log.events(result.run_id)).records.values()
        (handed,) = [one for one in records if one.effect["component"].startswith("delegate_task")]
        assert (await ws.replay(result.run_id)).answer == "over"
    assert result.cost_usd is None and result.artifacts[0].size == 30_000
    said = json.dumps(handed.outcome.value if handed.outcome else "")
    assert result.artifacts[0].name in said and "$0" not in said, said[-600:]


async def test_its_changes_in_the_folder_are_kept_for_the_environments_on_it(tmp_path: Path) -> None:
    from agentorchestra.tea.calling.actions import action_effect

    async def boss(spec: AgentSpec, session: Any, kit: Any) -> AgentResult:
        files = kit.environments["files"]()
        await session.perform(action_effect(files, "write", {"path": "a.txt", "content": "first"}))
        child = AgentSpec(name="kid", instruction="Go.", system="prog", tools=("files",))
        result = await session.call_agent(child)
        outcome = await session.perform(action_effect(files, "read", {"path": "b.txt"}))
        return AgentResult(answer=f"{result.status.value} {result.report} {outcome.blocks()[0].text}")

    code = "open('b.txt', 'w').write(open('a.txt').read() + ' second')\n"
    model = ScriptedModel([])
    async with workspace(tmp_path, model, settings=one(code), systems={"boss": boss}) as ws:
        result = await ws.run("Lead.", model="scripted", system="boss", environments=["files"])
        assert "completed" in result.answer and "first second" in result.answer
        assert (ws.files.folder(result.run_id) / "b.txt").read_text() == "first second"
        found = Ledger.of(await ws.log.events(result.run_id)).records
        assert [one.mode for one in found.values() if one.kind is EffectKind.SNAPSHOT] == [Mode.REPEATABLE]
        assert (await ws.replay(result.run_id)).answer == result.answer_text
