"""Python callables as systems: `f(task)`, `f(task, ctx)`, or `f(spec, ctx, kit)` itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from agentorchestra.agents.agent import System
from agentorchestra.agents.types import Kit
from agentorchestra.core.errors import OutputError, SystemDefinitionError
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.threads import Threads


def system_of(name: str, target: Any) -> System:
    """Return a callable as a system, by the parameters that it needs.

    Args:
        given: `f(spec, ctx, kit)` is one as it is. `f(task)` and `f(task, ctx)` give a str or an AgentResult; a
            coroutine function runs in the loop, a plain one in a thread. `ctx` is a RunContext.

    Raises:
        SystemDefinitionError: it takes other arguments, or cannot be called.
    """
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        raise SystemDefinitionError(
            f"the system {name!r} is {target!r}, which cannot be called; give a function of the task"
        ) from None
    least, most = _positions(signature)
    for count in (1,) if least == 1 else (3, 1, 2):  # what has a default is nobody's to fill in
        if least <= count <= most:
            return target if count == 3 else partial(_call, name, target, count)
    raise SystemDefinitionError(
        f"the system {name!r} takes {signature}; write it as f(task), f(task, ctx) or f(spec, ctx, kit)"
    )


def _positions(signature: inspect.Signature) -> tuple[int, int]:
    """Return how many arguments a callable takes by position, at least and at most; none that fits is (1, 0)."""
    kinds = signature.parameters.values()
    if any(kind.kind is kind.KEYWORD_ONLY and kind.default is kind.empty for kind in kinds):
        return 1, 0
    places = [kind for kind in kinds if kind.kind in (kind.POSITIONAL_ONLY, kind.POSITIONAL_OR_KEYWORD)]
    most = 99 if any(kind.kind is kind.VAR_POSITIONAL for kind in kinds) else len(places)
    return sum(kind.default is kind.empty for kind in places), most


async def _call(
    name: str, target: Callable[..., Any], count: int, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit
) -> AgentResult:
    work = partial(target, *(spec.instruction, ctx)[:count])
    if _is_coroutine(target):
        answer = await work()
    else:
        answer = await Threads(1).run(work, name=name)
    if isinstance(answer, AgentResult):
        return answer
    if not isinstance(answer, str):
        raise OutputError(f"the system {name!r} gave {answer!r:.100}; return a str or an AgentResult")
    return AgentResult(answer=answer)


def _is_coroutine(target: Any) -> bool:
    call = target.func if isinstance(target, partial) else target
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004


def systems_of(targets: Mapping[str, Any]) -> dict[str, System]:
    """Return the user's callables as systems, by name; see `system_of`."""
    return {name: system_of(name, target) for name, target in targets.items()}
