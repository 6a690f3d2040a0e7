"""What every backend does alike: values, outputs, files in and out, tools of the host, limits."""

from __future__ import annotations

import asyncio
import gc
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from pydantic import JsonValue

from agentorchestra.core.errors import ToolError
from agentorchestra.sandbox import Sandbox, SandboxLimits
from agentorchestra.sandbox.base import MIB
from agentorchestra.sandbox.cgroup import parent_group
from tests.files import makers
from tests.sandbox.support import prints, run, run_out_of_time, usable
from tests.support.patience import LONGEST_S

LIMITS = SandboxLimits(seconds=LONGEST_S)


async def add(name: str, arguments: dict[str, JsonValue]) -> JsonValue:
    """A tool of the host."""
    a, b = arguments["a"], arguments["b"]
    assert isinstance(a, int) and isinstance(b, int)
    return a + b


async def test_docker_keeps_the_contract_too() -> None:
    """Every test below runs over Docker where an engine answers; elsewhere this one says that they were not run."""
    assert await prints(usable("docker"), "6 * 7") == "42\n"


# -- values and outputs ----------------------------------------------------------------------------------------------


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("code", "printed"),
    [
        ("6 * 7", "42\n"),
        ("x = 5\nx + 1", "6\n"),
        ("'text'", "'text'\n"),
        ("print('shown')", "shown\n"),  # whose value is None
        ("x = 5", ""),
        ("", ""),
        ("# nothing", ""),
        ("def f():\n    return 3\nf()", "3\n"),
        ("if True:\n    7", ""),
        ("__name__", "'__main__'\n"),
        ("'Grüße, 世界 🌍'", "'Grüße, 世界 🌍'\n"),
        ("import sys; sys.stdout.buffer.write(b'\\xff\\x00a'); None", "\ufffd\x00a"),
        ("from concurrent.futures import ThreadPoolExecutor as P\nlist(P(4).map(abs, [-1, -2]))", "[1, 2]\n"),
        ("import subprocess\nsubprocess.run(['echo', 'hi'], capture_output=True, text=True).stdout", "'hi\\n'\n"),
        (
            "import multiprocessing as m\nwith m.get_context('fork').Pool(2) as p: print(p.map(abs, [-3, 4]))",
            "[3, 4]\n",
        ),
    ],
)
async def test_the_value_of_the_last_expression_is_printed(sandbox: Sandbox, code: str, printed: str) -> None:
    assert await prints(sandbox, code) == printed


async def test_the_outputs_are_kept_apart(sandbox: Sandbox) -> None:
    for language, code in (
        ("python", "import sys\nprint('to out')\nprint('to err', file=sys.stderr)"),
        ("bash", "echo to out; echo to err >&2"),
    ):
        ran = await run(sandbox, code, language=language)  # type: ignore[arg-type]
        assert (ran.stdout, ran.stderr, ran.exit_code) == ("to out\n", "to err\n", 0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("language", "code", "exit_code"),
    [
        ("python", "import sys\nsys.exit(3)", 3),
        ("python", "import os\nos._exit(4)", 4),
        ("python", "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)", -15),
        ("bash", "exit 5", 5),
        ("bash", "no-such-command-here", 127),
        ("bash", "", 0),
    ],
)
async def test_the_exit_code(sandbox: Sandbox, language: str, code: str, exit_code: int) -> None:
    ran = await run(sandbox, code, language=language)  # type: ignore[arg-type]
    assert (ran.ending, ran.exit_code) == ("exited", exit_code)


async def test_an_exception_shows_the_line_of_the_program_and_nothing_of_ours(sandbox: Sandbox) -> None:
    ran = await run(sandbox, "print('before')\ndef f(x):\n    return 1 / x\n\nf(0)\n")
    assert (ran.exit_code, ran.stdout) == (1, "before\n")
    lines = [line for line in ran.stderr.splitlines() if "^" not in line and "~" not in line]
    assert lines == [
        "Traceback (most recent call last):",
        '  File "<program>", line 5, in <module>',
        "    f(0)",
        '  File "<program>", line 3, in f',
        "    return 1 / x",
        "ZeroDivisionError: division by zero",
    ]


async def test_a_syntax_error_shows_its_line(sandbox: Sandbox) -> None:
    ran = await run(sandbox, "x = 1\ny = = 2\n")
    assert ran.exit_code == 1
    assert 'File "<program>", line 2' in ran.stderr
    assert ran.stderr.strip().endswith("SyntaxError: invalid syntax")
    assert "_program.py" not in ran.stderr


async def test_what_was_printed_before_the_time_was_over_is_kept(sandbox: Sandbox) -> None:
    code = "print('first')\nimport time\ntime.sleep(1000)"
    ran = await run_out_of_time(sandbox, code, lambda ran: bool(ran.stdout))
    assert ran.stdout == "first\n"


async def test_a_long_output_keeps_its_two_ends(sandbox: Sandbox) -> None:
    ran = await run(sandbox, "print('the beginning')\nfor _ in range(1000): print('x' * 1000)\nprint('the end')")
    assert ran.stdout.startswith("the beginning\n")
    assert ran.stdout.endswith("\nthe end\n")
    assert "bytes left out]" in ran.stdout
    assert len(ran.stdout) < 250_000


async def test_a_process_in_the_background_does_not_hold_the_end_up(sandbox: Sandbox) -> None:
    ran = await run(sandbox, "sleep 1000 &\necho done", language="bash")
    assert (ran.ending, ran.exit_code, ran.stdout) == ("exited", 0, "done\n")


async def test_the_input_is_empty(sandbox: Sandbox) -> None:
    assert await prints(sandbox, "import sys\nsys.stdin.read()") == "''\n"


async def test_the_same_seed_gives_the_same_program(sandbox: Sandbox) -> None:
    code = "import random\n(hash('a'), hash('b'), random.random())"
    first, again, other = [await prints(sandbox, code, seed=seed) for seed in (1, 1, 2)]
    assert first == again
    assert first != other


# -- files -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of a run."""
    made = tmp_path / "inputs"
    (made / "deep").mkdir(parents=True)
    (made / "table.csv").write_text("a,b\n1,2\n")
    (made / "deep" / "note.txt").write_text("deep note")
    return made


async def test_files_in(sandbox: Sandbox, folder: Path) -> None:
    code = (
        "import os\n"
        "print(sorted(os.listdir('.')), sorted(os.listdir('files')))\n"
        "print(open('table.csv').read(), open('files/deep/note.txt').read(), open('own/kept.txt').read())\n"
    )
    printed = await prints(sandbox, code, folder=folder, names=("table.csv",), kept={"own/kept.txt": b"kept"})
    assert printed == "['files', 'own', 'table.csv'] ['deep', 'table.csv']\na,b\n1,2\n deep note kept\n"


async def test_the_folder_is_read_only(safe: Sandbox, folder: Path) -> None:
    code = (
        "for name in ('files/table.csv', 'files/new.txt', 'files/deep/note.txt'):\n"
        "    try:\n        open(name, 'w').write('changed')\n"
        "    except OSError as error: print(error.strerror)\n"
    )
    assert await prints(safe, code, folder=folder, names=("table.csv",)) == 3 * "Read-only file system\n"
    assert (folder / "table.csv").read_text() == "a,b\n1,2\n"
    assert sorted(path.name for path in folder.iterdir()) == ["deep", "table.csv"]


async def test_a_folder_in_a_private_one_can_be_read_inside(safe: Sandbox, folder: Path) -> None:
    (folder / "table.csv").chmod(0o444)
    folder.parent.chmod(0o700)
    assert await prints(safe, "open('files/table.csv').read()", folder=folder) == "'a,b\\n1,2\\n'\n"


async def test_files_out(sandbox: Sandbox, folder: Path) -> None:
    code = (
        "import os\n"
        "open('new.txt', 'w').write('new')\n"
        "os.makedirs('sub/deeper')\n"
        "open('sub/deeper/new.bin', 'wb').write(bytes(range(256)) * 1000)\n"
        "open('empty', 'w').close()\n"
        "open('changed.txt', 'a').write(' and more')\n"
        "os.remove('removed.txt')\n"
        "open('Übung 世界.txt', 'w').write('x')\n"
        "None\n"
    )
    kept = {"changed.txt": b"text", "removed.txt": b"gone", "same.txt": b"same"}
    ran = await run(sandbox, code, folder=folder, names=("table.csv",), kept=kept)
    assert (ran.exit_code, ran.stderr, ran.notes) == (0, "", ())
    assert ran.made == {
        "new.txt": b"new",
        "sub/deeper/new.bin": bytes(range(256)) * 1000,
        "empty": b"",
        "changed.txt": b"text and more",
        "Übung 世界.txt": b"x",
    }
    assert ran.removed == ("removed.txt",)


async def test_a_file_of_the_folder_that_was_replaced_goes_on_as_ones_own(sandbox: Sandbox, folder: Path) -> None:
    code = "import os\nos.remove('table.csv')\nopen('table.csv', 'w').write('mine')\nNone"
    ran = await run(sandbox, code, folder=folder, names=("table.csv",))
    assert ran.made == {"table.csv": b"mine"}
    shown = await prints(sandbox, "open('table.csv').read()", folder=folder, names=("table.csv",), kept=dict(ran.made))
    assert shown == "'mine'\n"
    assert (folder / "table.csv").read_text() == "a,b\n1,2\n"


async def test_a_given_file_is_changed_in_place_and_seen_by_the_one_that_imports_it(
    sandbox: Sandbox, folder: Path
) -> None:
    (folder / "price.py").write_text("def price():\n    return 7\n")
    (folder / "price_test.py").write_text("import price\nassert price.price() == 8, price.price()\n")
    code = "sed -i 's/7/8/' price.py && python3 price_test.py && echo passed"
    ran = await run(sandbox, code, folder=folder, names=("price.py", "price_test.py"), language="bash")
    assert (ran.stdout, ran.stderr) == ("passed\n", "")
    assert ran.made == {"price.py": b"def price():\n    return 8\n"}
    assert "7" in (folder / "price.py").read_text()


async def test_large_given_files_are_links(sandbox: Sandbox, folder: Path) -> None:
    (folder / "large.bin").write_bytes(bytes(MIB + 1))
    code = "import os\nprint(os.path.islink('large.bin'), os.path.getsize('large.bin'))"
    assert await prints(sandbox, code, folder=folder, names=("large.bin",)) == f"True {MIB + 1}\n"


async def test_large_kept_files_go_in_and_out(sandbox: Sandbox) -> None:
    data = os.urandom(3 * MIB + 17)
    ran = await run(sandbox, "open('b', 'wb').write(open('a', 'rb').read()[::-1]); None", kept={"a": data})
    assert ran.made == {"b": data[::-1]}, ran.stderr


async def test_files_of_a_program_that_was_stopped_are_kept(sandbox: Sandbox) -> None:
    code = "with open('half.txt', 'w') as file: file.write('half')\nimport time\nprint()\ntime.sleep(1000)"
    ran = await run_out_of_time(sandbox, code, lambda ran: bool(ran.stdout))
    assert ran.made == {"half.txt": b"half"}


async def test_too_many_and_too_large_files_are_named(sandbox: Sandbox) -> None:
    limits = replace(LIMITS, kept_files=2, kept_bytes=1000)
    code = "for n in range(3): open(f'f{n}', 'w').write('x')\nopen('a-large', 'w').write('y' * 2000); None"
    ran = await run(sandbox, code, limits)
    assert ran.made == {"f0": b"x", "f1": b"x"}
    assert ran.notes == (
        "a-large (2,000 bytes) was not kept: too many or too large files",
        "f2 (1 bytes) was not kept: too many or too large files",
    )


async def test_two_programs_share_nothing(sandbox: Sandbox) -> None:
    await run(sandbox, "touch here; touch $HOME/there; touch /dev/shm/agentorchestra-test", language="bash")
    try:
        printed = await prints(sandbox, "import os\nos.listdir('.'), os.path.exists(os.path.expanduser('~/there'))")
        assert printed == "([], False)\n"
        if sandbox.safe:
            assert not Path("/dev/shm/agentorchestra-test").exists()
            assert await prints(sandbox, "import os\nos.listdir('/dev/shm')") == "[]\n"
    finally:
        Path("/dev/shm/agentorchestra-test").unlink(missing_ok=True)


# -- tools of the host -----------------------------------------------------------------------------------------------


async def test_a_tool_of_the_host_gives_its_value(sandbox: Sandbox) -> None:
    ran = await run(sandbox, "tools.add(a=1, b=2) + tools.add(a=3, b=4)", call=add, tools=("add",))
    assert (ran.stdout, ran.stderr, ran.calls) == ("10\n", "", 2)


async def test_values_pass_the_pipe_as_json(sandbox: Sandbox) -> None:
    got: list[JsonValue] = []

    async def same(name: str, arguments: dict[str, JsonValue]) -> JsonValue:
        got.append(arguments["x"])
        return arguments["x"]

    value = {"text": "Grüße\n\x00🌍", "number": 1.5, "many": [1, None, True, {"deep": []}]}
    assert await prints(sandbox, f"tools.same(x={value!r}) == {value!r}", call=same, tools=("same",)) == "True\n"
    assert got == [value]


async def test_a_tool_error_can_be_caught(sandbox: Sandbox) -> None:
    async def fails(name: str, arguments: dict[str, JsonValue]) -> JsonValue:
        raise ToolError("there is no page 7; the document has 3")

    code = "try:\n    tools.page(number=7)\nexcept ToolError as error:\n    print('caught:', error)"
    printed = await prints(sandbox, code, call=fails, tools=("page",))
    assert printed == "caught: there is no page 7; the document has 3\n"
    ran = await run(sandbox, "tools.page(number=7)", call=fails, tools=("page",))
    assert ran.exit_code == 1
    assert ran.stderr.endswith("ToolError: there is no page 7; the document has 3\n")
    assert 'File "<program>", line 1' in ran.stderr


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("tools.other(a=1)", "ToolError: there is no tool 'other' here; the tools: add"),
        ("tools.add(1, 2)", "TypeError: tools.add takes its arguments by name: tools.add(argument=value)"),
        ("tools.add(a=object())", "TypeError: Object of type object is not JSON serializable"),
        ("tools._add", "AttributeError: _add"),
    ],
)
async def test_calls_that_cannot_be_made(sandbox: Sandbox, code: str, said: str) -> None:
    called = []

    async def note(name: str, arguments: dict[str, JsonValue]) -> JsonValue:
        called.append(name)
        return None

    ran = await run(sandbox, code, call=note, tools=("add",))
    assert (ran.exit_code, ran.stderr.splitlines()[-1], called) == (1, said, [])


async def test_without_tools_there_are_none(sandbox: Sandbox) -> None:
    ran = await run(sandbox, "tools.add(a=1, b=2)")
    assert ran.stderr.endswith("ToolError: there is no tool 'add' here; the tools: none\n")


async def test_too_many_calls_are_refused(sandbox: Sandbox) -> None:
    code = "for n in range(10): print(tools.add(a=n, b=0))"
    called = Counter[str]()

    async def counted(name: str, arguments: dict[str, JsonValue]) -> JsonValue:
        called[name] += 1
        return await add(name, arguments)

    ran = await run(sandbox, code, replace(LIMITS, calls=3), call=counted, tools=("add",))
    assert (ran.stdout, called) == ("0\n1\n2\n", {"add": 3})
    said = "ToolError: one program may call 3 tools at most; do the rest in another one\n"
    assert ran.stderr.endswith(said)


async def test_a_result_that_is_too_large_is_refused(sandbox: Sandbox) -> None:
    async def large(name: str, arguments: dict[str, JsonValue]) -> JsonValue:
        return "x" * 5_000

    ran = await run(sandbox, "tools.read()", replace(LIMITS, call_bytes=1_000), call=large, tools=("read",))
    assert "ToolError: the result has 5,0" in ran.stderr
    assert ran.stderr.endswith("bytes; at most 1,000 can be given\n")


async def test_arguments_that_are_too_large_end_the_program(sandbox: Sandbox) -> None:
    limits = replace(LIMITS, call_bytes=1_000)
    called = []

    async def note(name: str, arguments: dict[str, JsonValue]) -> JsonValue:
        called.append(name)
        return None

    ran = await run(sandbox, "tools.add(a='x' * 100_000)", limits, call=note, tools=("add",))
    assert (ran.ending, called) == ("lost", [])
    assert ran.detail == "it sent a call that is not one, and was stopped"


async def test_a_large_result_arrives_whole(sandbox: Sandbox) -> None:
    async def large(name: str, arguments: dict[str, JsonValue]) -> JsonValue:
        return "x" * 900_000

    assert await prints(sandbox, "len(tools.read())", call=large, tools=("read",)) == "900000\n"


async def test_calls_from_threads_get_their_own_answers(sandbox: Sandbox) -> None:
    code = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        "    print(list(pool.map(lambda n: tools.add(a=n, b=n), range(40))) == [2 * n for n in range(40)])\n"
    )
    assert await prints(sandbox, code, call=add, tools=("add",)) == "True\n"


async def test_an_error_of_the_host_ends_the_program_and_is_raised(sandbox: Sandbox) -> None:
    class Stopped(Exception):
        pass

    async def stops(name: str, arguments: dict[str, JsonValue]) -> JsonValue:
        raise Stopped("the budget is used up")

    before = _own_processes()
    with pytest.raises(Stopped, match="the budget is used up"):
        await run(
            sandbox, "try:\n    tools.ask()\nexcept BaseException: pass\nwhile True: pass", call=stops, tools=("ask",)
        )
    await _gone_but(before)


@pytest.mark.long
async def test_the_clock_stands_still_while_the_host_answers(sandbox: Sandbox) -> None:
    async def slow(name: str, arguments: dict[str, JsonValue]) -> JsonValue:
        await asyncio.sleep(3)
        return "answered"

    code = "print(tools.ask())\nwhile True: pass"
    ran = await run(sandbox, code, replace(LIMITS, seconds=2), call=slow, tools=("ask",))
    assert (ran.ending, ran.stdout) == ("time", "answered\n")


async def test_cancelled_in_the_middle_of_a_call_nothing_is_left(sandbox: Sandbox) -> None:
    called = asyncio.Event()

    async def never(name: str, arguments: dict[str, JsonValue]) -> JsonValue:
        called.set()
        await asyncio.Event().wait()
        return None

    before, open_before = _own_processes(), _open_files()
    task = asyncio.create_task(run(sandbox, "tools.ask()", call=never, tools=("ask",)))
    await called.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await _gone_but(before)
    gc.collect()
    await asyncio.sleep(0)
    assert _open_files() <= open_before


def _own_processes() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


async def _gone_but(before: set[int]) -> None:
    while _own_processes() - before:  # noqa: ASYNC110 - other processes set no event; the test's own limit ends it
        await asyncio.sleep(0.02)


def _open_files() -> int:
    return psutil.Process().num_fds()


# -- limits ----------------------------------------------------------------------------------------------------------


async def test_the_time_is_limited(sandbox: Sandbox) -> None:
    for language, code in (("python", "while True: pass"), ("bash", "while true; do :; done")):
        ran = await run(sandbox, code, replace(LIMITS, seconds=0.5), language=language)  # type: ignore[arg-type]
        assert ran.ending == "time"


async def test_the_memory_of_one_process_is_limited(sandbox: Sandbox) -> None:
    ran = await run(sandbox, "x = bytearray(1 << 30)\nlen(x)", replace(LIMITS, memory_bytes=512 * MIB))
    assert ran.ending == "memory" or ran.stderr.endswith("MemoryError\n"), ran
    assert ran.stdout == ""


@pytest.mark.parametrize("kernel", [True, False])
async def test_the_memory_of_several_processes_is_limited_together(
    sandbox: Sandbox, kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kernel:  # as where no control group can be made
        monkeypatch.setattr("agentorchestra.sandbox.bubblewrap.new_group", lambda *_: None)
    code = (
        "import os, time\n"
        "for _ in range(8):\n"
        "    if os.fork() == 0:\n        x = b'x' * (60 << 20); time.sleep(30); os._exit(0)\n"
        "print('ended by', os.waitstatus_to_exitcode(os.wait()[1]))\n"
    )
    ran = await run(sandbox, code, replace(LIMITS, memory_bytes=256 * MIB))
    if sandbox.name == "docker":  # the engine ends one of them, not all
        assert ran.stdout == "ended by -9\n"
        return
    assert ran.ending == "memory"
    if sandbox.name == "bubblewrap" and kernel and parent_group() is not None:
        assert ran.detail == "a process was ended: all together used more memory than the 256 MiB allowed"
    else:
        assert ran.detail.endswith("MiB of memory; at most 256 are allowed")
        assert ran.peak_bytes > 256 * MIB


async def test_what_is_mapped_and_not_used_is_no_memory(sandbox: Sandbox) -> None:
    code = "import mmap\nx = mmap.mmap(-1, 8 << 30, flags=mmap.MAP_PRIVATE | 0x4000, prot=mmap.PROT_READ)\nlen(x)"
    ran = await run(sandbox, code, replace(LIMITS, memory_bytes=256 * MIB))  # as Java maps its heap
    assert (ran.ending, ran.stdout) == ("exited", f"{8 << 30}\n"), ran


async def test_a_flood_of_output_is_stopped(sandbox: Sandbox) -> None:
    for stream in ("stdout", "stderr"):
        code = f"import sys\nwhile True: sys.{stream}.write('x' * 100_000)"
        ran = await run(sandbox, code, replace(LIMITS, flood_bytes=2 * MIB))
        assert ran.ending == "flood"
        assert len(getattr(ran, stream)) < 250_000


async def test_the_size_of_a_file_is_limited(sandbox: Sandbox) -> None:
    code = "f = open('large', 'wb')\nwhile True: f.write(b'x' * 1_000_000)"
    ran = await run(sandbox, code, replace(LIMITS, work_bytes=8 * MIB))
    assert ran.exit_code != 0
    assert ran.stdout == ""


async def test_the_number_of_processes_is_limited(safe: Sandbox) -> None:
    code = (
        "import os, time\n"
        "made = 0\n"
        "try:\n"
        "    for _ in range(200):\n"
        "        if os.fork() == 0:\n            time.sleep(30); os._exit(0)\n"
        "        made += 1\n"
        "except OSError: pass\n"
        "print(made)\n"
    )
    ran = await run(safe, code, replace(LIMITS, processes=20))
    assert 5 <= int(ran.stdout) <= 20


async def test_processes_that_ended_do_not_count(safe: Sandbox) -> None:
    code = (
        "import os\n"
        "for _ in range(60):\n"
        "    if os.fork() == 0:\n"
        "        if os.fork() == 0: os._exit(0)\n"  # whose parent is gone before it
        "        os._exit(0)\n"
        "    os.wait()\n"
        "    __import__('time').sleep(0.02)\n"
        "print('all')\n"
    )
    assert await prints(safe, code, limits=replace(LIMITS, processes=20)) == "all\n"


async def test_the_number_of_files_is_limited(safe: Sandbox) -> None:
    code = "for n in range(10**9): open(f'f{n}', 'w').close()"
    ran = await run(safe, code, replace(LIMITS, files=500))
    if safe.name == "docker":  # a limit of its file system
        assert "No space left on device" in ran.stderr
        return
    assert ran.ending == "files"
    assert ran.detail.endswith("files and folders; at most 500 are allowed")


async def test_all_files_together_are_limited(safe: Sandbox) -> None:
    code = "for n in range(100): open(f'f{n}', 'wb').write(b'x' * 1_000_000)"
    ran = await run(safe, code, replace(LIMITS, work_bytes=8 * MIB))
    assert "No space left on device" in ran.stderr
    assert sum(len(data) for data in ran.made.values()) <= 8 * MIB


# -- libraries -------------------------------------------------------------------------------------------------------

LIBRARIES = """
import io
import matplotlib.pyplot as plt, numpy, openpyxl, pandas, pypdf, scipy.optimize
from PIL import Image

book = openpyxl.Workbook()
book.active.append(["a", "b"])
for row in range(3):
    book.active.append([row, row * row])
book.save("squares.xlsx")
frame = pandas.read_excel("squares.xlsx", engine="openpyxl")
print(frame.b.sum(), numpy.linalg.det(numpy.eye(3)), round(scipy.optimize.brentq(lambda x: x * x - 2, 0, 2), 4))
plt.plot(frame.a, frame.b)
plt.title("Squares")
plt.savefig("squares.png")
print(Image.open("squares.png").size)
writer = pypdf.PdfWriter()
writer.add_blank_page(100, 200)
writer.write("blank.pdf")
print(pypdf.PdfReader("blank.pdf").pages[0].mediabox.height)
"""


@pytest.mark.long
async def test_the_libraries_can_be_used(sandbox: Sandbox) -> None:
    ran = await run(sandbox, LIBRARIES, LIMITS)
    assert (ran.stdout, ran.stderr) == ("5 1.0 1.4142\n(640, 480)\n200.0\n", "")
    assert ran.made["squares.png"].startswith(b"\x89PNG")
    assert sorted(ran.made) == ["blank.pdf", "squares.png", "squares.xlsx"]


WORKBOOKS = """
import pandas, xml.etree.ElementTree as tree, zipfile

print(pandas.read_excel("a.xls").loc[1, "Grams"], pandas.read_excel("a.ods", engine="calamine").loc[1, "Grams"])
content = tree.fromstring(zipfile.ZipFile("a.odt").read("content.xml"))
print("".join(content.itertext()))
"""


async def test_programs_read_old_and_open_documents(safe: Sandbox, folder: Path) -> None:
    rows: list[list[JsonValue]] = [["Animal", "Grams"], ["none", 0], ["Quoll", 417]]
    for name, data in (
        ("a.xls", makers.xls({"S": rows})),
        ("a.ods", makers.ods({"S": rows})),
        ("a.odt", makers.odt(["Quolls."])),
    ):
        (folder / name).write_bytes(data)
    names = ("a.xls", "a.ods", "a.odt")
    ran = await run(safe, WORKBOOKS, LIMITS, folder=folder, names=names)
    assert (ran.stdout, ran.stderr) == ("417 417\nQuolls.\n", "")


async def test_the_python_of_a_shell_has_the_libraries_too(safe: Sandbox) -> None:
    command = "python3 -c 'import sys, openpyxl; print(sys.version_info[:2], openpyxl.__name__)'"
    printed = await prints(safe, command, language="bash")
    assert printed == await prints(safe, "import sys, openpyxl; print(sys.version_info[:2], openpyxl.__name__)")


async def test_the_libraries_cannot_be_changed(safe: Sandbox) -> None:
    code = (
        "import openpyxl, os\n"
        "for path in (openpyxl.__file__, os.__file__, __import__('sys').executable):\n"
        "    for target in (path, os.path.join(os.path.dirname(path), 'evil.py')):\n"
        "        try:\n            open(target, 'a').close(); print('written', target)\n"
        "        except OSError: pass\n"
    )
    assert await prints(safe, code) == ""


async def test_nothing_else_of_our_environment_can_be_imported(safe: Sandbox) -> None:
    code = (
        "import importlib.util\n"
        "[n for n in ('agentorchestra', 'pydantic', 'openai', 'sqlalchemy', 'pytest') if importlib.util.find_spec(n)]"
    )
    assert await prints(safe, code) == "[]\n"
