"""Training data from recorded runs: what agents were shown and what they did, as trainers take it (002, sec. 3.3).

    a run's log ─> courses: the decisions of an agent, each with the request as it was asked
                       │
                       ├─> records for supervised fine-tuning: a whole course, or (state -> action) for each step
                       └─> preference pairs: two actions in one state, from runs and their forks, by how they ended

The records are those of TRL's dataset formats (https://huggingface.co/docs/trl/dataset_formats): conversational
`language modeling`, `prompt-completion` and `preference`, with a column `tools`. In the Hermes form calls stand as
`<tool_call>` in the text of the assistant and tools in the system prompt
(https://github.com/NousResearch/Hermes-Function-Calling), so that a trainer which knows no tools takes them too.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from pydantic import BaseModel, Field, JsonValue

from agentorchestra.core.content import MediaBlock, TextBlock, Trust
from agentorchestra.core.effects import OF_AGENTS, EffectKind
from agentorchestra.core.errors import EvolutionError
from agentorchestra.core.ids import EffectKey, canonical_json, sha256_json
from agentorchestra.core.messages import Message, ModelRequest, ToolSchema
from agentorchestra.core.protocols import RunRecord
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.evaluation.runner import dollars
from agentorchestra.log.bundle.secrets import secret_variables
from agentorchestra.log.ledger import Ledger, parent_key
from agentorchestra.models.prices import estimate_input_tokens
from agentorchestra.models.render import render_message
from agentorchestra.trust.redact import Redactor
from agentorchestra.workspace import Workspace

WINDOW = 16_384  # tokens of a record (002, app. A.2: a maximal length of 16K)

TRAIN, SOURCES = "train.jsonl", "sources.jsonl"
TOOLS_PROMPT = "training_tools"

Wire = Literal["openai", "hermes"]
Per = Literal["branch", "step"]
Long = Literal["sliding", "cut"]


# --- records, as TRL documents them ---------------------------------------------------------------------

Kind = Literal["language modeling", "prompt-completion", "preference"]
"""The types of records: a conversation that ends with what the assistant said (`messages`); a state and the action in
it (`prompt`, `completion`); a state and two actions in it, of which one led to a better end (`prompt`, `chosen`,
`rejected`)."""


@dataclass(frozen=True)
class TrainingRecord:
    """A record: its columns as TRL names them, and `tools`, which the Hermes form does not have."""

    kind: Kind
    columns: Mapping[str, JsonValue]

    def line(self) -> str:
        return json.dumps(self.columns, ensure_ascii=False) + "\n"


# --- what an agent did ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decided:
    key: EffectKey  # of its request
    request: ModelRequest  # what the model was shown
    reply: Message  # what it replied

    @property
    def state(self) -> str:
        return sha256_json([self.request.chain[-1], [tool.digest for tool in self.request.tools]])

    @property
    def action(self) -> str:
        """Identify what it did: its calls, or its words where it called nothing."""
        calls: list[JsonValue] = [[call.name, call.arguments] for call in self.reply.tool_calls]
        return canonical_json(calls or [self.reply.text])

    @property
    def readable(self) -> bool:
        """Return True if every call has an object for its arguments."""
        return all(isinstance(call.arguments, dict) for call in self.reply.tool_calls)


@dataclass(frozen=True)
class AgentCourse:
    """The decisions of one agent in a run, in their order."""

    agent: str  # its name
    branch: str  # of its effects
    leads: bool  # for the run's main agent, which has the run's task
    task: str  # what it was asked
    decisions: tuple[Decided, ...]


def courses(ledger: Ledger) -> list[AgentCourse]:
    """Return the courses of a run's agents, the main agent's first; requests are read from the log's hash chains.

    Only decisions count: what is asked beside an agent's work (memory, judges, reviews) is in no course.
    """
    by_owner: dict[EffectKey, list[Decided]] = {}
    for key, record in ledger.records.items():
        if record.kind is not EffectKind.REQUEST_MODEL or record.effect.get("purpose") not in ("decision", "final"):
            continue
        owner = _owner(ledger, key.branch)
        request = ledger.codec.decode(record.effect).request
        if owner is None or request is None or not request.messages or record.outcome is None or not record.outcome.ok:
            continue
        reply = record.outcome.response
        content = (TextBlock(text=reply.text, trust=Trust.AGENT),) if reply.text else ()
        message = Message(role="assistant", content=content, tool_calls=reply.tool_calls)
        by_owner.setdefault(owner, []).append(Decided(key, request, message))
    agent_courses = []
    for owner in sorted(by_owner, key=lambda owner: (owner.branch, owner.n)):
        arguments = ledger.records[owner].effect.get("arguments", {})
        name, task = str(arguments.get("name", "agent")), str(arguments.get("instruction", ""))
        decisions = sorted(by_owner[owner], key=lambda decision: (decision.key.branch, decision.key.n))
        agent_courses.append(AgentCourse(name, decisions[0].key.branch, owner.branch == "/", task, tuple(decisions)))
    return agent_courses


def _owner(ledger: Ledger, branch: str) -> EffectKey | None:
    while (key := parent_key(branch)) is not None:
        record = ledger.records.get(key)
        if record is not None and record.kind in OF_AGENTS:
            return key
        branch = key.branch
    return None


# --- what is taken --------------------------------------------------------------------------------------


class Choice(BaseModel, frozen=True, extra="forbid"):
    """Which trajectories are taken, and in which form."""

    agents: Literal["main", "all"] = "main"  # the main agent's course of each run, or those of all agents
    statuses: tuple[RunStatus, ...] = (RunStatus.COMPLETED,)  # of the runs
    min_score: float | None = Field(default=None, ge=0, le=1)  # of the runs; one without a score is left out then
    # that a run may have cost; one with an unknown price is left out then
    max_usd: float | None = Field(default=None, ge=0)
    wire: Wire = "openai"  # calls as `tool_calls`, or in the Hermes form
    per: Per = "branch"  # a record for each course (`branch`), or for each decision: state and action (`step`)
    # tokens of a record, by an estimate that is rather too high (three characters to a token)
    window: int = Field(default=WINDOW, ge=1)
    # of a course that is longer: several records of whole steps, each of which begins with the task and with the last
    # step of the one before (`sliding`), or the first of them alone (`cut`). A state that is longer loses its oldest
    # steps.
    long: Long = "sliding"
    files: bool = True  # whether the contents of files stand in the records; else a line that names them


@dataclass(frozen=True)
class RecordOrigin:
    """Where a record comes from: runs and keys of their effects, with the scores and US dollars of the runs."""

    runs: tuple[str, ...]
    keys: tuple[str, ...]
    agent: str
    scores: tuple[float | None, ...]
    usd: tuple[float | None, ...]


@dataclass
class Data:
    """Records with their origins, and what was left out, by reason."""

    records: list[tuple[TrainingRecord, RecordOrigin]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class _Run:
    record: RunRecord
    result: RunResult
    score: float | None
    courses: tuple[AgentCourse, ...]

    @property
    def value(self) -> float:
        """Its score; without one 1 for a run that was completed and 0 for any other."""
        return float(self.result.status is RunStatus.COMPLETED) if self.score is None else self.score


async def trajectories(
    workspace: Workspace[Any], runs: Iterable[str], choice: Choice, scores: Mapping[str, float | None] | None = None
) -> Data:
    """Return records for supervised fine-tuning (002, sec. 3.3: the orchestrator's steps, by behaviour cloning).

    Of courses with the same task and the same actions one is taken: of the best score, then of the least cost. Values
    of secrets that the environment holds stand in no record.

    Args:
        runs: their ids.
        scores: 0 to 1, by run.

    Raises:
        UnknownRunError: for a run that is not there.
    """
    data = Data()
    sources = [run async for run in _sources(workspace, runs, choice, scores or {}, data)]
    form = _Form(workspace, choice)
    seen: set[str] = set()
    for run in sorted(sources, key=lambda run: (-run.value, dollars(run.result) or 0.0)):
        for course in run.courses:
            for key, keys, record in form.records(course, data):
                if key in seen:
                    data.left_out["the same task and actions as another one"] += 1
                    continue
                seen.add(key)
                origin = RecordOrigin((run.record.id,), keys, course.agent, (run.score,), (dollars(run.result),))
                data.records.append((record, origin))
    return data


async def preferences(
    workspace: Workspace[Any], runs: Iterable[str], choice: Choice, scores: Mapping[str, float | None] | None = None
) -> Data:
    """Return preference pairs: of one state two actions, of which the chosen one led to a better end.

    The state is where a run and its fork, or two forks of it, part: up to there they are one. An action is worth the
    mean score of the runs that took it; of a run without a score 1 where it was completed, else 0. Where all are worth
    the same there is no pair.

    Args:
        workspace, runs, choice, scores: as for `trajectories`; `per` and `long` do not matter, and `statuses` are not
            asked for: a run that failed is what is rejected.
    """
    data = Data()
    every = {run.id: run for run in await workspace.runs.list()}
    choice = choice.model_copy(update={"statuses": tuple(RunStatus), "min_score": None})
    sources = [run async for run in _sources(workspace, runs, choice, scores or {}, data)]
    form = _Form(workspace, choice)
    states: dict[str, dict[str, list[tuple[_Run, AgentCourse, Decided]]]] = {}
    for run in sources:
        root = run.record
        while root.parent_run in every:
            root = every[root.parent_run]
        for course in run.courses:
            for decision in course.decisions:
                place = canonical_json([root.id, str(decision.key), decision.state])
                states.setdefault(place, {}).setdefault(decision.action, []).append((run, course, decision))
    forks = [actions for actions in states.values() if len(actions) > 1]
    for actions in forks:
        ranking = sorted(actions.values(), key=lambda entries: fmean(run.value for run, _, _ in entries))
        (worse, _, loser), (better, course, winner) = ranking[0][0], ranking[-1][0]
        if fmean(run.value for run, _, _ in ranking[0]) == fmean(run.value for run, _, _ in ranking[-1]):
            data.left_out["both ends are worth the same"] += 1
            continue
        record = form.pair(winner, loser, data)
        if record is not None:
            ends = (better, worse)
            origin = RecordOrigin(
                tuple(run.record.id for run in ends),
                (str(winner.key), str(loser.key)),
                course.agent,
                tuple(run.score for run in ends),
                tuple(dollars(run.result) for run in ends),
            )
            data.records.append((record, origin))
    if not forks:
        data.left_out["no two runs took different actions in one state"] = 1
    return data


async def _sources(
    workspace: Workspace[Any], runs: Iterable[str], choice: Choice, scores: Mapping[str, float | None], data: Data
) -> Any:
    """Yield the runs that are wanted, with their courses; count the others."""
    for run_id in dict.fromkeys(runs):
        events = await workspace.log.events(run_id)  # raises for one that is not there
        result, score = await workspace.runs.result(run_id), scores.get(run_id)
        usd = dollars(result)
        record = await workspace.store.get_run(run_id)
        assert record is not None
        parts = record.manifest.parts
        agent_courses = courses(Ledger.of(events))
        reason = ""
        if result.status not in choice.statuses:
            reason = f"the run is {result.status.value}"
        elif choice.min_score is not None and (score is None or score < choice.min_score):
            reason = "no score" if score is None else "a lower score"
        elif choice.max_usd is not None and (usd is None or usd > choice.max_usd):
            reason = "an unknown price" if usd is None else "a higher cost"
        elif (parts.candidates or 1) > 1 or (parts.rollouts or 1) > 1:
            reason = "rival steps (parts.candidates, parts.rollouts)"
        elif not agent_courses:
            reason = "no decision of an agent"
        if reason:
            data.left_out[reason] += 1
            continue
        training = tuple(course for course in agent_courses if course.leads or choice.agents == "all")
        yield _Run(record, result, score, training)


# --- forms ----------------------------------------------------------------------------------------------


class _Form:
    """Makes records of what agents were shown and said."""

    def __init__(self, workspace: Workspace[Any], choice: Choice) -> None:
        self._choice = choice
        self._redactor = Redactor(secret_variables(workspace.own.environ))
        self._tools_prompt = workspace.catalog.prompts.get(TOOLS_PROMPT)

    def records(self, course: AgentCourse, data: Data) -> Iterator[tuple[str, tuple[str, ...], TrainingRecord]]:
        """Yield the records of a course, each with what makes it the same as another one, and its keys."""
        if self._choice.per == "step":
            for decision in course.decisions:
                prompt = self._state(decision, data)
                if prompt is not None:
                    record = self._step(prompt, decision.reply, decision.request.tools)
                    yield decision.state + decision.action, (str(decision.key),), record
            return
        for messages, decisions in _stretches(course):
            if not all(decision.readable for decision in decisions):
                data.left_out["a call whose arguments are no object"] += 1
                continue
            tools = tuple({tool.name: tool for decision in decisions for tool in decision.request.tools}.values())
            actions = sha256_json([course.task, course.agent, [decision.action for decision in decisions]])
            for first, last, part in self._windows(messages, tools, data):
                keys = tuple(str(decision.key) for decision in decisions[first:last])
                yield f"{actions} {first}", keys, self._conversation(part, tools)

    def pair(self, winner: Decided, loser: Decided, data: Data) -> TrainingRecord | None:
        """Return the pair of two actions in one state; None where it has no room or cannot be read."""
        misfits = [decision for decision in (winner, loser) if not decision.readable]
        prompt = self._state(max(misfits or (winner, loser), key=lambda decision: decision.reply.chars), data)
        if prompt is None:
            return None
        tools, words = winner.request.tools, self._chat(prompt, winner.request.tools)
        endings = [self._chat([decision.reply], ()) for decision in (winner, loser)]
        return self._record("preference", tools, prompt=words, chosen=endings[0], rejected=endings[1])

    def _step(self, prompt: Sequence[Message], reply: Message, tools: Sequence[ToolSchema]) -> TrainingRecord:
        return self._record(
            "prompt-completion", tools, prompt=self._chat(prompt, tools), completion=self._chat([reply], ())
        )

    def _conversation(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> TrainingRecord:
        return self._record("language modeling", tools, messages=self._chat(messages, tools))

    def _record(self, kind: Kind, tools: Sequence[ToolSchema], **columns: list[dict[str, Any]]) -> TrainingRecord:
        """Return a record, without the values of secrets."""
        body: dict[str, Any] = {**columns}
        if self._choice.wire == "openai":
            body["tools"] = [_tool(tool) for tool in tools]
        return TrainingRecord(kind, self._redactor.json(body))

    # -- length ----------------------------------------------------------------------------------------------------

    def _state(self, decision: Decided, data: Data) -> list[Message] | None:
        """Return what a decision was shown, without its oldest steps where it is too long; None where it cannot be."""
        if not decision.readable:
            data.left_out["a call whose arguments are no object"] += 1
            return None
        head, turns = _turns(decision.request.messages)
        room = self._choice.window - _tokens([*head, decision.reply], decision.request.tools)
        tail: list[list[Message]] = []
        for turn in reversed(turns):
            room -= _tokens(turn)
            if room < 0:
                break
            tail.insert(0, turn)
        if room < 0 and not tail:
            data.left_out["longer than the window"] += 1
            return None
        return [*head, *(message for turn in tail for message in turn)]

    def _windows(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], data: Data
    ) -> Iterator[tuple[int, int, list[Message]]]:
        """Yield the parts of a conversation that have room, of whole steps, with the numbers of their steps."""
        head, turns = _turns(messages)
        room = self._choice.window - _tokens(head, tools)
        sizes = [_tokens(turn) for turn in turns]
        alone = [_tokens(turn[:1]) for turn in turns]  # of the last step what it gave is left out
        start = done = 0
        while done < len(turns):
            end, used = start, 0
            while end < len(turns) and used + alone[end] <= room:
                used += sizes[end]
                end += 1
            if end <= done:
                if start == done:  # not even this step alone
                    data.left_out["longer than the window"] += 1
                    done += 1
                start = done
                continue
            steps = [message for turn in turns[start : end - 1] for message in turn]
            yield start, end, [*head, *steps, turns[end - 1][0]]
            if self._choice.long == "cut":
                if end < len(turns):
                    data.left_out["the rest of a course that was cut"] += 1
                return
            start, done = end - 1, end

    # -- words -----------------------------------------------------------------------------------------------------

    def _chat(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> list[dict[str, Any]]:
        view = messages if self._choice.files else [*map(_without_files, messages)]
        return _hermes(view, self._head(tools)) if self._choice.wire == "hermes" else [*map(_openai, view)]

    def _head(self, tools: Sequence[ToolSchema]) -> str:
        """Return what a system prompt says of the tools."""
        if not tools:
            return ""
        lines = [json.dumps(_tool(tool), ensure_ascii=False) for tool in tools]
        return self._tools_prompt.render(tools=lines)


def _stretches(course: AgentCourse) -> Iterator[tuple[list[Message], list[Decided]]]:
    """Yield conversations of a course: one, or several where steps were taken out of the history in between.

    The last message of a request is shown with that decision alone (`agents/decider.py`); here it stays where it
    stood, so that each action comes after all that it was decided by.
    """
    messages: list[Message] = []
    decisions: list[Decided] = []
    history: tuple[Message, ...] = ()
    for decision in course.decisions:
        before, view = decision.request.messages[:-1], decision.request.messages[-1]
        size, new = len(history), before[len(history) :]
        goes_on = decisions and new and new[0].role == "assistant"
        if goes_on and (not history or _head_of(decision, size) == _head_of(decisions[-1], size)):
            messages = [*messages[:-1], *new, view, decision.reply]
        else:
            if decisions:
                yield messages, decisions
            messages, decisions = [*before, view, decision.reply], []
        decisions.append(decision)
        history = before
    if decisions:
        yield messages, decisions


def _head_of(decision: Decided, length: int) -> str:
    return decision.request.chain[length - 1]


def _turns(messages: Sequence[Message]) -> tuple[list[Message], list[list[Message]]]:
    """Return what stands before the first decision, then each decision with what followed up to the next one."""
    head: list[Message] = []
    turns: list[list[Message]] = []
    for message in messages:
        if message.role == "assistant":
            turns.append([message])
        elif turns:
            turns[-1].append(message)
        else:
            head.append(message)
    return head, turns


def _tokens(messages: Sequence[Message], tools: Sequence[ToolSchema] = ()) -> int:
    return estimate_input_tokens(ModelRequest(model="", messages=tuple(messages), tools=tuple(tools)))


def _without_files(message: Message) -> Message:
    content = tuple(
        TextBlock(text=f"[the content of {name} is left out]", trust=Trust.SYSTEM)
        if (name := _file_of(block))
        else block
        for block in message.content
    )
    return message if content == message.content else message.model_copy(update={"content": content})


def _file_of(block: TextBlock | MediaBlock) -> str:
    if isinstance(block, MediaBlock):
        return block.name or block.media_type
    return block.source.ref or "a file" if block.source is not None and block.source.kind == "file" else ""


def _tool(schema: ToolSchema) -> dict[str, Any]:
    function = {"name": schema.name, "description": schema.description, "parameters": schema.parameters}
    return {"type": "function", "function": function}


def _openai(message: Message) -> dict[str, Any]:
    body: dict[str, Any] = {"role": message.role, "content": render_message(message)}
    if message.tool_calls:
        body["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.role == "tool":
        body |= {"tool_call_id": message.tool_call_id, "name": message.name}
    return body


def _hermes(messages: Sequence[Message], head: str) -> list[dict[str, Any]]:
    """Return messages in the Hermes form; results that follow each other are one message of the tool."""
    chat: list[dict[str, Any]] = []
    for message in messages:
        text = render_message(message)
        if message.role == "assistant" and message.tool_calls:
            fields = [{"name": call.name, "arguments": call.arguments} for call in message.tool_calls]
            calls = [json.dumps(call, ensure_ascii=False) for call in fields]
            text = "\n".join([*([text] if text else []), *(f"<tool_call>\n{c}\n</tool_call>" for c in calls)])
        elif message.role == "tool":
            result = json.dumps({"name": message.name, "content": text}, ensure_ascii=False)
            text = f"<tool_response>\n{result}\n</tool_response>"
            if chat and chat[-1]["role"] == "tool":
                chat[-1]["content"] += f"\n{text}"
                continue
        chat.append({"role": message.role, "content": text})
    if head and chat and chat[0]["role"] == "system":
        chat[0]["content"] += f"\n\n{head}"
    elif head and messages[0].role != "assistant":
        chat.insert(0, {"role": "system", "content": head})
    return chat


# --- files and commands ---------------------------------------------------------------------------------


def write(data: Data, folder: Path) -> None:
    """Write the records as `train.jsonl` into a folder, which is made; beside it where each line comes from.

    Raises:
        EvolutionError: there is no record, or the folder holds something already.
    """
    if not data.records:
        causes = (cause if n == 1 else f"{cause} ({n} times)" for cause, n in data.left_out.most_common())
        reason = "; ".join(causes) or "there are no runs"
        raise EvolutionError(f"no record can be made: {reason}; choose other runs, or wider limits")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise EvolutionError(f"{folder} is there already and is not empty; name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TRAIN).write_text("".join(record.line() for record, _ in data.records), encoding="utf-8")
    lines = [json.dumps({"line": n, **vars(origin)}) for n, (_, origin) in enumerate(data.records, start=1)]
    (folder / SOURCES).write_text("\n".join(lines) + "\n", encoding="utf-8")


def command(data: Data, folder: Path, *, model: str = "Qwen/Qwen3-8B", window: int = WINDOW) -> str:
    """Return the command that trains on a folder with TRL, with the parameters of 002 (app. A.2) for fine-tuning.

    Args:
        model: to be trained; 002 takes Qwen3-8B.
        window: tokens of the longest record.
    """
    kinds = {record.kind for record, _ in data.records}
    pairs, whole = "preference" in kinds, "language modeling" in kinds
    words = ["trl", "dpo" if pairs else "sft", "--model_name_or_path", model, "--dataset_name", str(folder)]
    words += ["--max_length", str(window), "--output_dir", f"{folder}-model", "--bf16", "true"]
    if not pairs:
        words += ["--learning_rate", "1e-5", "--weight_decay", "0.05", "--warmup_ratio", "0.1"]
        words += ["--lr_scheduler_type", "cosine", "--num_train_epochs", "2"]
        words += ["--per_device_train_batch_size", "1", "--gradient_accumulation_steps", "64"]
    if whole:
        words += ["--assistant_only_loss", "true"]
    return shlex.join(words)
