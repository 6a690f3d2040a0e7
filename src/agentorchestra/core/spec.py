"""The descriptions of a run: RunSpec (asked), RunManifest (pinned), RunResult (given back); AgentSpec of an agent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Generic, Literal, TypedDict, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator
from pydantic_core import to_jsonable_python
from typing_extensions import TypeVar

from agentorchestra.core.budget import Budget, Usage
from agentorchestra.core.content import Block
from agentorchestra.core.effects import ArtifactRef
from agentorchestra.core.errors import BudgetError, FileInputError, RunNotCompleted, SettingsError
from agentorchestra.core.settings import (
    NO_PRESET,
    Action,
    Finish,
    FirstTools,
    Keep,
    OnAsk,
    OnUncertain,
    PartSettings,
    Reasoning,
    RoleSettings,
    SocietySettings,
)


class RunStatus(StrEnum):
    """The standing of a run. `created`, `running`, `waiting` and `paused` go on; the others are ends."""

    CREATED = "created"
    RUNNING = "running"
    COMPLETED = "completed"
    PARTIAL = "partial"
    BLOCKED = "blocked"
    BUDGET_EXHAUSTED = "budget_exhausted"
    TIMED_OUT = "timed_out"
    WAITING = "waiting"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    FAILED = "failed"


FINAL = frozenset({RunStatus.COMPLETED, RunStatus.PARTIAL, RunStatus.BLOCKED})
"""Statuses a resume returns as they are; every other one can be driven on."""

TESTLESS = frozenset({RunStatus.CREATED, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PAUSED, RunStatus.CANCELLED})
"""Statuses in which the tests of a task's folder are not run."""

EXIT_CODES: dict[RunStatus, int] = {RunStatus.COMPLETED: 0, RunStatus.FAILED: 1, RunStatus.CANCELLED: 130}
"""Exit codes of the command line; every other status is 3, bad usage is 2."""


def exit_code(status: RunStatus) -> int:
    """Return 0 for completed, 1 for failed, 130 for cancelled, 3 for any other status."""
    return EXIT_CODES.get(status, 3)


class RunSpec(BaseModel, frozen=True, extra="forbid"):
    """The request for a run: all of it that can be written down, as JSON too.

    `ws.run(spec)` runs it; `ws.run("What is ...?", files=[...])` builds it from its arguments. What is left out or None
    is as the settings say.

    Attributes:
        task: what is asked, in the user's words.
        files: files that belong to it, and folders for what lies below them; their bytes are kept with the run.
        system: the paradigm.
        model: a profile's name or `provider:model`.
        roles: models by role (`planner`, `analyzer`, ...). A `model` that is given holds for every role that is not
            named here, whatever the settings say; without one the settings' roles hold.
        budget: limits over the whole tree.
        max_steps: decisions of the top agent.
        on_ask: what happens to questions nobody can answer now.
        on_uncertain: what happens to effects that may have happened before a crash.
        labels: for `runs` and statistics.
        seed: derived ids and randomness repeat for equal seeds; random by default.
        session: the name of a session, whose next turn this is: it goes on with the conversation, the files and what
            else the turn before left (docs/sessions.md). The id of a run without a session goes on with that run.
        finish: `text` (the default) takes a reply in plain words without a call for the answer, as chat models finish
            by themselves; `done` asks for a call, which also gives status and sources (docs/settings.md).
        action: `code` lets agents act by writing a program in each step, in which their tools are functions; `tools`
            (the default) by calling them.
        memory: the memory system of the top agent: `none` (the default), `window`, `summary`, `insights`, or one of the
            workspace's `memories`, which remember within the session; or `workflow`, of which insights serve the
            workspace.
        environments: names of packaged environments (`files`, `terminal`, ...) that the top agent works in, besides the
            workspace's own; `Workspace.run_folder` says where their files are.
        options: what the system is told besides the task; `debate` takes `experts` and `rounds` (docs/debate.md).
        components: versions of components that hold in the whole run, in place of what their names mean:
            `{"tool:price_of": "1.0.1", "prompt:react": "1.2.0"}`; a candidate is used so (docs/components.md).
        parts: parts of the main agent for this run, over those of the settings (docs/oagents.md).
        project: a folder of the user's, of which the run's folder begins as a copy; `Workspace.apply` brings back what
            changed (docs/coding.md).
        tests: a command that is run in the terminal's machine when the run has ended: `RunResult.tests`.

    Raises:
        UsageError: for a value that does not fit; pydantic's ValidationError for one of another type.
    """

    task: str
    files: tuple[Path, ...] = ()
    system: str | None = None
    model: str | None = None
    roles: dict[str, str] = {}
    budget: Budget | None = None
    max_steps: int | None = None
    on_ask: OnAsk | None = None
    on_uncertain: OnUncertain | None = None
    labels: dict[str, str] = {}
    seed: str | None = None
    session: str | None = None
    finish: Finish | None = None
    action: Action | None = None
    memory: str | None = None
    environments: tuple[str, ...] = ()
    options: dict[str, JsonValue] = {}
    components: dict[str, str] = {}
    parts: PartSettings | None = None
    project: Path | None = None
    tests: str = ""

    @model_validator(mode="before")
    @classmethod
    def _check_values(cls, values: Any) -> Any:
        """Return the values that are given; refuse the usual mistakes, each in a sentence of its own."""
        if not isinstance(values, Mapping):
            return values
        inputs = {name: value for name, value in values.items() if value is not None}
        files, names = inputs.get("files", ()), inputs.get("environments", ())
        if isinstance(files, str | Path) or not all(isinstance(path, str | Path) for path in files):
            raise FileInputError(f"files is {files!r}; give a list of paths, e.g. files=['contract.pdf']")
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise SettingsError(f"environments is {names!r}; give a list of names, e.g. environments=['files']")
        limits = inputs.get("budget")
        if isinstance(limits, Mapping) and (unknown := sorted({*limits} - {*Budget.model_fields})):
            raise BudgetError(f"budget.{unknown[0]} is no limit; the limits: {', '.join(Budget.model_fields)}")
        for name, words in _CHOICES.items():
            if name in inputs and inputs[name] not in words:
                choice = ", ".join(map(repr, words[:-1])) + f" or {words[-1]!r}"
                raise SettingsError(f"{name} is {inputs[name]!r}; it is {choice}")
        for key, value in inputs.get("labels", {}).items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise SettingsError(f"the label {key!r} = {value!r} is not text; labels are text")
        versions = inputs.get("components")
        for key, version in versions.items() if isinstance(versions, Mapping) else ():
            kind, _, name = str(key).partition(":")
            if kind not in COMPONENT_KINDS or not name or not isinstance(version, str):
                kinds = ", ".join(COMPONENT_KINDS)
                raise SettingsError(
                    f"the component {key!r} = {version!r} names no version; write KIND:NAME and a version, e.g. "
                    f"{{'tool:price_of': '1.0.1'}}; the kinds: {kinds}"
                )
        if "options" in inputs:
            inputs["options"] = to_jsonable_python(inputs["options"])
        for name in ("task", "session", "labels", "options"):
            if _HALF.search(json.dumps(inputs.get(name), ensure_ascii=False, default=str)):
                raise SettingsError(
                    f"{name} holds half a character (a lone surrogate), which no log can; write it whole"
                )
        return inputs


_HALF = re.compile("[\ud800-\udfff]")

COMPONENT_KINDS = ("tool", "environment", "agent", "prompt", "memory")
"""The kinds of components whose versions a run can name."""

_CHOICES: dict[str, tuple[str, ...]] = {
    "on_ask": get_args(OnAsk),
    "on_uncertain": get_args(OnUncertain),
    "finish": get_args(Finish),
    "action": get_args(Action),
}


class RunFields(TypedDict, total=False):
    """The fields of `RunSpec` but its task, as keyword arguments; `model` may also be a ModelClient."""

    files: Sequence[str | Path]
    system: str | None
    model: Any
    roles: Mapping[str, str] | None
    budget: Budget | None
    max_steps: int | None
    on_ask: OnAsk | None
    on_uncertain: OnUncertain | None
    labels: Mapping[str, str] | None
    seed: str | None
    session: str | None
    finish: Finish | None
    action: Action | None
    memory: str | None
    environments: Sequence[str]
    options: Mapping[str, Any] | None
    components: Mapping[str, str] | None
    parts: PartSettings | None
    project: str | Path | None
    tests: str


class AgentSpec(BaseModel, frozen=True):
    """A sub-agent as the tuple <instruction, context, tools, model> (AOrchestra, sec. 3.2).

    Attributes:
        name: names its branch and the actor in the log.
        context: what it is given to know, with origin and trust.
        tools: names it may use: the capability set of its session, which can only shrink.
        model: profile or `provider:model`; "" takes the caller's.
        role: which role it plays (prompt and model per role).
        system: the paradigm that drives it.
        max_steps: decisions it may take; the last one must answer.
        budget: a ceiling under the caller's.
        output_schema: JSON schema of its answer, for structured output.
        finish: how it says that it is done: by calling `done`, or `text`: also by a reply in plain words.
        instance: the identity it works under: it is told what it was asked before under the same one.
        asks: whether people may be asked for it and those under it; else what would need a question is denied.
        on_demand: whether it was made for this one piece of work (002, sec. 3.2). It knows nothing but what this tuple
            says, neither the run's task nor the text of its short files, and is shown all of its tools. Where its model
            cannot be had, its caller gets an error; without this the run fails, and can be resumed.
        looked_up: whether whoever asks it looks its sources up itself, so that it is not told of them.
    """

    name: str = "agent"
    instruction: str
    context: tuple[Block, ...] = ()
    tools: tuple[str, ...] = ()
    model: str = ""
    role: str = "agent"
    system: str = "react"
    max_steps: int = 20
    budget: Budget | None = None
    output_schema: dict[str, Any] | None = None
    finish: Finish = "done"
    instance: str = ""
    asks: bool = True
    on_demand: bool = False
    looked_up: bool = False


class Citation(BaseModel, frozen=True):
    """A source of an answer: a quote and where it stands, a computation, or a picture.

    Attributes:
        source: file name in the run, or address; for a computation the tool that ran it (`python`).
        place: `line 12`, `p. 3`, `B7`; of a video the frame. "" for a computation.
        quote: the words, verbatim; for a computation of its output or its program. "" for what was seen in a picture.
    """

    source: str
    place: str = ""
    quote: str = ""


class AgentResult(BaseModel, frozen=True):
    """What an agent hands back to whoever invoked it.

    Attributes:
        answer: what was asked for; `output` is its structured form.
        report: a longer account.
        findings: what its work brought to light, a sentence each (002, sec. 4.1: a reviewer's).
        artifacts: files that it made.
        errors: what failed on the way.
        steps: decisions it took.
        cost_usd: of it and all that it asked; None where that was not added up, or a price is unknown.
        distrusted: pages and files, by address and name, that were left out: they give orders to their readers.
    """

    status: RunStatus = RunStatus.COMPLETED
    answer: str = ""
    output: JsonValue = None
    report: str = ""
    sources: tuple[Citation, ...] = ()
    steps: int = 0
    memory: str = ""
    findings: tuple[str, ...] = ()
    artifacts: tuple[ArtifactRef, ...] = ()
    errors: tuple[str, ...] = ()
    cost_usd: float | None = None
    distrusted: tuple[str, ...] = ()

    def log_json(self) -> dict[str, Any]:
        """Return it as JSON for the log; what came into it later stands there only where it says something."""
        body = self.model_dump(mode="json", exclude={"artifacts": {"__all__": {"made_for"}}})
        return {name: value for name, value in body.items() if name not in _LATER or value not in (None, [])}


_LATER = frozenset({"findings", "artifacts", "errors", "cost_usd", "distrusted"})
"""Fields that recorded results may lack; a replay compares."""


class FileRef(BaseModel, frozen=True):
    """A file given with a task: its bytes are kept with the run, so a resume reads the same ones."""

    name: str  # its name inside the run (unique); with its folders where a folder was given ("docs/a/b.pdf")
    # `sha256`, `size`, `media_type`: of the bytes
    sha256: str
    size: int
    media_type: str = "application/octet-stream"
    origin: str = ""  # where it was, for people


def first_names(names: Iterable[str], most: int = 20) -> str:
    """Return names for a sentence: the first ones, how many more there are, `none` without any."""
    members = list(names)
    text = ", ".join(members[:most]) or "none"
    return f"{text} and {len(members) - most:,} more" if len(members) > most else text


SOURCE_MEDIA_TYPE = "text/x-agentorchestra-source"
"""Of blobs with the text of a prompt or of a tool's module. A garbage collection leaves them: they are small, and a
process that has the workspace open counts on those it has kept."""


class Pinned(BaseModel, frozen=True):
    """The version and content hash of a component at the start of a run."""

    version: str
    content_hash: str
    # SHA-256 of the blob with its text: a prompt's file, the module a tool is defined in; "" where there is none (a
    # tool made at a prompt, an environment)
    source: str = ""
    origin: str = ""  # where it came from, where that is no program of this machine: `mcp:NAME`


class Exchange(BaseModel, frozen=True):
    """An earlier task of the same session and how it ended."""

    run_id: str
    task: str  # and what the user told the agents while they worked
    answer: str
    status: RunStatus = RunStatus.COMPLETED


CHECKS = 5  # the way in which new runs read replies and check answers; see `RunManifest.checks`

# from it on a judge is shown a page once, tables of PDFs count once, and a window holds what its model counts
PAGES_ONCE = 3

TURN = 4  # from it on sources are asked for what this turn read, and numbers are compared by value
ENCODING = 5  # from it on `fetch` takes `encoding`


class Project(BaseModel, frozen=True):
    """The folder of the user's that a run works on a copy of (docs/coding.md)."""

    path: str  # where it lies, absolute and without links
    began: str  # SHA-256 of the blob with the snapshot of the copy as it began
    seen: tuple[str, ...] = ()  # folders in it that commands see read-only, and that were not copied; relative to it
    # folders of this machine with the Pythons that virtual environments among `seen` were made of
    pythons: tuple[str, ...] = ()
    objects: str = ""  # the folder with the objects of its repository; "" for none
    head: str = ""  # the commit that was checked out; "" for none
    repository: bool = False  # whether it lies in a work tree of git


class TestsRan(BaseModel, frozen=True):
    """The command that tests a run's work, as it ended."""

    __test__ = False  # no test of pytest's

    command: str  # of bash, in the run's folder
    passed: bool  # whether it ended with exit code 0
    why: str  # a sentence
    output: str = ""  # the end of what it printed


class PartOf(BaseModel, frozen=True):
    """The agent that a part of a run is there for: the run and the key of its InvokeAgent or Spawn."""

    run: str
    key: str


class ManifestHead(BaseModel, frozen=True):
    """The part of a manifest that lists of runs show and choose by; no store keeps a field of it apart from the row."""

    task: str
    system: str = "react"
    model: str = "offline"
    files: tuple[FileRef, ...] = ()
    labels: dict[str, str] = {}
    created: datetime
    session: str | None = None  # the session of which it is a turn, None for a run of its own
    previous: str | None = None  # the turn before it; None for the first one, and for runs from before there were turns
    preset: str = NO_PRESET  # of the settings that it was started with; it goes on with no other
    task_folder: str = ""  # the folder whose task it is, in Terminal-Bench's format; "" for none
    image: str = ""  # SHA-256 of the config of the image that its terminal lies on; "" for none


class RunManifest(ManifestHead, frozen=True):
    """Everything a run is pinned to; a fresh process can drive it from this and the log.

    Defaults are for the runs that were made before there was the field.
    """

    left_out: str = ""  # a sentence on what of the given folders was not taken, "" for nothing
    tools: dict[str, Pinned] = {}
    prompts: dict[str, Pinned] = {}
    seed: str
    budget: Budget = Budget()
    max_steps: int = 20
    on_ask: OnAsk = "wait"
    on_uncertain: OnUncertain = "report"
    app: str | None = None
    app_folder: str | None = None
    output_schema: dict[str, Any] | None = None
    distribution: str = ""
    # `parent_run`, `fork_seq`: the run it was forked from, and the last event they have in common
    parent_run: str | None = None
    fork_seq: int | None = None
    # what differs from the parent after that event: `model`, `role:NAME`, `prompt:NAME`, `outcome:KEY`,
    # `component:KIND:NAME`
    overrides: dict[str, JsonValue] = {}
    # where the time of its effects begins, for a fork its first ancestor's creation; None for `created`
    began: datetime | None = None
    given: tuple[str, ...] = ()  # names of the files that came with this turn, where it is not the first one
    # the session's earlier tasks and answers, oldest first, as they were when the run was created
    earlier: tuple[Exchange, ...] = ()
    roles: dict[str, RoleSettings] = {}  # model and parameters per role
    agents: dict[str, Pinned] = {}  # the agents a planner may delegate to
    # tokens each model can read, by its name: where steps are taken out of a history
    context_windows: dict[str, int] = {}
    # who is asked about pictures (`image`), sound (`audio`), videos (`video`): names, the first choice first
    # (models/media_models.py)
    media_models: dict[str, tuple[str, ...]] = {}
    embedding_model: str = ""
    transcription_model: str = ""
    # `finish`, `action`, `reasoning`: see the settings
    finish: Finish = "done"
    action: Action = "tools"
    sandbox: str = ""  # where code that a model wrote ran when the run began
    schemas: str = ""  # SHA-256 of the blob with the schemas of its tools by name
    choices: tuple[str, ...] | None = None  # names of the models a delegation may choose from; None for any
    memory: str = ""  # the memory system of its top agent, "" for none
    # the session whose memory is read: its own, for a fork that of the run it was forked from
    memory_session: str | None = None
    # what agents remember from the session's earlier runs: the run's state begins with it
    kept: dict[str, JsonValue] = {}
    prompt_tool_chars: int = 0  # characters of tools' schemas that a prompt may hold (`tea/retrieval/`), 0 for all
    first_tools: FirstTools | Literal[""] = ""  # see the settings; "": all, and in the last step `done` alone
    # "few": an environment begins with the actions that it names (`begins_with`); "": with others
    first_actions: Literal["few", ""] = ""
    in_view_chars: int = 0  # characters of short files that stand in a first prompt, 0 for none
    in_view_pictures: int = 0  # pictures that stand there beside them, at most
    reasoning: Reasoning = "fields"
    forced: tuple[str, ...] = ()  # names of the models whose requests may force the call of one tool
    environments: tuple[str, ...] = ()  # names of the packaged environments that its top agent works in
    # what its system was told besides the task: of a `debate`, the experts and rounds
    options: dict[str, JsonValue] = {}
    keep_tools: Keep = "workspace"  # where tools stay that are generated in it (`generator.keep`)
    # how replies are read and answers checked: 5 as ENCODING says; 4 as TURN says; 3 with replies in all
    # their forms, with what is open where plain words would be the answer, and as PAGES_ONCE says; 2 with sources that
    # are sorted into held, misquoted and unknown, and with the figures of answers that no other agent took part in; 1
    # with what tools and programs gave, 0 without
    checks: int = 0
    # how `python` and `bash` work: 1 in the folder of a terminal that their agent has, and pictures that they make are
    # named; 0 apart from it, and pictures are shown
    programs: int = 0
    society: SocietySettings | None = None  # who takes part and leads, where its system is a society
    parts: PartSettings = PartSettings()  # see the settings
    shorten: bool = True  # whether the team's answer is put into a short form, see `TeamSettings`
    # the versions that it names, by `KIND:NAME`; everything else is as the names mean it
    components: dict[str, str] = {}
    policy_plan: Literal["off", "on"] = "off"  # whether policy has a plan made from the user's words (`policy.plan`)
    # whether a model looks again at calls that the plan allows (`policy.review`)
    policy_review: Literal["off", "on"] = "off"
    part_of: PartOf | None = None  # what it is a part of (docs/cluster.md); None for a run of its own
    project: Project | None = None  # the folder of the user's that it works on a copy of; None for none
    tests: str = ""  # the command that tests its work; "" for none

    @field_validator("society", mode="before")
    @classmethod
    def _without_former_settings(cls, value: Any) -> Any:
        """Leave out what a society could set when the run was recorded, and cannot now."""
        known = SocietySettings.model_fields
        return {name: value[name] for name in value if name in known} if isinstance(value, dict) else value

    @property
    def earlier_words(self) -> tuple[str, ...]:
        """The session's earlier tasks as far as they are the user's words in this run: in a turn they allow nothing."""
        return () if self.previous is not None else tuple(turn.task for turn in self.earlier)


class Question(BaseModel, frozen=True):
    """An open question.

    Attributes:
        key: what an answer names.
        code: of an approval, a short digest of the call that is to be allowed: who approves names the call with it.
    """

    key: str
    question: str
    kind: Literal["question", "approval"] = "question"
    details: dict[str, JsonValue] = {}
    code: str = ""


class RunFile(BaseModel, frozen=True):
    """A file that a run made for its user.

    Attributes:
        name: below the folder that the files are written to; no two files of a run have the same.
        path: where it was written, None where it was not.
        sha256: of its bytes, which the store has.
        made_by: the tool, the agent or the environments that made it.
    """

    name: str
    path: str | None = None
    media_type: str = "application/octet-stream"
    size: int = 0
    sha256: str = ""
    made_by: str = ""


Out = TypeVar("Out", default=Any)

_GOES_ON = TESTLESS | {RunStatus.FAILED}  # a text of such a run is how far it came, and no answer


class RunResult(BaseModel, Generic[Out]):
    """The result of a run, as `ws.run` returns and `run --json` prints it.

    `answer` and `output` are the run's answer; of a run without one they raise RunNotCompleted, so that nobody takes
    it for an empty answer. `print(result)` says the same.

    Attributes:
        answer_text: the text of the answer, or of what a run that did not come to its end has of it; "" for none. In
            JSON `answer`.
        output_value: the answer as the type of `output_type=`, else the text; None for none. In JSON `output`.
        report: the longer account, where the system writes one.
        session: the name of the one that it is a turn of; None for none.
        sources: quotes and places the answer stands on.
        usage: over all models; `usage_by_model` per model.
        cost_usd: None when a price is unknown.
        duration_s: active seconds.
        artifacts: all that it kept under a name, also what it kept for itself.
        files: what it made for its user, with what it made or changed in its folder when its last job ended.
        more_files: how many files of its folder `files` has no room for.
        folder: the folder that its environments work on, where it lies on this machine; None where nothing is in it.
        diff: what it changed in its copy of the project, as git writes it; "" without a project.
        tests: how the command that tests its work ended; None without one.
        questions: what it waits for, with status `waiting` or `paused`.
        until: when its first timer is due, with these; None without one.
        error: the sentence, with status `failed` and others that are not complete.
    """

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)

    status: RunStatus
    answer_text: str = Field(default="", alias="answer")
    output_value: Out | None = Field(default=None, alias="output")
    report: str = ""
    sources: tuple[Citation, ...] = ()
    usage: Usage = Usage()
    usage_by_model: dict[str, Usage] = {}
    cost_usd: float | None = 0.0
    run_id: str = ""
    session: str | None = None
    system: str = ""
    model: str = ""
    duration_s: float = 0.0
    artifacts: tuple[ArtifactRef, ...] = ()
    files: tuple[RunFile, ...] = ()
    more_files: int = 0
    folder: str | None = None
    diff: str = ""
    tests: TestsRan | None = None
    questions: tuple[Question, ...] = ()
    until: datetime | None = None
    error: str | None = None
    error_type: str | None = None
    steps: int = 0

    @property
    def answer(self) -> str:
        """The final answer as text; RunNotCompleted where the run has none."""
        if not self.has_answer:
            raise self._not_completed()
        return self.answer_text

    @property
    def output(self) -> Out:
        """The final answer as the `output_type` asked for, else the text; RunNotCompleted where there is none."""
        if not self.has_answer or (self.output_value is None and self.status is not RunStatus.COMPLETED):
            raise self._not_completed()
        return cast("Out", self.output_value)

    @property
    def has_answer(self) -> bool:
        """Whether `answer` returns: the run is completed, or came to an end with an answer of less than the whole."""
        if self.status is RunStatus.COMPLETED:
            return True
        return self.status not in _GOES_ON and (self.answer_text != "" or self.output_value is not None)

    def __str__(self) -> str:
        """Return the answer and the status, or why there is none and what to do next."""
        if not self.has_answer:
            return str(self._not_completed())
        text = self.answer_text or self.report
        return f"{text}\n[{self.status.value}, {self.run_id}]".strip()

    def _not_completed(self) -> RunNotCompleted:
        run, reason = f'"{self.run_id}"', self.error or self.report
        goes_on = f"`await ws.resume({run})` goes on"
        if self.questions:
            first = self.questions[0]
            reason = f"it waits for an {'approval' if first.kind == 'approval' else 'answer'}: {first.question}"
            settles = (
                f"ws.approve({run})` or `ws.deny({run})" if first.kind == "approval" else f'ws.answer({run}, "...")'
            )
            goes_on = f"`{settles}`, then {goes_on}"
        elif self.until is not None:
            reason, goes_on = f"it waits until {self.until.isoformat(timespec='seconds')}", f"{goes_on} then"
        elif self.has_answer:  # in words only
            reason, goes_on = "its answer has not the type that was asked for", "`result.answer` has it in words"
        elif self.status in (RunStatus.BUDGET_EXHAUSTED, RunStatus.TIMED_OUT):
            goes_on = f"`await ws.resume({run}, budget=Budget(...))` goes on with more"
        elif self.status in FINAL:
            goes_on = f'`await ws.session({run}).run("...")` asks further'
        if self.answer_text and not self.has_answer:
            goes_on += "; `result.answer_text` has what it wrote so far"
        reason = " ".join(reason.split())[:500] or "it gave none"
        return RunNotCompleted(self.run_id, status=self.status.value, reason=reason, next_step=goes_on)
