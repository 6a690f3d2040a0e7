"""Example 4 of the paper (000, app. F, video): letters of a phrase that a video shows for a while.

    python examples/team/video.py [--model NAME] [FOLDER]

A video shows a phrase in white letters on red, and others before and after it. The deep analyzer looks at the frames of
that time, reads the phrase and counts the letter with `python` instead of by eye. The video is made here; it needs
ffmpeg.

No key and no network: what a language model would decide is decided by `Viewer` below, from what it is shown - the
pixels of the frames too; `--model openai:gpt-5`, or any other that sees, lets one do it. FOLDER keeps the workspace.
The exit status is 1 if the answer is not the right one.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from letters import png, read, written

from agentorchestra.testing import call
from support import Calls, Example, Mind, Shown, main, steps

SCENES = (("PRESS START", "navy"), ("CHOOSE THE NEXT LEVEL", "darkred"), ("WELL DONE", "navy"))
SECONDS = 4
"""Of each scene."""

TASK = (
    "The video shows a phrase in white letters on red between the seconds 4 and 8. How often does the letter E stand "
    "in it? Answer with the number alone."
)


def video(folder: Path, host: str) -> Sequence[Path]:
    """The video of the scenes.

    Raises:
        SystemExit: there is no ffmpeg.
    """
    if shutil.which("ffmpeg") is None:
        raise SystemExit("error: ffmpeg is not installed; install it (Debian: `apt install ffmpeg`)")
    for number, (phrase, paper) in enumerate(SCENES):
        (folder / f"scene{number}.png").write_bytes(png(written(["", "", "", phrase], "white", paper)))
    path = folder / "game.mp4"
    frames = ("-framerate", f"1/{SECONDS}", "-i", str(folder / "scene%d.png"))
    made = ("-r", "5", "-pix_fmt", "yuv420p", "-crf", "12", str(path))
    subprocess.run(["ffmpeg", "-v", "error", "-y", *frames, *made], check=True, stdin=subprocess.DEVNULL)
    return (path,)


class Viewer(Mind):
    """Decides for the planner and the analyzer, and for the eyes."""

    def plan(self, shown: Shown) -> Calls:
        """One agent can do it all: it gets the whole task, and its answer is the team's."""
        if (plan := steps(shown, "Letters of a phrase", PLAN)) is not None:
            return plan
        return call("deep_analyzer", task=TASK)

    def analyse(self, shown: Shown) -> Calls:
        """Look, then count what was read."""
        looked, printed = shown.results("ask_media"), shown.results("python")
        if not looked:
            asked = "Which phrase stands there in white on red? Letter by letter."
            return call("ask_media", question=asked, files=["game.mp4"], from_s=4.5, to_s=7.5)
        phrase = shown.find(r"the phrase is ([A-Z ]+)", looked[-1])
        if not phrase:
            return call("done", answer="The phrase cannot be seen.", status="blocked")
        if not printed:
            return call("python", code=f"print({phrase!r}.count('E'))")
        return call("done", answer=shown.find(r"([0-9]+)", printed[-1]))

    def look(self, shown: Shown) -> str:
        """What most of the frames say."""
        seen = [line for _, data in shown.media for line in read(data)]
        return f"the phrase is {max(seen, key=seen.count).strip()}" if seen else "nothing is written there"


PLAN = (("Read the phrase and count the letter", "deep_analyzer"),)

EXAMPLE = Example(TASK, "5", Viewer, files=video)

if __name__ == "__main__":
    sys.exit(main(EXAMPLE, __doc__ or ""))
