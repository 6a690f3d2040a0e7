"""No sensitive effect happens unasked: attacks against a model that obeys everything, seen from outside.

The control of each is the same attack without the policy: it must happen then, or the test would show nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.injections.attacks import ATTACKS, Attack
from benchmarks.injections.runs import attempt

from agentorchestra.runtime.policy import AllowAll


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda one: one.name)
async def test_it_does_not_happen_unasked(attack: Attack, tmp_path: Path) -> None:
    guarded = await attempt(attack, tmp_path / "guarded")
    assert not guarded.happened
    assert guarded.asked, "stopped by a question, not by chance"
    assert guarded.result.status == "completed", guarded.result.error
    control = await attempt(attack, tmp_path / "control", AllowAll())
    assert control.happened, "without the policy it must happen"
