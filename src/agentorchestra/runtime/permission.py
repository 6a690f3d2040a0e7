"""Who may call what: by the capabilities of a branch, by policy, by people."""

from __future__ import annotations

from pydantic import JsonValue

from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.spec import first_names
from agentorchestra.runtime.branch import Branch
from agentorchestra.runtime.planning import with_plan
from agentorchestra.runtime.review import looked_at, with_look
from agentorchestra.runtime.run import Run
from agentorchestra.trust.approvals import refused_before, same_call
from agentorchestra.trust.provenance import origins

OF_EVERY_AGENT = frozenset({"done", "find_tools", "find_agents", "open_tools"})
"""What every agent may call: to finish, and to find what it may call. They are made for it: it passes none on."""

_AGENTS = (EffectKind.INVOKE_AGENT, EffectKind.SPAWN)


# -- capabilities ------------------------------------------------------------------------------------------------------


def capabilities_of_run(run: Run) -> frozenset[str]:
    return frozenset(run.manifest.tools) | OF_EVERY_AGENT


def capabilities_of_effect(branch: Branch, effect: Effect) -> frozenset[str] | None:
    """Return what an effect of a branch may call itself: what the branch may, and what its component is made of."""
    own = branch.capabilities
    return None if own is None else own | _made_of(branch.run, effect)


def capabilities_of_agent(own: frozenset[str] | None, tools: tuple[str, ...]) -> frozenset[str]:
    """Return what a sub-agent may call: of the tools that it is to have those that its caller may call itself."""
    names = frozenset(tools) | OF_EVERY_AGENT
    return names if own is None else names & (own | OF_EVERY_AGENT)


def _made_of(run: Run, effect: Effect) -> frozenset[str]:
    """Return the parts of a component: its maker's choice, which its caller gets through it and in no other way."""
    by_makers = run.services.granted
    return frozenset() if by_makers is None else by_makers(effect) & frozenset(run.manifest.tools)


def denial(branch: Branch, effect: Effect) -> str | None:
    """Return why the branch's capabilities refuse an effect, None if they do not."""
    own = branch.capabilities
    if own is None:
        return None
    agent = branch.agent
    if effect.kind is EffectKind.INVOKE_TOOL and agent is not None and effect.name in agent.own_tools:
        return None  # made for this agent by whoever runs it
    if effect.kind in (EffectKind.INVOKE_TOOL, EffectKind.INVOKE_ACTION) and effect.name not in own:
        return f"{effect.name!r} is not among the tools this agent may use: {first_names(sorted(own), 60)}"
    tools = effect.arguments.get("tools") if effect.kind in _AGENTS else None
    if isinstance(tools, list):
        extra = sorted({str(t) for t in tools} - own - _made_of(branch.run, effect))
        if extra:
            return (
                f"the sub-agent was to get {', '.join(extra)}, which its caller may not use itself; "
                f"choose from {first_names(sorted(own), 60)}"
            )
    return None


# -- policy and people -------------------------------------------------------------------------------------------------


async def judge(branch: Branch, key: EffectKey, effect: Effect, base: dict[str, JsonValue]) -> str | None:
    run = branch.run
    records = run.ledger.records
    question_record = records.get(EffectKey(f"{key.path}.approval", 1)) if records else None
    if question_record is not None:
        # The call was put to a human: only the answer decides, whatever policy would say by now.
        details = dict(question_record.effect.get("arguments", {}))
        same_call(key, details, effect)
        question = str(details.pop("question", ""))
        reason = question
    else:
        view = with_look(branch, effect, await with_plan(branch, effect, run.view()))
        verdict = run.policy.decide(effect, view)
        if verdict.action == "allow" and view.second_look:
            verdict = await looked_at(branch, key, effect, view, base)
        if verdict.action == "allow":
            run.received.reading(effect.tags, effect.arguments)
            return None
        reason = verdict.reason
        if verdict.action == "deny":
            return f"denied: {reason}"
        if refused_before(run.ledger, effect):
            return "denied: the user has refused this very call before in this run"
        question = f"Allow {effect.name}? {reason}"
        details = {
            "component": effect.component,
            "arguments": effect.arguments,
            "trust": {name: trust.value for name, trust in verdict.arguments.items()},
            "origins": origins(effect, verdict.arguments, branch.seen, view.user_content, tuple(run.files)),
        }
    answer = await ask(branch, key, question, details, base, "approval")
    if answer.ok and answer.value is True:
        run.received.reading(effect.tags, effect.arguments)
        return None
    if not answer.ok:
        return f"denied: {reason} ({answer.error})"
    comment = "" if answer.value in (False, True, None) else f": {answer.value}"
    return f"denied by the user{comment}"


async def ask(
    branch: Branch,
    key: EffectKey,
    question: str,
    details: dict[str, JsonValue],
    base: dict[str, JsonValue],
    name: str,
    n: int = 1,
) -> Outcome:
    """Ask a human about an effect of a branch, for the `n`-th time.

    `name` says what the question is about (`approval` or `uncertain`), `details` are shown with it, `base` is the run's
    state as the effect finds it.
    """
    asking = type(branch)(branch.run, key, base, parent=branch, branch=f"{key.path}.{name}")
    asking.last_n = n - 1
    effect = Effect(
        kind=EffectKind.ASK_HUMAN,
        component="human@1.0.0",
        arguments={"question": question, **details},
        mode=Mode.REPEATABLE,
        role=branch.role,
        purpose="approval",
    )
    return await asking.perform(effect)
