"""Example 3 of the paper (000, app. F, audio): the page numbers that a recording names, sorted.

    python examples/team/audio.py [--model NAME] [FOLDER]

A recording says which pages are to be read for an exam. The deep analyzer has it listened to and sorts the numbers
with `python`; with that the planner's plan is fulfilled, and nobody else is asked. The recording is spoken by
espeak-ng, digit by digit.

No key and no network: what a language model would decide is decided by `Student` below, from what it is shown. It
hears, too: each word of the recording is compared with how espeak-ng says the words that it knows. `--model NAME`, of
a model that takes sound, lets a language model do it. FOLDER keeps the workspace. The exit status is 1 if the answer is
not the right one.
"""

from __future__ import annotations

import array
import io
import re
import shutil
import subprocess
import sys
import wave
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from agentorchestra.testing import call
from support import Calls, Example, Mind, Shown, main, steps

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
WORDS = ("read", "page", "and", "not", *DIGITS)
SAID = (
    "read page two four five and page one three two and page one three three "
    "and page one nine seven not page one nine eight"
)
PAUSE_S, RATE = 0.5, 22_050
"""Seconds of silence after each word; samples in a second, of espeak-ng."""

TASK = (
    "I missed the class on Friday, and the professor's recording says which pages we have to read for the exam. Which "
    "ones are it? Give the numbers in ascending order, separated by commas, and nothing else."
)


@cache
def spoken(word: str) -> bytes:
    """A word as espeak-ng says it, as samples of 16 bits, without the silence around it."""
    made = subprocess.run(["espeak-ng", "--stdout", word], check=True, capture_output=True, stdin=subprocess.DEVNULL)
    (found,) = words_in(made.stdout[made.stdout.index(b"data") + 8 :])
    return found


def words_in(samples: bytes) -> list[bytes]:
    """What stands between the silences."""
    values = array.array("h", samples[: len(samples) // 2 * 2])
    loud = [index for index, value in enumerate(values) if value]
    least = int(PAUSE_S * RATE * 0.9)
    ends = [at for at, (one, other) in enumerate(pairwise(loud)) if other - one > least]
    parts = zip([0, *(at + 1 for at in ends)], [*ends, len(loud) - 1], strict=True) if loud else ()
    return [values[loud[first] : loud[last] + 1].tobytes() for first, last in parts]


def recording(folder: Path, host: str) -> Sequence[Path]:
    """The recording.

    Raises:
        SystemExit: there is no espeak-ng.
    """
    if shutil.which("espeak-ng") is None:
        raise SystemExit("error: espeak-ng is not installed; install it (Debian: `apt install espeak-ng`)")
    path = folder / "exam.wav"
    silence = bytes(2 * int(PAUSE_S * RATE))
    with wave.open(str(path), "wb") as out:
        out.setparams((1, 2, RATE, 0, "NONE", ""))
        for word in SAID.split():
            out.writeframes(spoken(word) + silence)
    return (path,)


class Student(Mind):
    """Decides for the planner and the analyzer, and listens."""

    def plan(self, shown: Shown) -> Calls:
        """One agent can do it all; with its numbers the plan is fulfilled."""
        analysed = shown.results("deep_analyzer")
        if analysed and (numbers := shown.find(r"the pages are ([\d, ]+)", analysed[-1])):
            return call("done", answer=numbers)
        if (plan := steps(shown, "Pages of the exam", PLAN)) is not None:
            return plan
        return call("deep_analyzer", task=TASK)

    def analyse(self, shown: Shown) -> Calls:
        """Listen; sort what was heard, without what was taken back."""
        heard, printed = shown.results("ask_media"), shown.results("python")
        if not heard:
            return call("ask_media", question="What is said, word by word?", files=["exam.wav"])
        said = re.findall(rf"(not )?page ((?:(?:{'|'.join(DIGITS)}) ?)+)", heard[-1])
        if not said:
            return call("done", answer="No page is named.", status="blocked")
        if not printed:
            numbers = [
                "".join(str(DIGITS.index(one)) for one in words.split()) for taken_back, words in said if not taken_back
            ]
            return call("python", code=f"print(*sorted([{', '.join(numbers)}]), sep=', ')")
        return call("done", answer="the pages are " + shown.find(r"(\d+(?:, \d+)*)", printed[-1]))

    def look(self, shown: Shown) -> str:
        """The words of a recording."""
        with wave.open(io.BytesIO(shown.media[0][1])) as recorded:
            samples = recorded.readframes(recorded.getnframes())
        known = {spoken(word): word for word in WORDS}
        return " ".join(known.get(one, "(a word that I do not know)") for one in words_in(samples))


PLAN = (
    ("Listen to the recording", "deep_analyzer"),
    ("Sort the numbers", "deep_analyzer"),
    ("Put them into the form that is asked for", ""),
)

EXAMPLE = Example(TASK, "132, 133, 197, 245", Student, files=recording)

if __name__ == "__main__":
    sys.exit(main(EXAMPLE, __doc__ or ""))
