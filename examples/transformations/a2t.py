"""A2T: an agent as a tool that keeps its memory and identity under an instance.

    python examples/transformations/a2t.py

An agent is folded into a tool: a question in, an answer out. Under one instance it is the same individual each time and
is told what it was asked and answered before; another instance knows nothing of that, and a later run of the session
goes on from it. No key is needed: a function stands in for the model. It answers from what it is shown, and nothing
else.
"""

from __future__ import annotations

import asyncio
import re
import tempfile

from agentorchestra import Agent, Workspace, a2t
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.testing import ScriptedModel, call, decide

CLERK = Agent(
    name="clerk",
    description="Takes down what it is told, and says what it was told before.",
    competencies=("remembering",),
    prompt="worker",
)

QUESTIONS = [("anna", "The parcel is blue."), ("anna", "What was I told?"), ("berta", "What was I told?")]


def model(request: ModelRequest) -> ModelResponse:
    """The clerk repeats what its prompt says it was told; the caller asks one question after the other."""
    text = "\n".join(one.text for one in request.messages)
    if "work on one task in steps" not in request.messages[0].text:
        told = re.findall(r"<asked>\s*(.*?)\s*</asked>", text, re.DOTALL)
        return decide(calls=[call("done", answer=f"told before: {told or 'nothing'}")])
    turns = [place for place, one in enumerate(request.messages) if one.name == "task"]  # of the session, but the first
    turn = request.messages[turns[-1] :] if turns else request.messages
    replies = [one.text for one in turn if one.role == "tool"]
    if len(replies) < len(QUESTIONS):
        instance, task = QUESTIONS[len(replies)]
        return decide(calls=[call("clerk", task=task, instance=instance)])
    return decide(calls=[call("done", answer="\n".join(replies))])


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with Workspace(folder, tools=a2t(CLERK)) as ws:
            for _ in range(2):
                result = await ws.run("Ask the clerks.", system="react", model=ScriptedModel(model), session="office")
                print(result.answer_text)
                await ws.replay(result.run_id, model=ScriptedModel(model))  # nothing is asked again


if __name__ == "__main__":
    asyncio.run(main())
