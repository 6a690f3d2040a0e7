"""A device behind an MCP server is the environment `mobile`: a model works on it by its screenshots."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

from PIL import Image

from agentorchestra import Workspace, mcp, t2e
from agentorchestra.core.content import MediaBlock, text_of
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.settings import ModelProfile, Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.trust.policy import AllowAll

PHONE = Path(__file__).parents[2] / "examples" / "mcp" / "phone.py"


def red_or_colour(data: bytes) -> tuple[int, int] | str:
    """The middle of what is red in a picture; where nothing is, the one colour that it has."""
    picture = Image.open(io.BytesIO(data)).convert("RGB")
    found = [
        (x, y)
        for y in range(0, picture.height, 4)
        for x in range(0, picture.width, 4)
        if picture.getpixel((x, y)) == (255, 0, 0)
    ]
    if not found:
        red, green, blue = picture.getpixel((0, 0))  # type: ignore[misc]
        return f"#{red:02x}{green:02x}{blue:02x}"
    return sum(x for x, _ in found) // len(found), sum(y for _, y in found) // len(found)


async def test_a_model_drives_a_device_by_its_screenshots(tmp_path: Path) -> None:
    """The button jumps after each tap: who is not shown the screen as it is now misses it."""
    log = tmp_path / "log"
    server = {"command": sys.executable, "args": [str(PHONE), "5", str(log)], "trust": True}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"phone": server}}))
    told: list[str] = []

    async def decides(request: ModelRequest) -> Any:
        last = request.messages[-1].content
        pictures = [one for message in request.messages for one in message.content if isinstance(one, MediaBlock)]
        told.append(text_of(tuple(last)))
        if not pictures:
            outside = len(told) == 1  # a mistake first: the state comes after it all the same
            return decide(calls=[call("mobile_phone_tap", x=-1 if outside else 1, y=1)])
        seen = red_or_colour(await ws.store.get_blob(pictures[-1].sha256))
        if isinstance(seen, str):
            return decide(calls=[call("done", answer=seen)])
        return decide(calls=[call("mobile_phone_tap", x=seen[0], y=seen[1])])

    phone = mcp(tmp_path / "mcp.json")
    tools = await phone.open(lambda: None)
    try:
        mobile = t2e(tools, name="mobile", shows="phone_screenshot", words="Pixels of the picture are places to tap.")
        model = ScriptedModel(decides, profile=ModelProfile(model="scripted", vision=True))
        settings = Settings(system="react")
        async with Workspace(
            tmp_path / "ws", settings=settings, environments={"mobile": mobile}, policy=AllowAll()
        ) as ws:
            result = await ws.run("Which colour has the screen in the end?", model=model)
            assert result.status is RunStatus.COMPLETED, result.error
            assert (await ws.replay(result.run_id)).answer == result.answer_text
    finally:
        await phone.close()
    lines = log.read_text().splitlines()
    assert result.answer == lines[-2] and lines[-1] == "screenshot", lines
    assert [one for one in lines if one != "screenshot"] == ["hit", "hit", "hit", result.answer]
    assert len([one for one in lines if one == "screenshot"]) == 4, "one after each tap, and none by a replay"
    assert "nothing was seen yet; mobile_phone_screenshot shows it" in told[0]
    assert "-1, 1 is not on the screen, which is 320 x 480 pixels" in str(model.requests[1].messages)
    offered = {one.name for one in model.requests[0].tools}
    assert {"mobile_phone_tap", "mobile_phone_screenshot"} <= offered and "phone_tap" not in offered
