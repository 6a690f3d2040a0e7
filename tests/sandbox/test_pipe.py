"""The pipe between a program and the host: what a program that writes to it by itself, or a supervisor that lies, gets.

The host believes nothing: it returns in time, raises nothing, and calls only what the program may call.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import sys
import tempfile
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from agentorchestra.sandbox import Program, Ran, Sandbox, SandboxLimits
from agentorchestra.sandbox import driver as drive
from agentorchestra.sandbox.driver import Driver, SupervisorPaths, name_problem
from agentorchestra.sandbox.pipe import Launch
from tests.sandbox.support import run
from tests.support.examples import examples

LIMITS = SandboxLimits(seconds=60, calls=20, call_bytes=100_000, kept_files=5, kept_bytes=100_000)
PRELUDE = """
import json, os, signal, sys, time
fd = tools._Tools__calls.fileno()
def raw(data):
    while data: data = data[os.write(fd, data):]
def ask(**fields): raw(json.dumps(fields).encode() + b"\\n")
def answers(count): return [json.loads(tools._Tools__results.readline()) for _ in range(count)]
"""


class Host:
    """A host with one tool, which notes what it is given."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, JsonValue]]] = []

    async def call(self, name: str, arguments: dict[str, JsonValue]) -> JsonValue:
        self.got.append((name, arguments))
        return "given"


ABUSES = {
    "garbage": ("raw(b'\\xff\\xfe garbage\\n')", "lost"),
    "no object": ("raw(b'[1, 2]\\n')", "lost"),
    "a line without end": ("while True: raw(b'x' * 65536)", "lost"),
    "lines without end": ("while True: raw(b'\\n' * 65536)", "lost"),
    "nested without end": ("raw(b'[' * 90_000 + b'\\n')", "lost"),
    "nested deeply": (
        "nested = b'[' * 900 + b']' * 900\n"
        'raw(b\'{"id": 1, "name": "ok", "arguments": {"x": \' + nested + b\'}}\\n\'); time.sleep(1)',
        "exited",
    ),
    "nested": ("try: tools.ok(x=eval('[' * 90 + ']' * 90))\nexcept ToolError as error: print(error)", "exited"),
    "no number": ("ask(name='ok', arguments={}); time.sleep(30)", "lost"),
    "number of another kind": ("ask(id=[1], name='ok', arguments={}); time.sleep(30)", "lost"),
    "name of another kind": ("ask(id=1, name=['ok'], arguments={}); print(answers(1)[0]['error'])", "exited"),
    "arguments of another kind": ("ask(id=1, name='ok', arguments=[1]); print(answers(1)[0]['error'])", "exited"),
    "no arguments": ("ask(id=1, name='ok'); print(answers(1)[0]['error'])", "exited"),
    "numbers that are none": ('raw(b\'{"id":1,"name":"ok","arguments":{"x":NaN}}\\n\'); time.sleep(1)', "exited"),
    "infinity": ("try: tools.ok(x=float('inf'))\nexcept ToolError as error: print(error)", "exited"),
    "half a character": ("try: tools.ok(x='\\ud800')\nexcept ToolError as error: print(error)", "exited"),
    "half a character as a name": (
        "try: tools.ok(**{'\\ud800': 1})\nexcept ToolError as error: print(error)",
        "exited",
    ),
    "a tool that is not allowed": ("ask(id=1, name='secret', arguments={}); print(answers(1)[0]['error'])", "exited"),
    "a name with control characters": (
        "ask(id=1, name='\\x1b[31m\\n', arguments={}); print(answers(1)[0]['error'])",
        "exited",
    ),
    "a forged end": ("ask(kind='end', exit_code=7, stopped='', removed=[]); time.sleep(30)", "lost"),
    "a forged file": ("ask(kind='file', name='forged', data='eA==', last=True); time.sleep(30)", "lost"),
    "closed": ("os.close(fd); os.close(tools._Tools__results.fileno()); print('on')", "exited"),
    "signals to the supervisor": ("os.kill(os.getppid(), signal.SIGTERM); time.sleep(30)", "either"),
    "the supervisor killed": ("os.kill(os.getppid(), signal.SIGKILL); time.sleep(30)", "either"),
    "the supervisor stopped": ("os.kill(os.getppid(), signal.SIGSTOP); time.sleep(30)", "either"),
    "everything stopped": ("try: os.kill(-1, signal.SIGSTOP)\nexcept OSError: pass\ntime.sleep(30)", "time"),
    "signals ignored": (
        "for n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except OSError: pass\nwhile True: pass",
        "time",
    ),
}


@pytest.mark.parametrize("abuse", ABUSES, ids=str)
@pytest.mark.long
async def test_a_program_that_writes_to_the_pipe_by_itself(
    abuse: str, safe: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drive, "_GRACE_S", 1.0)
    code, ending = ABUSES[abuse]
    host = Host()
    limits = replace(LIMITS, seconds=2) if ending in ("time", "either") else LIMITS
    ran = await run(safe, PRELUDE + code, limits, call=host.call, tools=("ok",))
    # Some is too deep for the one or the other parser, and a first process is not reached by signals from inside.
    assert ran.ending in {
        "either": ("lost", "time"),
        "exited": ("exited", "lost")[: 1 + (abuse == "nested deeply")],
    }.get(ending, (ending,)), ran
    assert host.got == []
    assert ran.made == {}
    assert "Traceback" not in ran.stderr + ran.detail
    assert ran.detail.isprintable()
    assert (await run(safe, "6 * 7")).stdout == "42\n"


async def test_the_same_writing_calls_a_tool_when_it_is_right(safe: Sandbox) -> None:
    """The positive control of all above: the descriptor is the one, and this is the form."""
    host = Host()
    code = "ask(id=1, name='ok', arguments={'x': [[1.5]], 'y': 'é'}); print(answers(1))"
    ran = await run(safe, PRELUDE + code, LIMITS, call=host.call, tools=("ok",))
    assert host.got == [("ok", {"x": [[1.5]], "y": "é"})]
    assert ran.stdout == "[{'kind': 'result', 'id': 1, 'value': 'given'}]\n"


@pytest.mark.long
async def test_thousands_of_calls_at_once(safe: Sandbox) -> None:
    host = Host()
    code = "for n in range(5000): ask(id=1, name='ok', arguments={})\ntime.sleep(30)"
    ran = await run(safe, PRELUDE + code, replace(LIMITS, seconds=3), call=host.call, tools=("ok",))
    assert ran.ending == "time"
    assert len(host.got) == LIMITS.calls


@pytest.mark.long
async def test_calls_in_a_loop_do_not_stop_the_clock(safe: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive, "_GRACE_S", 1.0)
    host = Host()
    code = "while True: ask(id=1, name='ok', arguments={})"
    ran = await run(safe, PRELUDE + code, replace(LIMITS, seconds=2), call=host.call, tools=("ok",))
    assert ran.ending == "time"


# -- a supervisor that lies ------------------------------------------------------------------------------------------

LIAR = """
import sys, time
print('{"kind": "ready"}', flush=True)
sys.stdout.buffer.write(open(sys.argv[1], "rb").read())
sys.stdout.flush()
if sys.argv[2] == "stays": time.sleep(1000)
"""
END = '{"kind": "end", "exit_code": 0, "stopped": "", "removed": []}'


async def lied(*lines: str, stays: bool = False, limits: SandboxLimits = LIMITS) -> tuple[Ran, Host]:
    host = Host()
    program = Program("python", "", tools=("ok",), kept={"mine": b"x"})
    with tempfile.NamedTemporaryFile() as script:
        script.write("".join(f"{line}\n" for line in lines).encode())
        script.flush()
        command = [sys.executable, "-I", "-S", "-c", LIAR, script.name, "stays" if stays else ""]
        driver = Driver(Launch(command), program, limits, SupervisorPaths(inputs="", libraries=""), call=host.call)
        return await driver.run(), host


SLOW = """
import json, sys
def say(**fields): print(json.dumps(fields), flush=True)
say(kind="ready")
for line in sys.stdin:
    message = json.loads(line)
    if message["kind"] == "go":
        memory = bytearray(215 << 20)
    elif message["kind"] == "stop":
        say(kind="call", id=1, name="ok", arguments={})
        say(kind="out", fd=1, data="bGFzdCB3b3Jkcw==")
        say(kind="end", exit_code=0, stopped="host", removed=[])
"""


async def test_what_a_program_over_its_limits_had_printed_is_kept() -> None:
    # The supervisor of a busy machine comes to read the program's output only when that is to be killed.
    host = Host()
    limits = replace(LIMITS, memory_bytes=200 << 20)
    program = Program("python", "", tools=("ok",))
    launch = Launch([sys.executable, "-I", "-S", "-c", SLOW])
    driver = Driver(launch, program, limits, SupervisorPaths("", ""), call=host.call)
    ran = await driver.run()
    assert (ran.ending, ran.stdout) == ("memory", "last words") and "MiB of memory" in ran.detail
    assert host.got == []


def _file(name: object, data: bytes = b"x", last: object = True) -> str:
    return json.dumps({"kind": "file", "name": name, "data": base64.b64encode(data).decode(), "last": last})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("garbage", "it sent something that is not JSON"),
        ("[" * 200_000, "it sent something that is not JSON"),
        ("x" * 5_000_000, "it sent a line that is longer than allowed"),
        ("[]", "it sent something that is no message"),
        ("{}", "it said something unknown: a NoneType"),
        ('{"kind": ["out"]}', "it said something unknown: a list"),
        ('{"kind": "out", "fd": 3, "data": ""}', "it printed to an output that does not exist"),
        ('{"kind": "out", "fd": [], "data": ""}', "it printed to an output that does not exist"),
        ('{"kind": "out", "fd": 1, "data": 5}', "it sent data that cannot be read"),
        ('{"kind": "out", "fd": 1, "data": "!"}', "it sent data that cannot be read"),
        ('{"kind": "out", "fd": 1, "data": "é"}', "it sent data that cannot be read"),
        ('{"kind": "file", "name": "x"}', "it sent data that cannot be read"),
        ('{"kind": "call", "name": "ok", "arguments": {}}', "it made a call without a number"),
        ('{"kind": "call", "id": true, "name": "ok", "arguments": {}}', "it made a call without a number"),
        ('{"kind": "end"}', "it ended without saying how"),
        ('{"kind": "end", "exit_code": "0", "removed": []}', "it ended without saying how"),
        ('{"kind": "end", "exit_code": 1e400, "removed": []}', "it ended without saying how"),
    ],
)
async def test_lies_end_it(line: str, said: str) -> None:
    ran, host = await lied(line, stays=True)
    assert (ran.ending, ran.detail, host.got) == ("lost", said, [])


@pytest.mark.parametrize(
    "name",
    [
        *(
            "../x",
            "/etc/passwd",
            "a/../../x",
            "a//b",
            "./a",
            "a/",
            "",
            "a\nb",
            "a\\b",
            "\x1b[0m",
            "x" * 300,
            "..",
            "\ud800",
        ),
        *(["a"], {"a": 1}, 5, None, True, json.loads("[" * 400 + "]" * 400)),
    ],
)
async def test_names_that_are_no_place_in_the_working_folder(name: object) -> None:
    ran, _ = await lied(_file("good"), _file(name), END)
    assert (ran.ending, ran.made) == ("exited", {"good": b"x"})
    assert len(ran.notes) == 1
    assert ran.notes[0].isprintable()
    assert len(ran.notes[0]) < 300


async def test_more_files_than_allowed_end_it() -> None:
    ran, _ = await lied(*(_file(f"f{n}") for n in range(10)), END)
    assert (ran.ending, ran.detail) == ("lost", "it sent more files than allowed")
    ran, _ = await lied(*(_file("large", b"x" * 40_000, last=False) for _ in range(60)), END)
    assert (ran.ending, ran.detail) == ("lost", "it sent more files than allowed")


async def test_a_flood_that_the_supervisor_lets_through_is_stopped() -> None:
    line = json.dumps({"kind": "out", "fd": 1, "data": base64.b64encode(b"x" * 48_000).decode()})
    ran, _ = await lied(*[line] * 40, stays=True, limits=replace(LIMITS, flood_bytes=500_000))
    assert ran.ending == "flood"
    assert len(ran.stdout) < 250_000


async def test_a_supervisor_that_says_nothing_more_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive, "_GRACE_S", 0.5)
    ran, _ = await lied(stays=True, limits=replace(LIMITS, seconds=0.2))
    assert (ran.ending, ran.detail) == ("time", "it did not end in time and was killed")


async def test_removed_names_are_those_that_were_given() -> None:
    line = json.dumps({"kind": "end", "exit_code": 3, "stopped": 7, "removed": ["mine", "other", ["mine"], {}, None]})
    ran, _ = await lied(line)
    assert (ran.ending, ran.exit_code, ran.removed) == ("exited", 3, ("mine",))


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.sampled_from(["ok", "eA=="]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_FIELDS = ("id", "name", "arguments", "fd", "data", "last", "text", "exit_code", "stopped", "removed")
_MESSAGES = st.builds(
    lambda kind, fields: {"kind": kind, **fields},
    st.sampled_from(["out", "call", "file", "note", "end"]) | _ANY,
    st.fixed_dictionaries({}, optional=dict.fromkeys(_FIELDS, _ANY)),
)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_MESSAGES, max_size=6))
def test_whatever_it_says_the_host_gets_an_answer(messages: list[dict[str, object]]) -> None:
    ran, host = asyncio.run(lied(*(json.dumps(message) for message in messages)))
    assert ran.ending in ("exited", "time", "flood", "lost")
    assert not any(name_problem(name) for name in ran.made)
    assert all(note.isprintable() for note in ran.notes)
    for name, arguments in host.got:
        assert name == "ok"
        json.dumps(arguments, allow_nan=False).encode()
        assert not any(isinstance(value, float) and not math.isfinite(value) for value in arguments.values())
