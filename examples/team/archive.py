"""Example 5 of the paper (000, app. F, spreadsheet and ZIP archive): two files of an archive that must be joined.

    python examples/team/archive.py [--model NAME] [FOLDER]

The archive holds a spreadsheet with foods, most of them twice under different names, and an XML file in which the names
of each food stand under its category. Which category has the one food whose second name is not in the spreadsheet? The
deep analyzer asks the archive as a whole: the text of the XML is read, then a program goes over the table and the XML.
The files are made here.

No key and no network: what a language model would decide is decided by `Cook` below, from what it is shown; `--model
openai:gpt-5`, or any other, lets one do it. FOLDER keeps the workspace. The exit status is 1 if the answer is not the
right one.
"""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from openpyxl import Workbook  # type: ignore[import-untyped]

from agentorchestra.testing import call
from support import Calls, Example, Mind, Shown, main, steps

FOODS = {
    "Vegetables": (("aubergine", "eggplant"), ("courgette", "zucchini"), ("rocket", "arugula")),
    "Pulses": (("chickpeas", "garbanzo beans"), ("broad beans", "fava beans")),
    "Sweets": (("candy floss", "cotton candy"), ("treacle", "molasses")),
}
ALONE = "fava beans"
"""The name that the spreadsheet leaves out."""

TASK = (
    "The archive holds a spreadsheet with foods and an XML file with categories. Most foods stand in the spreadsheet "
    "twice, under two names that the XML gives them. Under which category of the XML is the one food that does not "
    "appear a second time under its other name? Answer with the name of the category alone."
)


def archive(folder: Path, host: str) -> Sequence[Path]:
    """The archive: `foods.xlsx`, three columns of names in no order, and `categories.xml`."""
    names = sorted(name for foods in FOODS.values() for both in foods for name in both if name != ALONE)
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(["shelf A", "shelf B", "shelf C"])
    for start in range(0, len(names), 3):
        sheet.append(names[start : start + 3])
    table = io.BytesIO()
    book.save(table)
    lines = ["<categories>"]
    for category, foods in FOODS.items():
        lines += [f'  <category name="{category}">']
        lines += [f"    <food><name>{one}</name><name>{other}</name></food>" for one, other in foods]
        lines += ["  </category>"]
    path = folder / "foods.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("foods.xlsx", table.getvalue())
        packed.writestr("categories.xml", "\n".join([*lines, "</categories>"]))
    return (path,)


JOIN = r"""
import re
there = {str(cell).strip() for rows in tables.values() for row in rows for cell in row}
category = ""
for line in "\n".join(texts.values()).split("\n"):
    category = (re.findall(r'category name="([^"]+)"', line) or [category])[0]
    names = re.findall(r"<name>([^<]+)</name>", line)
    if len([name for name in names if name in there]) == 1:
        print("stands alone:", names, "in the category", category)
"""


class Cook(Mind):
    """Decides for the planner and the analyzer, and for the questions to the archive."""

    def plan(self, shown: Shown) -> Calls:
        """One agent can do it all; the category that it found is the answer."""
        analysed = shown.results("deep_analyzer")
        if analysed and (category := shown.find(r"in the category (\w+)", analysed[-1])):
            return call("done", answer=category)
        if (plan := steps(shown, "The food without a second name", PLAN)) is not None:
            return plan
        return call("deep_analyzer", task=TASK)

    def analyse(self, shown: Shown) -> Calls:
        """Ask the archive; what it says is the answer."""
        asked = shown.results("analyze_file")
        if not asked:
            return call("analyze_file", file="foods.zip", question=TASK)
        if category := shown.find(r"in the category (\w+)", asked[-1]):
            return call("done", answer=f"in the category {category}")
        return call("done", answer="No food stands alone.", status="blocked")

    def answer(self, shown: Shown) -> str:
        """What a part of the archive says; a program over all of it; what follows from its output."""
        said = shown.request.messages[0].text
        if "short Python program" in said:
            fits = "<name>" in shown.told and "foods.xlsx" in shown.told
            return json.dumps({"code": JOIN if fits else ""})
        if "You draw together" in said:
            category = shown.find(r"in the category (\w+)")
            answer = f"in the category {category}" if category else ""
            return json.dumps({"complete": bool(category), "answer": answer, "marks": ["E1"] if category else []})
        if "You read one part of a file" in said:
            return json.dumps({"findings": [], "answers": False})
        return super().answer(shown)


PLAN = (
    ("Find the food without a second name, and its category", "deep_analyzer"),
    ("Give the name of the category", ""),
)

EXAMPLE = Example(TASK, "Pulses", Cook, files=archive)

if __name__ == "__main__":
    sys.exit(main(EXAMPLE, __doc__ or ""))
