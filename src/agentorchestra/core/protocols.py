"""The protocols between the rooms: RunContext, Handler, Store, Engine, Environment."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel, JsonValue

from agentorchestra.core.budget import NO_COST, Bound, Room, Usage
from agentorchestra.core.components import ComponentChange
from agentorchestra.core.content import Block, MediaBlock
from agentorchestra.core.effects import ArtifactRef, Effect, MadeFor, Mode, Outcome, Tag
from agentorchestra.core.events import Event, NewEvent
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.mail import Mail
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.query import LogQuery
from agentorchestra.core.spec import AgentResult, AgentSpec, ManifestHead, RunManifest, RunStatus

DepsT_co = TypeVar("DepsT_co", covariant=True)


class Attempt(Protocol):
    """One logged attempt inside a handler."""

    number: int

    async def fail(
        self, error: Exception, *, usage: Usage | None = None, target: str = "", retry_in_s: float | None = None
    ) -> None:
        """Log that this attempt failed, what it cost, and when the next one starts."""


class RunContext(Protocol[DepsT_co]):
    """A run as its tools, actions and agents see it; `BranchContext` in runtime/ implements it.

    All that must be the same in a resume or replay comes from here: `id`, `now`, `random`, `vars`, effects.
    """

    @property
    def deps(self) -> DepsT_co:
        """The user's dependencies, as given to the workspace or the run."""

    @property
    def run_id(self) -> str:
        """The run's id; never derive ids or randomness from it."""

    @property
    def key(self) -> EffectKey:
        """The key of the effect being executed."""

    @property
    def now(self) -> datetime:
        """The greatest recorded end of an effect that this branch has seen."""

    @property
    def random(self) -> random.Random:
        """A generator seeded by the manifest's seed and the key."""

    @property
    def vars(self) -> MutableMapping[str, JsonValue]:
        """Run-scoped state, the only mutable state of a tool; changes are recorded as the outcome's writes."""

    @property
    def manifest(self) -> RunManifest:
        """The manifest that the run is pinned to."""

    @property
    def capabilities(self) -> frozenset[str] | None:
        """Names of the tools that may be called here; None where nothing limits them."""

    @property
    def folder(self) -> Path:
        """The run's own folder: writing inside it needs no question."""

    def id(self, prefix: str = "") -> str:
        """Return a new id, derived from seed, key and a counter."""

    def file(self, name: str) -> Path:
        """Return the kept copy of a file given with the task; UnknownComponentError if there is none of this name."""

    def secret(self, name: str) -> str:
        """Return the value of a secret, of which the log has the name only; MissingKeyError if there is none."""

    async def perform(self, effect: Effect) -> Outcome:
        """Let one effect through the door. Only composite components may."""

    async def perform_all(self, effects: Sequence[Effect]) -> list[Outcome]:
        """Perform several effects: on one environment instance in order, else in parallel; results as listed."""

    async def call_tool(self, name: str, /, **arguments: JsonValue) -> Outcome:
        """Perform InvokeTool by name, within the capability set."""

    async def call_agent(self, spec: AgentSpec) -> AgentResult:
        """Perform InvokeAgent: a sub-agent on its own branch, with a capability set that can only shrink."""

    async def call_agents(self, specs: Sequence[AgentSpec]) -> list[AgentResult]:
        """Perform several sub-agents at the same time; results in listed order."""

    async def ask_model(
        self,
        prompt: str,
        content: Sequence[Block] = (),
        *,
        role: str,
        model: str = "",
        media: Literal["named", "required"] = "named",
        **values: Any,
    ) -> Outcome:
        """Ask a model one question beside the steps of an agent (RequestModel). Only composite components may.

        Args:
            prompt: the name of the prompt that says what to do (docs/settings.md, "Prompts").
            content: the material, with origin and trust.
            role: whose model and parameters are used; the model of the agent that calls, where the role names none.
            model: another model, by profile or `provider:model`.
            media: what happens to media that it does not take: they are `named` in the text, or they are `required`
                and the outcome is an error of the type ModelMediaError, whose value names their `kinds`.
            values: the prompt's variables.

        Returns:
            The outcome: `response.text` is the answer. A model that cannot be asked (no key, no price for a budget in
            dollars) and what a provider refuses are outcomes too.

        Raises:
            PromptError: there is no such prompt, or its variables are others.
        """

    async def embed(self, texts: Sequence[str], model: str = "") -> list[list[float]]:
        """Return a vector for each text (Embed). Only composite components may.

        Raises:
            SettingsError: no model is named, here or in the settings.
            ToolError: the model could not.
        """

    async def transcribe(self, recording: str | ArtifactRef | MediaBlock, model: str = "") -> str:
        """Return what is said in a recording (Transcribe). Only composite components may.

        Args:
            recording: the name of a file of the task or of an artifact, or an artifact or medium itself.
            model: the settings' `transcription_model` by default.

        Raises:
            SettingsError, ToolError: as `embed`.
            UnknownComponentError: if the run has no file or artifact of this name.
        """

    async def run_code(
        self, interpreter: str, arguments: dict[str, JsonValue], *, mode: Mode, tags: frozenset[Tag] = frozenset()
    ) -> Outcome:
        """Run a program, or the next part of one, in an interpreter (RunCode). Only composite components may.

        Args:
            interpreter: the component that runs it.
            arguments: what is run; what is not in them must be in the log.
            mode: what a crash means for it.
            tags: what it touches besides `execute`.
        """

    async def ask(self, question: str, **details: JsonValue) -> str:
        """Ask a human (AskHuman); raises SuspendedError where nobody can answer now."""

    async def wait_for_mail(self, seconds: float | None = None) -> Sequence[Mail]:
        """Wait for messages to this agent, from its run or from outside (`tell --to`); return all unread ones.

        Where nobody else can act the job ends as `waiting` and costs nothing. Only composite components may.

        Args:
            seconds: wait for at most so long, then there are none; None for no limit.

        Raises:
            ToolError: for a time that cannot be waited for, see `sleep`.
        """

    async def sleep(self, seconds: float) -> datetime:
        """Wait, and return the time then, as recorded. Only composite components may.

        A long wait ends the job as `waiting` and costs nothing.

        Raises:
            ToolError: for a time that cannot be waited for (negative, over 366 days).
        """

    async def sleep_until(self, time: datetime) -> datetime:
        """Wait until an aware time, at once if it is over; see `sleep`."""

    async def artifact(
        self, name: str, data: bytes, media_type: str = "application/octet-stream", *, made_for: MadeFor = "user"
    ) -> ArtifactRef:
        """Keep bytes as an artifact of this effect.

        Args:
            name: what the user's file is called, too.
            made_for: `run` for what the user gets no file of.
        """

    async def read_artifact(self, name: str | ArtifactRef) -> bytes:
        """Return the bytes of an artifact: a result that was cut, or a file a tool made; the newest of several.

        Raises:
            UnknownComponentError: with the names of the run's artifacts.
        """

    def attempt(self) -> AbstractAsyncContextManager[Attempt]:
        """Log an attempt, of a request to a model."""

    def progress(self, text: str) -> None:
        """Show a line to whoever watches: lossy, never in the log."""


class AgentSlot(Protocol):
    """The state of an agent on its branch, as other rooms need it; `AgentState` in agents/ implements it."""

    @property
    def own_tools(self) -> Mapping[str, object]:
        """Tools made for this agent alone, by name."""

    @property
    def functions(self) -> object | None:
        """The functions that its programs may call; None where it writes none."""

    @property
    def result_chars(self) -> int | None:
        """The longest result that its window has room for; None for no limit."""

    def may_call(self, ctx: Any) -> Sequence[Effect]:
        """Return an effect of each name that it may call, whatever its arguments are."""

    def for_rival(self) -> AgentSlot:
        """Return what a rival continuation begins with."""


@runtime_checkable
class Handler(Protocol):
    """Executes the effects of one kind; `execute` is the only place where an effect acts."""

    def mode(self, effect: Effect) -> Mode:
        """Return what a crash means for this effect."""

    def bound(self, effect: Effect) -> Bound:
        """Return the most it can cost."""

    async def execute(self, effect: Effect, ctx: Any) -> Outcome:
        """Act; `ctx` is a RunContext. Failures are outcomes; only DoorError and ModelError are raised."""


class BaseHandler:
    """A handler whose effects cost nothing."""

    fixed_mode: ClassVar[Mode | None] = None  # of all its effects; None where each has its own

    def mode(self, effect: Effect) -> Mode:
        return self.fixed_mode or effect.mode

    def bound(self, effect: Effect) -> Bound:
        return NO_COST


@runtime_checkable
class Sizing(Protocol):
    """A handler whose effects can cost less where less is left: an answer can be shorter."""

    def fit(self, effect: Effect, room: Callable[[Bound], Room]) -> tuple[Effect, Bound, Bound]:
        """Fit an effect to what is left; fingerprint and log are made of it as it was asked for.

        `room` says what the budgets leave if so much is kept for a last answer of this effect's agent.

        Returns:
            The effect to execute, the most it can cost, and what a last answer needs.
        """


class Owner(BaseModel, frozen=True):
    """A process that drives runs: enough to prove on the same machine that it is dead.

    Earlier versions recorded the first three only: nothing is proved by them.
    """

    host: str
    pid: int
    started: float
    boot: str = ""  # the id of the machine's boot; "" where the system does not tell it
    space: str = ""  # its PID and time namespaces
    ticks: int | None = None  # when it was started, since the boot
    booted: float | None = None  # when that was, by the machine's clock as it stood when this was noted

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}:{self.started:.2f}"


class RunHead(BaseModel, frozen=True):
    """What lists show of a run."""

    id: str
    status: RunStatus
    manifest: ManifestHead
    next_seq: int
    created: datetime
    parent_run: str | None = None
    imported: datetime | None = None
    """When it came from elsewhere (a bundle, a file of events). What such a run names (an application, tools, texts of
    modules) is another's: reading and replaying it executes none of it."""


class RunRecord(RunHead, frozen=True):
    """A row of `runs`, with the whole manifest."""

    manifest: RunManifest
    fork_seq: int | None = None
    accepted: datetime | None = None  # when a server took it on; None for a run that somebody else drives


class RunJob(BaseModel, frozen=True):
    """A row of `jobs`: who drives the run, under which epoch, until when (the store's time)."""

    run: str
    owner: Owner | None
    epoch: int
    lease_until: datetime | None


class RunState(NamedTuple):
    """The standing of a run, without its manifest."""

    id: str
    status: RunStatus
    created: datetime
    end: datetime  # the time of its last event; of its creation where it has none
    parent_run: str | None
    is_driven: bool  # whether a process holds a lease on it, or a server goes on with it


class Acceptance(NamedTuple):
    """A server took a run on: it drives the run, or the server that is started after it does."""

    at: datetime  # when
    key: str | None = None  # the same request that is sent again under this key is the same run; None without one
    digest: str = ""  # of the request: another one under the same key is refused


class UnfinishedRun(NamedTuple):
    """A run that is created or running, and who drives it."""

    id: str
    status: RunStatus
    is_accepted: bool
    owner: Owner | None  # who claimed it last and did not release it; None for nobody
    is_held: bool  # whether the owner's lease is not over yet, in the store's time
    lease_until: datetime | None  # when it is over


class Swept(NamedTuple):
    """Blobs that nothing referred to; `size` in bytes."""

    blobs: int
    size: int


class BlobInfo(NamedTuple):
    """Size in bytes and type of a blob."""

    size: int
    media_type: str


@runtime_checkable
class Store(Protocol):
    """The log's store: the same contract for memory, SQLite and PostgreSQL (tests/store).

    Appends are fenced by the epoch, gap-free per run, and durable when their future resolves.
    """

    async def open(self) -> None:
        """Create or migrate; WorkspaceNotWritableError, WorkspaceNewerError or WorkspaceCorruptError."""

    async def close(self) -> None:
        """Drain what was appended, then release everything; idempotent."""

    async def create_run(
        self,
        run: str,
        manifest: RunManifest,
        events: Sequence[NewEvent],
        *,
        acceptance: Acceptance | None = None,
        maker: Owner | None = None,
    ) -> None:
        """Create a run with its first events, status `created`, epoch 0.

        `maker` is the process that is about to drive it: it owns its job, without a lease, so anybody may claim it.

        Raises:
            RequestKeyError: if there is a run under the key of `acceptance`; nothing was written.
            SessionBusyError: if the newest turn of its session is not the manifest's `previous`, or is not over.
        """

    async def accept(self, run: str, at: datetime) -> None:
        """Note that a server took a run on that was created by somebody else; an earlier note stays."""

    async def request(self, key: str) -> tuple[str, str] | None:
        """Return the run that was accepted under a key and the digest of its request; None where there is none."""

    async def unfinished_runs(
        self,
        *,
        runs: Sequence[str] | None = None,
        status: RunStatus | None = None,
        is_accepted: bool | None = None,
        limit: int | None = None,
        parts: bool = False,
    ) -> list[UnfinishedRun]:
        """Return the runs that are running or created; not those that came from elsewhere.

        Those that are running come first, then the others; of both those that a server took on, as they were taken on.

        Args:
            runs: only these, 1000 at most.
            status: only those that are `running`, or `created`.
            is_accepted: only those that a server took on, or only the others.
            limit: at most so many.
            parts: parts of runs (`ids.PART`) in place of runs.
        """

    async def count_created(self) -> int:
        """Return how many runs that a server took on are still `created`."""

    async def import_run(self, record: RunRecord, events: Sequence[Event], *, epoch: int) -> None:
        """Create a run that was made elsewhere, with its whole log as it is there; nobody drives it.

        `record.imported` says when it came, `epoch` is the last one it was driven under.

        Raises:
            StoreError: if there is a run of this id already, or the events are not one whole log.
            DuplicateEventError: if a key stands twice among them.
        """

    def append(
        self, run: str, epoch: int | None, events: Sequence[NewEvent], *, status: RunStatus | None = None
    ) -> Future[tuple[int, ...]]:
        """Queue events for the next group commit, all or none; callable from any thread, in order per caller.

        Args:
            epoch: the writer's; None for other processes, which may append external types only.
            status: sets the run's status in the same commit.

        Returns:
            A future of the sequences drawn. It fails with FencedError (the epoch is over), DuplicateEventError,
            StoreFullError, UnknownRunError, StoreError; the other runs of the same batch are not touched.
        """

    async def load(self, run: str, *, after: int = 0, upto: int | None = None, verify: bool = False) -> list[Event]:
        """Return the events with after < seq <= upto, in order, blobs resolved.

        With `verify` LogChangedError for an event that is not the one that was appended; those that an earlier version
        appended are not checked, and in memory nobody changes one.
        """

    async def query(
        self,
        filters: LogQuery,
        *,
        after: tuple[str, int] | None = None,
        limit: int = 1000,
        newest: bool = False,
        verify: bool = False,
    ) -> list[Event]:
        """Return events of any runs, by run id (which is by creation) and sequence, blobs resolved.

        Args:
            wanted: which ones; at most 500 runs by name.
            after: run and sequence of the last event of the page before.
            newest: the last `limit` ones instead of the first ones (still in order).
            verify: as for `load`.
        """

    async def get_run(self, run: str) -> RunRecord | None:
        """Return the run's row, None where there is none."""

    async def list_runs(self, *, limit: int | None = None, session: str | None = None) -> list[RunHead]:
        """Return the runs, newest first; no parts of runs (`ids.PART`), nor does a `query` that names no runs."""

    async def run_ids(self, beginning: str = "") -> list[str]:
        """Return the ids of the same runs, newest first; those alone that begin so."""

    async def waiting(self, only: Sequence[str] | None = None) -> list[tuple[Event, bool]]:
        """Return the last `run_ended` of each waiting run, and whether events came after it; `only`: 1000 at most."""

    async def job(self, run: str) -> RunJob | None:
        """Return who drives the run."""

    async def claim(self, run: str, owner: Owner, *, lease_s: float, expect_epoch: int | None = None) -> int | None:
        """Take the run over: epoch + 1, lease from now in the store's time.

        Without `expect_epoch` only when the lease is over or free; with it whenever the epoch is still that one (the
        caller has proof that the owner is dead). None when it is not to be had.
        """

    async def heartbeat(self, epochs: Mapping[str, int], *, lease_s: float) -> set[str]:
        """Prolong the leases held under these epochs; return the runs that were lost to another owner."""

    async def release(self, run: str, epoch: int) -> None:
        """Give the run back if the epoch is still held."""

    async def put_blob(self, data: bytes, media_type: str = "application/octet-stream") -> str:
        """Keep bytes durably; return their SHA-256."""

    async def put_texts(self, texts: Iterable[str], media_type: str) -> list[str]:
        """Keep texts durably, the short ones in one write; return the SHA-256 of each that differs, in their order."""

    async def get_blob(self, sha256: str) -> bytes:
        """Return the bytes; StoreError if there is no such blob or it does not match its hash."""

    async def find_blobs(self, names: Sequence[str]) -> dict[str, BlobInfo]:
        """Return those of these hashes that are blobs, without reading their bytes."""

    async def run_states(self, *, parts: bool = False) -> list[RunState]:
        """Return how every run stands, newest first; with `parts` those alone that are part of another one."""

    async def delete_runs(self, runs: Sequence[str]) -> list[str]:
        """Delete runs with their events, forks before what they were forked from; return those that were deleted.

        Never those that are driven or queued, wait or are paused, nor those that another run was forked from.
        """

    async def sweep_blobs(self, *, grace_s: float, dry_run: bool = False) -> Swept:
        """Delete the blobs that neither a run nor a component refers to (`log/store/references.py`).

        Args:
            grace_s: those that were put within so many seconds stay: a run that is about to refer to them may not yet
                be in the log.
            dry_run: only count them.
        """

    async def record_components(self, changes: Sequence[ComponentChange]) -> None:
        """Append to the histories of components: all of these entries, or none.

        Raises:
            ComponentConflictError: if the place of one is taken or would leave a gap; nothing was written.
        """

    async def component_changes(
        self, components: Sequence[tuple[str, str]] | None = None, *, kind: str | None = None
    ) -> list[ComponentChange]:
        """Return whole histories, by kind, name and sequence: of these (kind, name), of one kind, or of all."""

    async def component_heads(self) -> dict[tuple[str, str], int]:
        """Return the last sequence of each component's history, by (kind, name)."""

    async def component_count(self) -> int:
        """Return the number of entries of all histories: it grows with every one, and costs little to ask."""

    async def changed(self) -> bool:
        """Return True if anyone without an epoch appended through another connection since the last call.

        For watchers. Other commits may count too; this process's own driving does not.
        """

    def follow(self, run: str) -> AbstractContextManager[asyncio.Event]:
        """Give an event of the running loop that is set when there may be more in the run's log, whoever appends.

        Clear it before each read: what is committed after the read sets it again. It may be set without news, and is
        set when the store is closed.
        """


class Engine(Protocol):
    """Drives runs: submit, claim, heartbeat, cancel."""

    async def submit(self, run: str, drive: Callable[[int], Awaitable[Any]]) -> Any:
        """Claim the run, await `drive(epoch)` under a heartbeat, release it; FencedError if another one drives it."""

    async def cancel(self, run: str, *, reason: str = "", by: str = "") -> None:
        """Ask whoever drives the run to stop it."""

    async def close(self) -> None:
        """Cancel what is driven here and wait until it has been put away."""


class Environment(Protocol):
    """An environment instance (the E of TEA). One belongs to one run and world.

    An action that reaches further than the environment's own state (it sends, spends, reads from the network) has to
    say so, or policy cannot ask: by a method `tags(action) -> frozenset[Tag]`, which may be left out where there is
    none. So may `conditions(action) -> Conditions` (core/conditions.py), and `composite = True`: its actions do nothing
    but perform effects through `ctx`, and are entered again by a resume or replay. `composes(action) -> bool` says so
    of single actions; they hold nothing of the instance, and act on it by effects. `repeatable(action) -> bool` says of
    an action that changes the state whether it may be performed again after a crash, because all it touches is what a
    snapshot puts back; where there is none it is not, and the outcome is uncertain. `state_for(ctx)` takes the place of
    `state()` where each agent sees something else; `ctx` is the RunContext of the look. `stops_at_failure = True`: of
    the actions of one decision, those behind one that failed are not done. `begins_with` names the actions whose
    schemas stand in a first prompt; an agent opens the others when it wants them.
    `mistaken(action, arguments, ctx)` returns a sentence on what a mere look at the open instance finds wrong with a
    call, before policy judges it, else None.

    Several environments can work on one thing, such as a folder: they name the same `ground` and have the members of
    `Grounded`. The effects of all of them name the ground as their instance, so they share its lock, the order of its
    calls and its snapshots.

    Attributes:
        name, version, content_hash: the component.
        branching: `stateless` (nothing to carry over), `snapshot` (snapshot/restore work), `none`.
        durable: its state lives in the run's folder and survives the process.
    """

    name: str
    version: str
    content_hash: str
    branching: Literal["stateless", "snapshot", "none"]
    durable: bool

    def actions(self) -> tuple[ToolSchema, ...]:
        """Return the actions with the schemas of their arguments."""

    def mutates(self, action: str) -> bool:
        """Return True if an action changes the state (a snapshot follows it)."""

    def rules(self) -> str:
        """Return text for the prompt: state, vision, interaction (000, app. H)."""

    async def open(self, ctx: Any) -> None:
        """Make the instance ready; `ctx` is a RunContext."""

    async def close(self) -> None:
        """Leave nothing behind."""

    async def act(self, action: str, arguments: dict[str, JsonValue], ctx: Any) -> Any:
        """Execute an action; return what a tool may return."""

    async def state(self) -> tuple[Block, ...]:
        """Return what an agent sees of the environment now."""

    async def snapshot(self) -> bytes:
        """Return the whole state as bytes (`branching = snapshot`)."""

    async def restore(self, data: bytes) -> None:
        """Take the state of a snapshot."""


class Ground(Protocol):
    """The thing that the environments of one run and world with the same `ground` work on."""

    snapshot_type: str  # media type of its snapshots: `application/json` where they name blobs

    async def snapshot(self) -> bytes:
        """Return the whole state as bytes, with what each of its environments remembers besides."""

    async def restore(self, data: bytes | None) -> None:
        """Take the state of a snapshot; of a new ground for None."""

    async def close(self) -> None:
        """Leave nothing behind but what the run's user is to find."""


@runtime_checkable
class Grounded(Protocol):
    """The members that an environment with a ground has besides `Environment`'s; all that share it name it alike."""

    ground: str

    async def lay(self, ctx: Any) -> Ground:
        """Make the ground, as the first environment that is opened in a world; `ctx` is a RunContext."""

    def stand_on(self, ground: Ground) -> None:
        """Take the ground that is there; called before `open`."""


def instance_of(environment: Any) -> str:
    """Return the instance that an environment's effects name by default: its ground, or it itself."""
    return str(getattr(environment, "ground", "") or environment.name)
