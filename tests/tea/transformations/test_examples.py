"""The worked examples run, and show what each transformation is for."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples" / "transformations"

SHOWN = {
    "e2t": [
        "locker_take: Take a parcel out; what is left. Before: the door is open.",
        "blocked: locker does not allow take now: not true that the door is open",
        "completed: true\n[]\nis_open: true\nparcels: []",
    ],
    "t2e": [
        "workshop does not allow ship now: not true that the code as it stands was built",
        "line 1: invalid syntax",
        "completed: 5 characters\nbuilt\nshipped: 1 + 1",
    ],
    "a2t": [
        # The first run: anna remembers within it, berta is somebody else. The second run goes on from the first.
        "told before: nothing\ntold before: ['The parcel is blue.']\ntold before: nothing\n"
        "told before: ['The parcel is blue.', 'What was I told?']\n"
        "told before: ['The parcel is blue.', 'What was I told?', 'The parcel is blue.']\n"
        "told before: ['What was I told?']"
    ],
    "t2a": [
        "Put aside 5 pear. -> 5 pear put aside; left: {'pear': 7, 'apple': 3}",
        "Put aside 5 apple. -> only 3 apple left; left: {'pear': 7, 'apple': 3}",
    ],
    "a2e": [
        "waiting: I saw: the price is 110; the price is 107. Is that clear?",
        "completed: the price is 110\nthe price is 107\nYes.",
    ],
    "e2a": [
        "it ended as blocked: nim does not allow take now: not true that a turn takes 1 to 3 matches",
        "7 left, winner: nobody yet\n4 left, winner: nobody yet\n0 left, winner: I",
    ],
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", sorted(SHOWN))
async def test_the_example_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    await module.main()
    shown = capsys.readouterr().out
    for wanted in SHOWN[name]:
        assert wanted in shown
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SHOWN)
