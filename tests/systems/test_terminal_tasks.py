"""Tasks in folders: those of `examples/terminal-tasks`, solved through the terminal, and folders that are refused.

The scripts work as a person does: they type, read the screen, and write down what they saw there.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import SandboxUnavailableError, TaskFolderError, WorkspaceStateError
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.settings import SandboxSettings, Settings, TerminalSettings
from agentorchestra.core.spec import RunStatus
from agentorchestra.testing import ScriptedModel, call
from agentorchestra.workspace import Workspace
from agentorchestra.workspace.task_folder import TaskVerdict, read_task_folder, with_task
from tests.cli.support import Folder
from tests.sandbox.images import write_image
from tests.sandbox.support import usable

TASKS = Path(__file__).parents[2] / "examples" / "terminal-tasks"
Step = Any


def run(command: str, seconds: float = 0) -> Step:
    return call("terminal_run", command=command, timeout_s=seconds)


def start(command: str) -> Step:
    return call("terminal_start", command=command, screen=True)


def keys(*typed: str) -> Step:
    return call("terminal_send_keys", job=1, keys=list(typed), wait_s=30)


def lines(*typed: str) -> Step:
    return keys(*(one for line in typed for one in (line, "<enter>")))


def seen(request: ModelRequest) -> str:
    """The result of the last call."""
    return [message.text for message in request.messages if message.role == "tool"][-1]


def write(path: str, pattern: str, form: str = r"\1") -> Callable[[ModelRequest], Step]:
    """Write down what the last result shows."""

    def step(request: ModelRequest) -> Step:
        found = re.search(pattern, seen(request), re.DOTALL)
        assert found is not None, seen(request)
        return run(f"echo '{found.expand(form)}' > {path}")

    return step


def add_up(request: ModelRequest) -> Step:
    found = re.search(r"\[[\d, ]+\]", seen(request))
    assert found is not None, seen(request)
    return run(f"curl -s -d {sum(json.loads(found[0]))} localhost:8123/sum > receipt.txt; cat receipt.txt")


SCRIPTS: dict[str, list[Step]] = {
    "vim-edit": [
        start("vim harbour.txt"),
        keys(":g/^DRAFT/d", "<enter>", ":%s/harbor/harbour/g", "<enter>", ":$m0", "<enter>", ":wq", "<enter>"),
    ],
    "python-session": [
        start("python3 -q"),
        lines("import sensor", "one = sensor.connect()", "while one.status() != 'ready': one.calibrate()", ""),
        lines("channels = one.channels()", "total = sum(one.read(name) for name in channels)", "print('total', total)"),
        write("total.txt", r"\ntotal (\d+)\n"),
    ],
    "debugger": [
        start("python3 -m pdb ledger.py"),
        lines("b 14, balance < 0"),
        lines("c"),
        lines("p 'here', payment[0], balance - fee(number + 1)"),
        write("found.txt", r"\('here', '(\w+)', (-?\d+)\)", r"\1 \2"),
    ],
    "server-and-client": [
        call("terminal_start", command="python3 desk.py"),
        run("until curl -s localhost:8123/numbers; do sleep 0.1; done"),
        add_up,
        call("terminal_stop", job=1),
    ],
    "menu": [
        start("python3 order.py"),
        keys("<down>", "<down>", "<enter>"),
        keys("<up>", "<enter>"),
        keys("<up>", "<enter>"),
        keys("<down>", "<enter>"),
    ],
    "merge-conflict": [
        run("sh begin.sh; cd shop; git merge prices; cat prices.txt"),
        run("printf 'apple 4\\nbread 7\\ncheese 12\\nhoney 9\\nmilk 3\\nplum 6\\n' > prices.txt"),
        run("git commit --quiet --all --no-edit && git log --oneline --graph"),
    ],
    "failing-test": [
        run("python3 -m unittest; cat roman.py"),
        call(
            "files_edit",
            path="roman.py",
            old='SIGNS = [(1000, "M"), (500, "D"), (100, "C"), (50, "L"), (10, "X"), (5, "V"), (4, "IV"), (1, "I")]',
            new="SIGNS = list(zip([1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1], "
            '"M CM D CD C XC L XL X IX V IV I".split()))',
        ),
        run("python3 -m unittest"),
    ],
    "node-modules": [
        run("python3 install.py", 60),
        run('grep -rl --include=package.json \'"leftpad": "2.3.1"\' site/node_modules > found; head -3 found', 60),
        run('xargs sed -i \'s/"leftpad": "2.3.1"/"leftpad": "2.3.2"/\' < found', 60),
        run("cut -d/ -f3 found | sort > holes.txt; rm found; wc -l holes.txt", 60),
    ],
    "java-program": [run("java Tide.java 7", 60), run("sed -i 's/hour < 5/hour < 6/' Tide.java; java Tide.java 7", 60)],
    "make-build": [
        run("make; cat -A Makefile"),
        run("sed -i 's/^    wc/\\twc/; s/^book.txt:/book.txt: $(CHAPTERS)/' Makefile"),
        run("make; make"),
    ],
}
SHORT = ("vim-edit", "python-session", "failing-test")
PROGRAMS = {"vim-edit": "vim", "java-program": "javac", "make-build": "make", "server-and-client": "curl"}


@pytest.fixture
def sandbox() -> None:
    """Skip the test where there is no bubblewrap."""
    usable("bubblewrap")


def settings(**more: Any) -> Settings:
    return Settings(model="scripted", system="react", **more)


async def worked(folder: Path, place: Path, steps: list[Step], **more: Any) -> tuple[TaskVerdict, list[str]]:
    """The verdict on a task after these steps, and what each of them gave."""
    model = ScriptedModel([*steps, call("done", answer="It is done.")])
    workspace = Workspace(place, models={"scripted": model}, settings=settings(**more))
    workspace.task_folder = folder
    async with workspace:
        assert workspace.task is not None
        result = await workspace.run(workspace.task.instruction, environments=("terminal", "files"))
        assert result.status is RunStatus.COMPLETED, result
        shown = [message.text for message in model.requests[-1].messages if message.role == "tool"]
        return await workspace.tests.verdict(result.run_id), shown


def marked(name: str) -> Any:
    return name if name in SHORT else pytest.param(name, marks=pytest.mark.long)


def test_each_task_has_a_script() -> None:
    assert sorted(one.name for one in TASKS.iterdir() if one.is_dir()) == sorted(SCRIPTS)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [marked(name) for name in SCRIPTS])
@pytest.mark.usefixtures("sandbox")
async def test_a_task_is_solved_through_the_terminal(name: str, tmp_path: Path) -> None:
    if shutil.which(PROGRAMS.get(name, "sh")) is None:
        pytest.skip(f"{PROGRAMS[name]} is not installed: scripts/setup-system.sh")
    verdict, shown = await worked(TASKS / name, tmp_path, SCRIPTS[name])
    assert verdict.solved, (verdict, shown)
    assert (verdict.reward, verdict.why) == (1.0, "the tests gave the reward 1")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [marked(name) for name in SCRIPTS])
@pytest.mark.usefixtures("sandbox")
async def test_a_task_is_not_solved_when_nothing_is_done(name: str, tmp_path: Path) -> None:
    verdict, _ = await worked(TASKS / name, tmp_path, [run("true")])
    assert (verdict.solved, verdict.reward, verdict.why) == (False, 0.0, "the tests gave the reward 0")
    assert "Error" in verdict.output


# -- the format --------------------------------------------------------------------------------------------------------


def made(place: Path, **files: str) -> Path:
    """A task whose files these are; `__` stands for a slash, one that is empty is left out."""
    texts = {
        "instruction.md": "Write `done` into result.txt.\n",
        "task.toml": 'version = "1.0"\n[agent]\ntimeout_sec = 60.0\n',
        "environment/Dockerfile": "# the machine\nFROM debian:12\nWORKDIR /srv/app\nCOPY . \\\n  ./\nUSER nobody\n",
        "environment/given/a.txt": "a\n",
        "tests/test.sh": 'grep -q done result.txt && echo "$MARK" > /logs/verifier/reward.txt\n',
    } | {name.replace("__", "/").replace("_", "."): text for name, text in files.items()}
    for name, text in texts.items():
        if text:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text, encoding="utf-8")
    return place


@pytest.mark.usefixtures("sandbox")
async def test_the_machine_is_as_the_task_says_and_tests_are_out_of_reach(tmp_path: Path) -> None:
    config = 'version = "1.0"\n[verifier]\nenv = { MARK = "0.5" }\n[environment]\nmemory = "1G"\nstorage_mb = 100\n'
    folder = made(tmp_path / "task", task_toml=config)
    task = read_task_folder(folder)
    assert (task.workdir, task.agent_s, task.memory_mib, task.storage_mib) == ("/srv/app", None, 1024, 100)
    assert task.notes == (
        f"of {folder / 'environment/Dockerfile'} is not carried out: FROM, USER; commands find this machine's programs",
    )
    set_ = with_task(settings(), task)
    assert (set_.sandbox.memory_mib, set_.folder.max_mib, set_.terminal.workdir) == (1024, 100.0, "/srv/app")
    looks = run("pwd; cat given/a.txt; find /tests /logs; echo done > result.txt")
    verdict, (shown,) = await worked(folder, tmp_path / "ws", [looks])
    assert shown == "/srv/app\na\n/tests\n/logs"
    assert (verdict.solved, verdict.reward, verdict.why) == (False, 0.5, "the tests gave the reward 0.5")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("test", "solved", "why"),
    [
        ("exit 0", True, "the tests wrote no reward and ended with exit code 0"),
        ("exit 3", False, "the tests wrote no reward and ended with exit code 3"),
        ("echo much > /logs/verifier/reward.txt", False, "the tests wrote 'much' into reward.txt, which is no reward"),
        ("echo nan > /logs/verifier/reward.txt", False, "the tests wrote 'nan' into reward.txt, which is no reward"),
        ("echo '{\"score\": 1}' > /logs/verifier/reward.json", True, "the tests gave the reward 1"),
        ("ln -s /etc/passwd /logs/verifier/reward.txt; exit 1", False, "the tests wrote no reward and ended with exit"),
        ("sleep 60", False, "the tests did not come to their end: they may take 1 s"),
    ],
)
@pytest.mark.usefixtures("sandbox")
async def test_the_verdict(test: str, solved: bool, why: str, tmp_path: Path) -> None:
    config = 'version = "1.0"\n[verifier]\ntimeout_sec = 1.0\n' if test.startswith("sleep") else 'version = "1.0"\n'
    verdict, _ = await worked(made(tmp_path / "task", tests__test_sh=test, task_toml=config), tmp_path / "ws", [])
    assert verdict.why.startswith(why)
    assert verdict.solved is solved


DOCKERFILE = "environment__Dockerfile"
REFUSED: list[tuple[dict[str, str], str]] = [
    ({"instruction_md": ""}, "instruction.md is missing; a task folder needs it"),
    ({"instruction_md": " \n"}, "instruction.md is empty; write down what the agent is asked"),
    ({"tests__test_sh": ""}, "test.sh is missing; a task folder needs it"),
    ({"task_toml": ""}, "task.toml is missing"),
    ({"task_toml": "", "task_yaml": "a: 1"}, "in the first format of Terminal-Bench (task.yaml), which is not read"),
    ({"task_toml": "version ="}, "is no TOML"),
    ({"task_toml": 'version = "2.0"'}, "has the version '2.0'; versions 1.x are read"),
    ({"task_toml": "[agent]\ntimeout_sec = -1"}, "agent.timeout_sec = -1"),
    ({"task_toml": '[[steps]]\nname = "a"'}, "steps in"),
    ({"task_toml": '[environment]\ndocker_image = "org/task:1"'}, "lies on the image 'org/task:1'"),
    ({"task_toml": '[verifier]\nenv = { KEY = "${KEY}" }'}, "variables of this machine are not given to tests"),
    ({"environment__docker-compose_yaml": "services: {}"}, "describes several machines"),
    ({DOCKERFILE: ""}, "Dockerfile is missing"),
    (
        {DOCKERFILE: "FROM a\n# b\nENV A=b \\\n  C=d\nRUN apt-get install vim"},
        "line 5: RUN 'apt-get install vim' needs an",
    ),
    ({DOCKERFILE: "FROM a\nWORKDIR $HOME"}, "line 2 holds the variable '$HOME', which has no value"),
    ({DOCKERFILE: "FROM a\nENV A=${B:-c}"}, "line 2 holds the variable '${', which has no value"),
    ({DOCKERFILE: "FROM a\nENV 2A=b"}, "line 2 sets '2A', which is no name of a variable"),
    ({DOCKERFILE: "FROM a\nRAN x"}, "line 2 has the unknown instruction 'RAN'"),
    ({DOCKERFILE: "FROM a\nADD https://a.example/b.txt ."}, "adds 'https://a.example/b.txt', which only an engine"),
    ({DOCKERFILE: "FROM a\nADD given.tar.gz ."}, "adds 'given.tar.gz', which only an engine fetches or unpacks"),
    ({DOCKERFILE: "FROM a\nWORKDIR /app\nCOPY given /data"}, "copies 'given' to '/data', outside of its WORKDIR"),
    ({DOCKERFILE: "FROM a\nCOPY --from=b x ."}, "sources of environment/ and a target are understood here"),
    ({DOCKERFILE: "FROM a\nCOPY ../tests ."}, "copies '../tests', which is not in"),
    ({DOCKERFILE: "FROM a\nCOPY none ."}, "copies 'none', which is not in"),
    ({DOCKERFILE: 'FROM a\nCOPY ["a'}, "cannot be read"),
]


@pytest.mark.parametrize(("files", "sentence"), REFUSED, ids=[sentence for _, sentence in REFUSED])
def test_a_folder_that_is_no_task_is_refused(files: dict[str, str], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(TaskFolderError, match=re.escape(sentence)):
        read_task_folder(made(tmp_path, **files))


def test_with_an_image_only_workdir_is_read(tmp_path: Path) -> None:
    task = read_task_folder(made(tmp_path, environment__Dockerfile="FROM a\nWORKDIR /app\nRUN x\nCOPY y z"), image="i")
    assert (task.workdir, task.copies) == ("/app", ())
    (note,) = task.notes
    assert note.endswith("only WORKDIR is read; terminal.image has to be built from it")


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
async def test_on_an_image_the_tests_find_what_the_agent_left_in_it(tmp_path: Path) -> None:
    folder = made(
        tmp_path / "task",
        environment__Dockerfile="FROM a\nRUN make everything\nWORKDIR /app\n",
        tests__test_sh='[[ -f /opt/kept && $(<task.txt) == "solve it" ]] && echo 1 > /logs/verifier/reward.txt',
    )
    (tmp_path / "image").mkdir()
    image = TerminalSettings(image=str(write_image(tmp_path / "image", form="docker.tar")))
    verdict, _ = await worked(folder, tmp_path / "ws", [run("mkdir /opt; echo a > /opt/kept")], terminal=image)
    assert verdict.solved, verdict
    verdict, _ = await worked(folder, tmp_path / "ws", [run("true")], terminal=image)
    assert (verdict.solved, verdict.why) == (False, "the tests wrote no reward and ended with exit code 1")


@pytest.mark.usefixtures("sandbox")
async def test_what_the_dockerfile_sets_and_adds_is_there_without_an_image(tmp_path: Path) -> None:
    dockerfile = (
        "FROM a\nARG PLACE=/srv\nENV SEA=north NAME='a b'\nENV WHERE the ${SEA} sea\nENV PATH=$PLACE/app/bin:$PATH\n"
        'WORKDIR $PLACE/app\nADD given/a.txt b/\nCOPY ["given/a.txt", "c.txt"]\nVOLUME /data\n'
    )
    look = 'echo "$SEA, $NAME, $WHERE"; cat b/a.txt c.txt; command -v tool'
    folder = made(
        tmp_path / "task",
        environment__Dockerfile=dockerfile,
        tests__test_sh=f"({look}) | cmp - seen && grep -q 'north sea' seen",
    )
    make = "mkdir bin; printf '#!/bin/sh\n' > bin/tool; chmod +x bin/tool"
    verdict, (shown,) = await worked(folder, tmp_path / "ws", [run(f"{make}; ({look}) | tee seen")])
    assert shown == "north, a b, the north sea\na\na\n/srv/app/bin/tool"
    assert verdict.solved, verdict


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
async def test_what_the_agent_left_running_still_runs_when_the_tests_do(tmp_path: Path) -> None:
    folder = made(
        tmp_path / "task",
        tests__test_sh="python3 /tests/ask.py 8123 && python3 /tests/ask.py 8124 && pwd",
        tests__ask_py="import sys, urllib.request as u\nprint(u.urlopen(f'http://localhost:{sys.argv[1]}/a.txt').read())\n",
    )
    served = [
        call("terminal_start", command="python3 -m http.server 8123 --directory given"),
        run("(setsid python3 -m http.server 8124 --directory given >/dev/null 2>&1 &)"),
        run("until curl -sf localhost:8123/a.txt && curl -sf localhost:8124/a.txt; do sleep 0.1; done; cd /; rm -rf b"),
    ]
    verdict, shown = await worked(folder, tmp_path / "ws", served)
    assert verdict.solved, (verdict, shown)
    assert verdict.output == "b'a\\n'\nb'a\\n'\n/srv/app\n"
    verdict, _ = await worked(folder, tmp_path / "ws", [run("true")])
    assert not verdict.solved


@pytest.mark.usefixtures("sandbox")
async def test_what_the_agent_made_of_its_shell_is_not_what_runs_the_tests(tmp_path: Path) -> None:
    tricks = (
        "bash() { echo 1 > /logs/verifier/reward.txt; }; export -f bash; export BASH_ENV=/srv/app/trick; cd /; "
        "echo 'echo 1 > /logs/verifier/reward.txt; exit' > /srv/app/trick; set -e; "
        "mkdir -p /logs/verifier && echo 1 > /logs/verifier/reward.txt"
    )
    folder = made(tmp_path / "task", tests__test_sh="pwd; test -e result.txt")
    verdict, _ = await worked(folder, tmp_path / "ws", [run(tricks)])
    assert (verdict.why, verdict.output) == ("the tests wrote no reward and ended with exit code 1", "/srv/app\n")


@pytest.mark.usefixtures("sandbox")
async def test_a_task_that_nobody_worked_on_is_as_it_begins(tmp_path: Path) -> None:
    verdict, _ = await worked(made(tmp_path / "task", tests__test_sh="cat given/a.txt"), tmp_path / "ws", [])
    assert (verdict.solved, verdict.output) == (True, "a\n")


async def test_a_workspace_without_a_task_folder_checks_nothing(tmp_path: Path) -> None:
    async with Workspace(tmp_path, models={"scripted": ScriptedModel([])}, settings=settings()) as workspace:
        with pytest.raises(WorkspaceStateError, match="the workspace has no task folder; set task_folder before"):
            await workspace.tests.verdict("run_1")


async def test_a_task_needs_a_sandbox_with_machines(tmp_path: Path) -> None:
    model = ScriptedModel([])
    off = settings(sandbox=SandboxSettings(backend="none"))
    workspace = Workspace(tmp_path / "ws", models={"scripted": model}, settings=off)
    workspace.task_folder = made(tmp_path / "task")
    with pytest.raises(SandboxUnavailableError, match="a task folder needs the sandbox bubblewrap, and here it is"):
        await workspace.open()
    assert model.requests == []


# -- the command -------------------------------------------------------------------------------------------------------

APP = """
from agentorchestra import Workspace
from agentorchestra.testing import ScriptedModel, call


def script(request):
    if any(message.role == "tool" for message in request.messages):
        return call("done", answer="Written.")
    assert "into result.txt" in request.messages[1].text
    return call("terminal_run", command="echo done > result.txt")


def workspace():
    return Workspace(models={"scripted": ScriptedModel(script)})
"""


def _told(ran: Any) -> list[str]:
    """What a command said, but for its files."""
    return [line for line in ran.err.splitlines() if " in agentorchestra-out/" not in line]


def test_the_command_says_whether_a_task_is_solved(tmp_path: Path) -> None:
    usable("bubblewrap")
    folder = Folder(tmp_path)
    folder.write("app.py", APP)
    folder.write("agentorchestra.toml", 'app = "app:workspace"\nmodel = "scripted"\nsystem = "react"\n')
    made(tmp_path / "task", tests__test_sh="grep done result.txt")
    ran = folder.run("run", "--task-folder", "task")
    assert (ran.code, ran.out) == (0, "Written.\n")
    assert _told(ran)[-1] == "solved: the tests wrote no reward and ended with exit code 0"
    assert "is not carried out: FROM, USER" in ran.err
    ran = folder.run("resume", "last", "--json")  # it has ended: its tests are run again, on its machine
    assert (ran.code, json.loads(ran.out)["task_folder"]["solved"]) == (0, True)
    made(tmp_path / "task", tests__test_sh="echo alas; exit 1")
    ran = folder.run("run", "--task-folder", "task", "--json")
    verdict = json.loads(ran.out)["task_folder"]
    assert (ran.code, verdict["solved"], verdict["output"]) == (1, False, "alas\n")
    ran = folder.run("run", "--task-folder", "task")
    assert _told(ran)[-2:] == ["alas", "not solved: the tests wrote no reward and ended with exit code 1"]
    for words, sentence in (
        (["run", "a task", "--task-folder", "task"], "TASK and --task-folder are given: leave one of them away"),
        (["run", "--task-folder", "nowhere"], "the task folder 'nowhere' is no folder"),
        (["run"], "Missing argument 'TASK' (or --task-file, --task-folder)"),
    ):
        ran = folder.run(*words)
        assert ran.code == 2
        assert sentence in ran.err


FAILING = """
import shutil
from pathlib import Path

from agentorchestra import Workspace
from agentorchestra.core.errors import ModelAuthError
from agentorchestra.testing import ScriptedModel, call


def script(request):
    if any(message.role == "tool" for message in request.messages):
        if not Path("goes_on").exists():
            raise ModelAuthError("the line is dead")
        if Path("breaks").exists():
            shutil.rmtree("task/tests")
        return call("done", answer="Written.")
    return call("terminal_run", command="pwd > result.txt; cat given/a.txt >> result.txt")


def workspace():
    return Workspace(models={"scripted": ScriptedModel(script)})
"""


@pytest.mark.long
def test_a_resume_works_on_the_tasks_machine_and_runs_its_tests(tmp_path: Path) -> None:
    usable("bubblewrap")
    folder = Folder(tmp_path)
    folder.write("app.py", FAILING)
    folder.write("agentorchestra.toml", 'app = "app:workspace"\nmodel = "scripted"\nsystem = "react"\n')
    made(tmp_path / "task", tests__test_sh="grep -x /srv/app result.txt && grep -x a result.txt && test ! -e first")
    ran = folder.run("run", "--task-folder", "task")
    assert ran.code == 0 and _told(ran)[-1].startswith("solved: ")  # its end does not matter to the tests
    folder.write("goes_on", "")
    ran = folder.run("resume", "last")
    assert (ran.code, ran.out) == (0, "Written.\n")
    assert _told(ran)[-1] == "solved: the tests wrote no reward and ended with exit code 0"
    folder.write("breaks", "")
    ran = folder.run("run", "--task-folder", "task")
    assert (ran.code, ran.out) == (1, "Written.\n")
    assert _told(ran)[-1].startswith("not solved: the tests could not be run: [Errno 2] No such file")
    ran = folder.run("resume", "last")
    assert ran.code == 2 and "test.sh is missing; a task folder needs it" in ran.err
