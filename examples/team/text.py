"""Example 1 of the paper (000, app. F, text): two figures from the web, and a calculation.

    python examples/team/text.py [--model NAME] [FOLDER]

How many thousand hours would Eliud Kipchoge need to the Moon at its closest, at the pace of his record? The planner
sends the browser use agent for the two figures, one after the other, and the deep analyzer calculates with `python`.
The pages are served on the loopback address; what they say is the paper's: 2:01:09 hours, 356,400 km. It needs the
extra `browser` and a Chromium.

No key and no network: what a language model would decide is decided by `Runner` below, from what it is shown;
`--model openai:gpt-5`, or any other, lets one do it. FOLDER keeps the workspace. The exit status is 1 if the answer is
not the right one.
"""

from __future__ import annotations

import re
import sys

from agentorchestra.testing import call
from support import Calls, Example, Mind, Shown, facts_of, main, page, steps

RECORD = "Kipchoge ran the marathon of 42.195 km in 2:01:09 hours in Berlin on 25 September 2022"
NEAREST = "At its perigee the Moon can come as near as 356,400 km"

PAGES = {
    "/": page(
        "Almanac", '<ul><li><a href="/kipchoge">Eliud Kipchoge</a></li><li><a href="/moon">The Moon</a></li></ul>'
    ),
    "/kipchoge": page("Eliud Kipchoge", f"<p>A runner from Kenya.</p><p>{RECORD}, his best time.</p>"),
    "/moon": page("The Moon", f"<p>On average it is 384,400 km away.</p><p>{NEAREST}.</p>"),
}

TASK = (
    "If Eliud Kipchoge could keep the pace of his record marathon for ever, how many thousand hours would he need from "
    "the Earth to the Moon at its closest? Use the almanac at http://{host}/ for the record and for the smallest "
    "distance at perigee, and round to the nearest thousand hours. Answer with the number of thousands alone."
)


class Runner(Mind):
    """Decides for the planner, the browser and the analyzer."""

    def plan(self, shown: Shown) -> Calls:
        """Two looks into the web, a calculation, the answer."""
        browsed, computed = shown.results("browser_use"), shown.results("deep_analyzer")
        record = shown.find(r"(\d:\d\d:\d\d)", "\n".join(browsed))
        nearest = shown.find(r"as near as ([\d,]+) km", "\n".join(browsed))
        if computed and (thousands := shown.find(r"thousand hours: (\d+)", computed[-1])):
            return call("done", answer=thousands, sources=facts_of(*browsed))
        if (plan := steps(shown, "Pace to the Moon", PLAN)) is not None:
            return plan
        host = shown.find(r"(127\.0\.0\.1:\d+)")
        if not record:
            return call("browser_use", task=f"Find the time of Eliud Kipchoge's record marathon at http://{host}/.")
        if not nearest:
            return call("browser_use", task=f"Find the smallest distance of the Moon at perigee at http://{host}/.")
        return call(
            "deep_analyzer",
            task="How many thousand hours does the distance take at the pace of the record, rounded to a whole number?",
            context=f"The record for 42.195 km is {record} hours. The distance is {nearest} km.",
        )

    def browse(self, shown: Shown) -> Calls:
        """The page of whatever the task is about, and its sentence."""
        host = shown.find(r"(127\.0\.0\.1:\d+)")
        wanted, sentence = ("Eliud Kipchoge", RECORD) if "record marathon" in shown.task else ("The Moon", NEAREST)
        link = re.search(rf'\[(\w+)\] link "{wanted}"', shown.page)
        if sentence in shown.page:
            return call("done", answer=sentence, sources=[{"source": shown.address, "quote": sentence}])
        if link is not None:
            return call("browser_click", ref=link[1])
        return call("browser_go_to_url", url=f"http://{host}/")

    def analyse(self, shown: Shown) -> Calls:
        """A calculation with the figures that the planner gave."""
        given = re.search(r"for ([\d.]+) km is (\d+):0*(\d+):0*(\d+) hours\. The distance is ([\d,]+) km", shown.told)
        if given is None:
            return call("done", answer="The figures are missing.", status="blocked")
        if not (printed := shown.results("python")):
            hours = f"({given[2]} + {given[3]} / 60 + {given[4]} / 3600)"
            return call("python", code=f"print(round({given[5].replace(',', '')} / ({given[1]} / {hours}) / 1000))")
        return call("done", answer="thousand hours: " + shown.find(r"(\d+)", printed[-1]))


PLAN = (
    ("Find the time of the record marathon", "browser_use"),
    ("Find the smallest distance of the Moon", "browser_use"),
    ("Calculate the hours and round them", "deep_analyzer"),
)

EXAMPLE = Example(TASK, "17", Runner, PAGES, browser=True)

if __name__ == "__main__":
    sys.exit(main(EXAMPLE, __doc__ or ""))
