"""A Python file is written, looked at, imported, and run (000, app. G.1).

    python examples/primes/primes.py [FOLDER]

The agent writes `prime.py` with `terminal`, looks whether it is as it should be, and imports it with the tool `python`,
which works in the terminal's folder. (In the paper that import fails, and the agent runs the file in the terminal.) It
checks what came out in the terminal, and answers. No key and no network: what a language model would decide is decided
by `Programmer` below, which reads what the last call said. Everything it does is done: the shell, the import and the
check are real. It needs a sandbox (`agentorchestra sandbox` says whether there is one).

FOLDER keeps the workspace; without it everything is gone at the end. The exit status is 1 if the file or the answer is
not right.
"""

from __future__ import annotations

import ast
import asyncio
import re
import sys
import tempfile
from pathlib import Path

from agentorchestra import RunResult, Workspace
from agentorchestra.core.messages import ModelRequest, ToolCall
from agentorchestra.core.settings import Settings
from agentorchestra.testing import ScriptedModel, call

PROGRAM = '''\
"""The prime numbers up to a hundred."""


def primes(most: int = 100) -> list[int]:
    """All primes up to `most`, by dividing."""
    return [n for n in range(2, most + 1) if all(n % d for d in range(2, int(n**0.5) + 1))]


if __name__ == "__main__":
    print(primes())
'''
CHECK = "python3 -c 'import prime; found = prime.primes(); print(len(found), found[0], found[-1])'"


class Programmer:
    """Decides what to do next from what the last call said, as a model would."""

    def __call__(self, request: ModelRequest) -> ToolCall:
        """The next call; it is shown, with the last line of what came of the one before."""
        said = [one.text for one in request.messages if one.role == "tool"]
        if said:
            lines = [one for one in said[-1].splitlines() if not one.startswith(("</", "[exit code"))]
            print(f"           {lines[-1].strip()}")
        made = self.next(said)
        given = made.arguments if isinstance(made.arguments, dict) else {}
        words = " ".join(str(one) for one in given.values()).splitlines()
        print(f"  {made.name}: {words[0]}")
        return made

    def next(self, said: list[str]) -> ToolCall:
        """What to do after all that was said."""
        last = said[-1] if said else ""
        if not said:
            return call("terminal_run", command=f"cat > prime.py <<'END'\n{PROGRAM}END")
        if len(said) == 1:
            return call("terminal_run", command="cat prime.py")
        if "def primes" in last:  # it is as it was meant
            return call("python", code="import prime\nprime.primes()")
        found = re.search(r"\[[\d, ]+\]", last)
        if found is not None:
            self.answer = found.group()
            return call("terminal_run", command=CHECK)
        if re.search(r"^25 2 97$", last, re.MULTILINE):
            return call("done", answer=self.answer)
        return call("done", answer=f"This cannot be done here: {last}")


async def write_and_run(folder: Path) -> tuple[RunResult, list[str]]:
    """Run the task; its result, and what is not as it should be afterwards."""
    settings = Settings(prompt_tool_chars=0)  # the programmer knows all tools, and looks for none
    task = "Write a Python script prime.py that finds the primes up to 100 and gives them as a list; run it."
    print(task)
    async with Workspace(folder / "workspace", settings=settings) as ws:
        model = ScriptedModel(Programmer())
        result = await ws.run(task, model=model, system="react", environments=["terminal"])
        print(f"  answer:  {result.answer_text}\n  run:     {result.run_id} ({result.status}, {result.steps} steps)")
        file = ws.files.folder(result.run_id) / "prime.py"
        faults = [] if result.status == "completed" else [f"the run ended as {result.status}"]
        faults += [] if file.exists() and file.read_text() == PROGRAM else ["prime.py is not the program"]
    sieve = [n for n in range(2, 101) if n not in {m for d in range(2, 11) for m in range(2 * d, 101, d)}]
    try:
        right = ast.literal_eval(result.answer_text) == sieve
    except (ValueError, SyntaxError):
        right = False
    return result, faults if right else [*faults, "the answer is not the list of primes"]


def main() -> int:
    """Write and run the program; 0 when file and answer are right."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(temporary)
        _, faults = asyncio.run(write_and_run(folder))
    print(f"  check:   {'; '.join(faults) or 'right: the file is the program, the answer its primes'}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
