"""Example 2 of the paper (000, app. F, image): a program in a picture leads to a program on the web.

    python examples/team/image.py [--model NAME] [FOLDER]

The picture shows a Python program. The deep analyzer reads and runs it: it prints the path of a page. The browser use
agent opens that page, on which a C++ program stands, and the deep analyzer works out what that program does to the
numbers of the task; nobody compiles it. Picture and page are made here and served on the loopback address. It needs
the extra `browser` and a Chromium.

No key and no network: what a language model would decide is decided by `Coder` below, from what it is shown - the
pixels of the picture too; `--model openai:gpt-5`, or any other that sees, lets one do it. FOLDER keeps the workspace.
The exit status is 1 if the answer is not the right one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from letters import png, read, written

from agentorchestra.testing import call
from support import Calls, Example, Mind, Shown, facts_of, main, steps

PROGRAM = ('parts = ["sort", "er", "/", "cpp"]', "order = [2, 3, 2, 0, 1]", 'print("".join(parts[i] for i in order))')

CPP = b"""#include <utility>
#include <vector>
void arrange(std::vector<int>& v, int first, int last) {
  if (first >= last) return;
  int pivot = v[last], place = first;
  for (int i = first; i < last; i++)
    if (v[i] > pivot) std::swap(v[i], v[place++]);
  std::swap(v[place], v[last]);
  arrange(v, first, place - 1);
  arrange(v, place + 1, last);
}"""

PAGES = {"/cpp/sorter": CPP}

TASK = (
    "The picture shows a Python program. What it prints is the path of a page at http://{host}. The C++ program there "
    "arranges the list [35, 12, 99, 21, 5]. What is the sum of the third and the fifth number of the arranged list? "
    "Answer with the number alone."
)


def picture(folder: Path, host: str) -> Sequence[Path]:
    """The picture with the program."""
    path = folder / "program.png"
    path.write_bytes(png(written(PROGRAM, "navy")))
    return (path,)


class Coder(Mind):
    """Decides for the planner, the analyzer, the browser, and for the eyes."""

    def plan(self, shown: Shown) -> Calls:
        """The path, the page, the sum."""
        analysed, browsed = shown.results("deep_analyzer"), shown.results("browser_use")
        path = shown.find(r"it prints (/[\w/]+)", "\n".join(analysed))
        compared = shown.find(r"\(v\[i\] (\S+) pivot\)", "\n".join(browsed))
        if found := shown.find(r"the sum is (\d+)", "\n".join(analysed)):
            return call("done", answer=found, sources=facts_of(*browsed))
        if (plan := steps(shown, "From a picture to a sum", PLAN)) is not None:
            return plan
        if not path:
            return call("deep_analyzer", task="Read the Python program in program.png and run it. What does it print?")
        if not compared:
            host = shown.find(r"(127\.0\.0\.1:\d+)")
            return call("browser_use", task=f"Open http://{host}{path} and give the C++ program that stands there.")
        task = "What is the sum of the third and the fifth number of the list, when the program has arranged it?"
        numbers = shown.find(r"the list (\[[\d, ]+\])")
        return call("deep_analyzer", task=task, context=f"The list: {numbers}. The program: if (v[i] {compared} pivot)")

    def browse(self, shown: Shown) -> Calls:
        """The page whose address was given, and the line in which it compares."""
        wanted = shown.find(r"Open (http\S+)", shown.task)
        if compared := shown.find(r"(if \(v\[i\] \S+ pivot\))", shown.page):
            return call("done", answer=compared, sources=[{"source": shown.address, "quote": compared}])
        if shown.address == wanted:
            return call("done", answer="There is no program.", status="blocked")
        return call("browser_go_to_url", url=wanted)

    def analyse(self, shown: Shown) -> Calls:
        """A program that is seen is run; a list is arranged as it was said."""
        printed = shown.results("python")
        arranged = re.search(r"The list: (\[[\d, ]+\])\. The program: if \(v\[i\] ([<>])", shown.told)
        if arranged is not None:
            if not printed:
                code = f"v = sorted({arranged[1]}, reverse={arranged[2] == '>'})\nprint(v[2] + v[4])"
                return call("python", code=code)
            return call("done", answer="the sum is " + shown.find(r"(\d+)", printed[-1]))
        looked = shown.results("ask_media")
        if not looked:
            return call(
                "ask_media", question="Which program is in the picture? Letter by letter.", files=["program.png"]
            )
        if not printed:
            return call("python", code=shown.find(r"(parts = .*?\n.*?\nprint\(.*?\)\))", looked[-1]))
        return call("done", answer="it prints " + shown.find(r"(/[\w/]+)", printed[-1]))

    def look(self, shown: Shown) -> str:
        """What is written in the picture."""
        return "\n".join(read(shown.media[0][1]))


PLAN = (
    ("Read the program in the picture and run it", "deep_analyzer"),
    ("Get the C++ program from the page that it names", "browser_use"),
    ("Work out the sum", "deep_analyzer"),
)

EXAMPLE = Example(TASK, "26", Coder, PAGES, picture, browser=True)

if __name__ == "__main__":
    sys.exit(main(EXAMPLE, __doc__ or ""))
