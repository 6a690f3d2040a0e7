"""An evaluation as a log of Inspect (https://inspect.aisi.org.uk, `.eval`): its viewer shows every agent's lane.

A sample is a (question, arm, repeat); its epoch is the repeat, and its score stands under the name of the arm, so that
each arm has its own accuracy. Inspect takes the mean over the repeats of a question, then over questions, as
`statistics.mean` does. Importing this module takes seconds: it needs the extra `eval`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from inspect_ai.event import Event as InspectEvent
from inspect_ai.event import ModelEvent, SpanBeginEvent, SpanEndEvent, ToolEvent
from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalError,
    EvalLog,
    EvalSample,
    EvalSpec,
    EvalStats,
    recompute_metrics,
    write_eval_log,
)
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    GenerateConfig,
    ModelOutput,
    ModelUsage,
)
from inspect_ai.scorer import Score as InspectScore
from inspect_ai.tool import ToolCall as InspectToolCall
from inspect_ai.tool import ToolCallError, ToolInfo, ToolParams

from agentorchestra.core.budget import Usage
from agentorchestra.core.effects import OF_AGENTS, EffectKind
from agentorchestra.core.errors import EvaluationError
from agentorchestra.core.events import Event
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.messages import Message, ModelResponse, ToolCall
from agentorchestra.evaluation.plan import EvalPlan
from agentorchestra.evaluation.questions import EvalQuestion, QuestionSet
from agentorchestra.evaluation.results import VALID, outcome
from agentorchestra.evaluation.scores import RunAttempt, Score, attempts
from agentorchestra.log.ledger import Ledger, Record, parent_key
from agentorchestra.workspace import Workspace

SUFFIX = ".eval"
_METRICS = ("accuracy", "stderr")
_CALLS = (EffectKind.INVOKE_TOOL, EffectKind.INVOKE_ACTION)


def checked_path(path: Path) -> Path:
    """Return the path of a log to be written; raise EvaluationError if Inspect would not know it by its name."""
    if path.suffix != SUFFIX:
        raise EvaluationError(
            f"{path} does not end in {SUFFIX}, by which Inspect knows its logs; name it {path}{SUFFIX}"
        )
    return path


async def inspect_log(
    workspace: Workspace[Any], plan: EvalPlan, questions: QuestionSet, scores: Sequence[Score]
) -> EvalLog:
    """Return an evaluation as a log of Inspect, with its metrics.

    It holds the true answers: it is the evaluator's, and no run may see it. A place that was not run is a sample
    without a score, and then the log's status is `cancelled`.

    Args:
        scores: of all its places, see `kept_scores`.
    """
    tries: dict[tuple[str, str, int], list[RunAttempt]] = {}
    for attempt in await attempts(workspace, plan):
        tries.setdefault((attempt.question, attempt.arm, attempt.repeat), []).append(attempt)
    samples = []
    for score in scores:
        runs = [(run, await workspace.log.events(run.result.run_id)) for run in tries.get(_place(score), [])]
        samples.append(_sample(questions.by_id[score.question], score, runs))
    models = dict.fromkeys(model for sample in samples for model in sample.model_usage)
    arms = [arm.name for arm in plan.arms if any(arm.name in (sample.scores or {}) for sample in samples)]
    log = EvalLog(
        status="cancelled" if any(score.status == "not_run" for score in scores) else "success",
        eval=EvalSpec.model_validate(
            {
                "created": plan.created or "1970-01-01T00:00:00+00:00",
                "task": plan.name,
                "eval_id": plan.name,
                "run_id": plan.name,
                "task_id": plan.name,
                "task_version": plan.version[:12],
                "dataset": EvalDataset(name=plan.set, samples=len(plan.ids), sample_ids=list(plan.ids)),
                "model": ", ".join(models) or "none",
                "config": EvalConfig(epochs=plan.repeats, epochs_reducer=["mean"], score_on_error=True),
                "packages": {"agentorchestra": plan.distribution},
                "metadata": {"plan": plan.model_dump(mode="json")},
                "scorers": [{"name": name, "metrics": [{"name": metric} for metric in _METRICS]} for name in arms],
            }
        ),
        stats=EvalStats(model_usage=_added([sample.model_usage for sample in samples])),
        samples=samples,
    )
    recompute_metrics(log)
    return log


def write_log(log: EvalLog, path: Path) -> None:
    """Write a log of Inspect; outside of asyncio, as Inspect has a loop of its own."""
    write_eval_log(log, str(checked_path(path)), format="eval")


def _place(score: Score) -> tuple[str, str, int]:
    return score.question, score.arm, score.repeat


def _sample(question: EvalQuestion, score: Score, runs: Sequence[tuple[RunAttempt, list[Event]]]) -> EvalSample:
    truth = question.truth
    usage = [{name: _usage(use) for name, use in Ledger.of(log).usage_by_model.items() if name} for _, log in runs]
    first = runs[0][1][0].ts.isoformat() if runs else None
    last = runs[-1][1][-1].ts.isoformat() if runs else None
    label = outcome(score)
    is_counted = score.score is not None and label in VALID
    return EvalSample(
        id=f"{score.arm}/{score.question}",
        epoch=score.repeat + 1,
        input=question.task,
        target="" if truth is None else truth if isinstance(truth, str) else list(truth),
        files=[file.name for file in question.files] or None,
        messages=[ChatMessageUser(content=question.task), ChatMessageAssistant(content=score.answer)],
        output=ModelOutput.from_content(next(iter(_added(usage)), "none"), score.answer),
        scores={score.arm: _score(score)} if is_counted else {},
        metadata={
            "arm": score.arm,
            "question": score.question,
            "group": score.group,
            "outcome": label,
            "why": score.why,
            "runs": [attempt.result.run_id for attempt, _ in runs],
            "cost_usd": score.cost_usd,
            "steps": score.steps,
        },
        events=[event for attempt, log in runs for event in _lanes(attempt, log)],
        model_usage=_added(usage),
        started_at=first,
        completed_at=last,
        total_time=score.duration_s,
        error=EvalError(message=score.why, traceback="", traceback_ansi="") if label == "error" else None,
    )


def _score(score: Score) -> InspectScore:
    return InspectScore(value=float(score.score or 0), answer=score.answer, explanation=score.why or None)


def _usage(usage: Usage) -> ModelUsage:
    """Return usage as Inspect counts it: its input tokens are those that no cache held."""
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    return ModelUsage(
        input_tokens=usage.input_tokens - cached,
        output_tokens=usage.output_tokens,
        total_tokens=usage.input_tokens + usage.output_tokens,
        input_tokens_cache_read=usage.cache_read_tokens or None,
        input_tokens_cache_write=usage.cache_write_tokens or None,
        reasoning_tokens=usage.reasoning_tokens or None,
        total_cost=usage.cost_usd,
    )


def _added(usages: Sequence[Mapping[str, ModelUsage]]) -> dict[str, ModelUsage]:
    sums: dict[str, ModelUsage] = {}
    for by_model in usages:
        for name, usage in by_model.items():
            sums[name] = sums[name] + usage if name in sums else usage
    return sums


def _lanes(attempt: RunAttempt, log: Sequence[Event]) -> list[InspectEvent]:
    """Return a run's events: a span for the run, in it one for each agent, in these the requests and calls."""
    ledger = Ledger.of(log)
    times = {event.seq: event.ts for event in log}
    run, start, last = attempt.result.run_id, log[0].ts, log[-1]
    events: list[tuple[int, InspectEvent]] = [
        (0, SpanBeginEvent(id=run, name=f"attempt {attempt.attempt + 1}", timestamp=start, span_id=run)),
        (last.seq + 1, SpanEndEvent(id=run, timestamp=last.ts, span_id=run)),
    ]
    for key, record in ledger.records.items():
        lane = _lane(ledger, run, key.branch)
        end = times[record.seq] if record.outcome is not None else last.ts
        for seq, event in _effect_events(ledger, run, key, record, (times[record.began], end)):
            event.span_id = event.span_id or lane
            event.working_start = (event.timestamp - start).total_seconds()
            events.append((min(seq, last.seq), event))
    # An agent that has not ended is closed with the run, those it called first.
    return [event for _, event in sorted(events, key=lambda pair: pair[0])]


def _lane(ledger: Ledger, run: str, branch: str) -> str:
    while (key := parent_key(branch)) is not None:
        record = ledger.records.get(key)
        if record is not None and record.kind in OF_AGENTS:
            return f"{run}{key}"
        branch = key.branch
    return run


def _effect_events(
    ledger: Ledger, run: str, key: EffectKey, record: Record, at: tuple[datetime, datetime]
) -> Iterator[tuple[int, InspectEvent]]:
    """Yield what a viewer shows of an effect, with its place in the log."""
    began, end = at
    result = record.outcome
    arguments = record.effect.get("arguments", {})
    if record.kind in OF_AGENTS:
        span = f"{run}{key}"
        name = str(arguments.get("name", "agent"))
        parent = _lane(ledger, run, key.branch)
        begin = SpanBeginEvent(id=span, parent_id=parent, type="agent", name=name, timestamp=began, span_id=span)
        yield record.began, begin
        yield record.seq if result is not None else ledger.last_seq, SpanEndEvent(id=span, timestamp=end, span_id=span)
    elif record.kind is EffectKind.REQUEST_MODEL and result is not None:
        request = ledger.codec.decode(record.effect).request
        assert request is not None
        yield (
            record.began,
            ModelEvent(
                model=request.model,
                role=record.effect.get("purpose"),
                input=[_message(message) for message in request.messages],
                tools=[
                    ToolInfo(name=tool.name, description=tool.description, parameters=_parameters(tool.parameters))
                    for tool in request.tools
                ],
                tool_choice="auto",
                config=GenerateConfig(max_tokens=request.settings.max_tokens),
                output=_output(request.model, result.value),
                error=result.error,
                timestamp=began,
                completed=end,
            ),
        )
    elif record.kind in _CALLS and result is not None:
        value = result.value
        yield (
            record.began,
            ToolEvent(
                id=f"{run}{key}",
                function=str(record.effect["component"]).partition("@")[0],
                arguments=arguments,
                result=value if isinstance(value, str) else json.dumps(value, ensure_ascii=False),
                error=None if result.ok else ToolCallError("unknown", result.error or result.status),
                timestamp=began,
                completed=end,
            ),
        )


def _parameters(schema: Mapping[str, Any]) -> ToolParams:
    """Return the names and descriptions of a tool's arguments; the viewer shows no more of a schema."""
    fields = {
        name: {"description": str(argument.get("description", ""))} if isinstance(argument, dict) else {}
        for name, argument in schema.get("properties", {}).items()
    }
    return ToolParams.model_validate({"properties": fields, "required": schema.get("required", [])})


def _output(model: str, value: Any) -> ModelOutput:
    """Return a model's answer, from the recorded value; an empty one where there was none."""
    if not isinstance(value, dict):
        return ModelOutput(model=model)
    reply = ModelResponse.model_validate(value)
    message = ChatMessageAssistant(content=reply.text, tool_calls=_calls(reply.tool_calls), model=reply.model or model)
    choices = [ChatCompletionChoice(message=message)]
    return ModelOutput(model=reply.model or model, choices=choices, usage=_usage(reply.usage))


def _calls(calls: Sequence[ToolCall]) -> list[InspectToolCall] | None:
    return [
        InspectToolCall(
            id=call.id,
            function=call.name,
            arguments=dict(call.arguments) if isinstance(call.arguments, dict) else {"text": call.arguments},
        )
        for call in calls
    ] or None


def _message(message: Message) -> ChatMessage:
    name, text = message.digest, message.text
    if message.role == "system":
        return ChatMessageSystem(id=name, content=text)
    if message.role == "assistant":
        return ChatMessageAssistant(id=name, content=text, tool_calls=_calls(message.tool_calls))
    if message.role == "tool":
        return ChatMessageTool(id=name, content=text, tool_call_id=message.tool_call_id, function=message.name)
    return ChatMessageUser(id=name, content=text)
