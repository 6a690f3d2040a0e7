"""The error tree.

    AgentOrchestraError
    ├── UsageError: EmptyTask, FileInput (UnseenScan, UnheardRecording), UnknownModel, UnknownSystem, UnknownRole,
    │     UnknownRun, UnknownComponent, MissingKey, MissingExtra, Settings, App, Budget, ToolDefinition, Prompt,
    │     Answer, Fork, Bundle, Pin, ComponentName, Version, Lifecycle, NotAllowed, Manifest, Source, Transformation,
    │     Mcp, WorkspaceState, HttpRequest, RequestKey, OtherSettings, OtherWorker, Session (SessionBusy),
    │     RunOver, Chat,
    │     SandboxUnavailable, Image, SystemDefinition, Evaluation,
    │     TaskFolder, Project (ApplyConflict), Evidence, PolicyFile, RunUnderWay,
    │     Proposal (LostPlaceholder, Growth, Unloadable, SchemaChange, Rights, Overlap)
    ├── StoreError: WorkspaceNotWritable, WorkspaceNewer, WorkspaceCorrupt, StoreFull, StoreUnavailable, Fenced,
    │     StoreResource, DuplicateEvent, LogChanged, ComponentConflict
    ├── DoorError: Diverged, BudgetExhausted, Suspended, ConcurrentUse, Replay
    ├── ModelError: ModelAuth, ModelRateLimit, ModelUnavailable (ModelServerDown), ModelResponse,
    │     ModelRequest (ModelContext, ModelSchema, ModelMedia), Script
    ├── ToolError: Web, Edit (AmbiguousText, NotText, Patch, Undo), EnvironmentLost, Job, Keys
    ├── Resource
    ├── Cluster: LostLock
    ├── RunNotCompleted
    └── Invocation, ProgramEnded, AgentFailed, Output, EventFormat

Names end in `Error`, but for RunNotCompleted. Every message names the bad value and what to do next.
UndeclaredToolWarning and HookWarning are no errors: Python's `warnings` tells them, the first in one line.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal


class AgentOrchestraError(Exception):
    """Base of every error this package raises on purpose."""


class UsageError(AgentOrchestraError):
    """Bad input, refused before anything is spent. The command line exits with 2."""


class EmptyTaskError(UsageError):
    """The task holds no text."""


class FileInputError(UsageError):
    """A file given with a task is missing, unreadable, empty, corrupt or a folder."""


class UnseenScanError(FileInputError):
    """A PDF given with a task has pictures for pages, and no model of the run takes pictures or documents."""


class UnheardRecordingError(FileInputError):
    """A recording is given with a task, and no model of the run hears or writes it down."""


class UnknownModelError(UsageError):
    """No profile and no provider has this model's name."""


class UnknownSystemError(UsageError):
    """No system has this name."""


class UnknownRoleError(UsageError):
    """No agent of the workspace plays this role."""


class UnknownRunError(UsageError):
    """The workspace holds no run with this id."""


class NoWorkspaceError(UsageError):
    """A folder that was named to read from, or to copy, holds no workspace."""


class BackupError(UsageError):
    """A workspace cannot be copied to where it was asked to."""


class UnknownComponentError(UsageError):
    """A tool, environment, agent or prompt that is not registered."""


class MissingKeyError(UsageError):
    """A provider needs a credential that the environment does not hold."""


class KeyStoreError(UsageError):
    """A key cannot be kept, or read, where the user wants it: a keyring or a file that does not work."""


class MissingExtraError(UsageError):
    """An optional dependency is not installed; the message gives the command."""


class SettingsError(UsageError):
    """The settings file or environment holds a value that does not fit."""


class LeaseError(SettingsError):
    """A claim on a run would be over before its driver can prolong it."""


class AppError(UsageError):
    """The user's application (`app = "module:workspace"`) cannot be loaded."""


class BudgetError(UsageError):
    """A budget that is malformed or cannot be held (e.g. dollars for a model without a price)."""


class ToolDefinitionError(UsageError):
    """A function that cannot become a tool."""


class EnvironmentAsToolError(ToolDefinitionError):
    """The name of an environment where tools are given."""


class SystemDefinitionError(UsageError):
    """A callable or a program that cannot become a system."""


class TaskFolderError(UsageError):
    """A folder is no task, or a task whose machine cannot be had here."""


class EvaluationError(UsageError):
    """Scores, a benchmark or a plan of an evaluation cannot be used as they are."""


class EvolutionError(UsageError):
    """An evolution cannot be begun, gone on with, or decided as it is."""


class EvidenceError(UsageError):
    """Variables, evidence or limits that no optimiser could work with."""


class ProposalError(UsageError):
    """A new text for a part of a component that is refused; nothing was registered."""


class LostPlaceholderError(ProposalError):
    """A new prompt text lacks a variable that the old one renders, or uses one that it is not given."""


class GrowthError(ProposalError):
    """A new text is empty, or longer than the limits allow."""


class UnloadableError(ProposalError):
    """A new text cannot be read (a template, Python, JSON), or does not define what the old one defines."""


class SchemaChangeError(ProposalError):
    """A new text changes what a component takes, so that calls which fitted are refused."""


class RightsError(ProposalError):
    """A new text would have more rights than the old one, or gives up a protection."""


class OverlapError(ProposalError):
    """A new text holds words of questions or answers that are held apart."""


class PromptError(UsageError):
    """A prompt file that cannot be read, parsed or rendered."""


class SandboxUnavailableError(UsageError):
    """There is no sandbox here for code that a model wrote; the message says what to install."""


class ImageError(UsageError):
    """An image for the terminal is missing, damaged, none at all, for another machine, or leads out of its root."""


class AnswerError(UsageError):
    """An answer, approval or denial that fits no open question."""


class ForkError(UsageError):
    """A run that cannot be forked at that event, or with that change."""


class PolicyFileError(UsageError):
    """A file that gives no policy to try, or a policy that fails on a recorded effect."""


class SessionError(UsageError):
    """A session, or a run, that cannot be gone on with, or erased."""


class ScheduleError(UsageError):
    """A schedule whose times cannot be read or never come, or a name that none or another schedule has."""


class SessionBusyError(SessionError):
    """A session whose last turn is not over: the next one would not know what it goes on with."""


class RunOverError(UsageError):
    """A run that is over, where one that still reads what it is told is needed."""


class ChatError(UsageError):
    """A chat that cannot begin, or a line of it that cannot be carried out."""


class RunUnderWayError(UsageError):
    """A run that is still being driven, where one that has ended or waits is needed."""


class BundleError(UsageError):
    """A bundle, or a file of events, that cannot be written, or that is refused; nothing was imported."""


class PinError(UsageError):
    """A prompt or tool as a run was started with that cannot be had any more."""


class ComponentNameError(UsageError):
    """A name that no component can have: empty, too long, reserved, or not made of the allowed characters."""


class VersionError(UsageError):
    """A version that is not there, is no version, or is there with other content."""


class LifecycleError(UsageError):
    """A component cannot go from the state it is in to the one it was sent to."""


class NotAllowedError(UsageError):
    """A component that this caller may not invoke."""


class CandidateError(UsageError):
    """A candidate that would have more rights than the version it is to replace, or a part that may not be changed."""


class ManifestError(UsageError):
    """A manifest or a saved registry that cannot be loaded."""


class SourceError(UsageError):
    """Source text that gives no component: a syntax error, a forbidden import, missing members."""


class TransformationError(UsageError):
    """A transformation, or a sequence of them, that does not fit what it is given."""


class McpError(UsageError):
    """An MCP server, or the file that names it, that cannot be used."""


class OutFolderError(UsageError):
    """The files of a run cannot be written to the folder that was named for them."""


class ProjectError(UsageError):
    """A folder of the user's that a run cannot work on, or changes that cannot be brought back into it."""


class ApplyConflictError(ProjectError):
    """Files that a run changed were changed in the user's folder meanwhile: nothing is written.

    Attributes:
        paths: of these files, relative to the folder.
    """

    def __init__(self, message: str, paths: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.paths = paths


class WorkspaceStateError(UsageError):
    """A workspace is used before it is open, or opened where it is open already."""


class HttpRequestError(UsageError):
    """A request to the HTTP interface is malformed, too large or comes at the wrong time.

    `status` is the answer's; after `retry_after_s` seconds it may be sent again.
    """

    def __init__(self, message: str, *, status: int = 400, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s


class RequestKeyError(UsageError):
    """The key of a request was used before, with another request."""


class OtherSettingsError(UsageError):
    """A run was made under another preset, application or task folder than the process that is to drive it has."""


class OtherWorkerError(UsageError):
    """A worker has other settings than those that work on the same database."""


class ClusterError(AgentOrchestraError):
    """The queue of runs on a database cannot be used."""


class LostLockError(ClusterError):
    """A worker was stopped or cut off from the database, and others have taken its runs over: it ends itself."""


class StoreError(AgentOrchestraError):
    """The workspace's store refused or failed."""


class WorkspaceNotWritableError(StoreError):
    """The workspace folder cannot be created or written."""


class WorkspaceNewerError(StoreError):
    """The workspace was written by a later version of the package."""


class WorkspaceCorruptError(StoreError):
    """The workspace's database cannot be read."""


class StoreFullError(StoreError):
    """No space left for the log."""


class StoreUnavailableError(StoreError):
    """The database does not answer, does not exist, or does not let this user in."""


class StoreRefusedError(StoreUnavailableError):
    """The store's server answers and lets nobody in under this address: waiting does not help."""


class ArtifactsError(StoreError):
    """The bucket of the artifacts is not there, or is not open to these keys."""


class ArtifactsUnavailableError(StoreUnavailableError):
    """The store of the artifacts does not answer; the log can be written."""


class OtherArtifactsError(SettingsError):
    """The artifacts of this database lie elsewhere, or what lies there is another database's."""


class StoreResourceError(StoreError):
    """The process lacks what it needs to read or write the log: descriptors, threads or memory."""


class FencedError(StoreError):
    """The epoch of this writer is over: another process drives the run."""


class DuplicateEventError(StoreError):
    """The same (branch, n, attempt, type) was appended twice."""


class LogChangedError(StoreError):
    """An event of the log is not the one that was appended."""


class ComponentConflictError(StoreError):
    """Another process wrote to a component's history first; read it again, then try again."""


class ResourceError(AgentOrchestraError):
    """The process lacks descriptors, threads or memory: the run ends here and can be resumed where there is more."""


class DoorError(AgentOrchestraError):
    """Raised by the door itself and passed through the loop."""


class DivergedError(DoorError):
    """The effect at a key differs from the recorded one."""

    def __init__(self, message: str, *, branch: str = "", n: int = 0) -> None:
        super().__init__(message)
        self.branch = branch
        self.n = n


class BudgetExhaustedError(DoorError):
    """The budget of the run or of a carve does not cover the next effect."""

    def __init__(self, message: str, *, resource: str = "", scope: str = "/") -> None:
        super().__init__(message)
        self.resource = resource
        self.scope = scope


class SuspendedError(DoorError):
    """A branch waits; the job ends as `waiting` and is started again by the answer, the mail or the time.

    Attributes:
        waiting_for: keys of the effects that wait.
        until: when the first timer is due, None without one.
    """

    def __init__(self, message: str, *, waiting_for: tuple[str, ...] = (), until: datetime | None = None) -> None:
        super().__init__(message)
        self.waiting_for = waiting_for
        self.until = until


class HandedBackError(SuspendedError):
    """A part of a run (docs/cluster.md) came to what only the run itself may do, or to its end."""


class PartElsewhereError(DoorError):
    """A sub-agent of the run is a job of its own, and this process, which is no worker, cannot take it over."""


class ConcurrentUseError(DoorError):
    """One branch was used by two tasks at once."""


class ReplayError(DoorError):
    """A replay ended with another set of keys than was recorded."""


class ModelError(AgentOrchestraError):
    """A provider could not serve a request; the run fails and can be resumed.

    Attributes:
        retryable: asking the same provider again may help.
        elsewhere: another provider may help; not for a request that every one of them would refuse.
    """

    retryable = False
    elsewhere = True

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ModelAuthError(ModelError):
    """The provider refused the credential."""


class ModelRateLimitError(ModelError):
    """The provider asks to wait."""

    retryable = True


class ModelUnavailableError(ModelError):
    """The provider is unreachable, silent or failing."""

    retryable = True


class ModelServerDownError(ModelUnavailableError):
    """Nothing listens at an address of this machine or its private network: somebody has to start the server."""


class ModelResponseError(ModelError):
    """The provider answered with something that is not a model response."""

    retryable = True


class ModelRequestError(ModelError):
    """The provider refused the request itself."""


class ModelContextError(ModelRequestError):
    """The prompt is longer than what the model can read: an observation, the agent shortens its history."""


class ModelSchemaError(ModelRequestError):
    """The provider, or its library, refuses the schema of a tool or of the output; it is asked again without.

    Attributes:
        tools: names of the tools, () where it is the output's schema.
    """

    def __init__(self, message: str, *, tools: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.tools = tools


class ModelMediaError(ModelRequestError):
    """The provider, or its library, refuses media of a request; it is asked again with them named only.

    Attributes:
        kinds: what it refuses: `image`, `audio`, `document`, `video`.
    """

    def __init__(self, message: str, *, kinds: tuple[str, ...]) -> None:
        super().__init__(message)
        self.kinds = kinds


class ScriptError(ModelError):
    """The scripted model met a request it has no step for, or kept a step unused."""


class ToolError(AgentOrchestraError):
    """Raise it in a tool to show the model a sentence without a traceback."""


class JobError(ToolError):
    """A job of a shell that cannot be started, is not there, has ended or has no screen."""


class KeysError(ToolError):
    """Keys for a terminal that have no such name, or are too many at once."""


class EnvironmentLostError(ToolError):
    """How an environment stood cannot be had here, because what its snapshot lies on is another one now."""


class WebError(ToolError):
    """An address that is refused, or that gave no usable answer. Tools that raise it show its sentence to the model.

    Attributes:
        kind: `refused` (the address, or where it leads, is not read), `unreachable` (no name, no connection, no valid
            certificate), `timeout`, `too_large`, `bad_answer` (what came is no HTTP, or no answer to what was asked).
        url: the address, without passwords.
        status: of the answer, 0 without one.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: Literal["refused", "unreachable", "timeout", "too_large", "bad_answer"],
        url: str,
        status: int = 0,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.url = url
        self.status = status


class EditError(ToolError):
    """A change of a file that cannot be made; the file is as it was."""


class AmbiguousTextError(EditError):
    """The text to change stands in the file several times."""


class NotTextError(EditError):
    """The file holds no text, or text that could not be written back as it was."""


class PatchError(EditError):
    """A patch that is no unified diff, or does not fit the file."""


class UndoError(EditError):
    """There is no change to take back, or the file was changed by something else since."""


class InvocationError(AgentOrchestraError):
    """A call that gave no value: a mistake, denied, failed, or past its time (`Outcome.result`)."""

    def __init__(self, message: str, *, status: str) -> None:
        super().__init__(message)
        self.status = status


class ProgramEndedError(AgentOrchestraError):
    """A program whose functions are tools was ended by the host: it made too many calls or printed too much."""


class AgentFailedError(AgentOrchestraError):
    """The top agent ended without a result; the run fails and can be resumed."""


class OutputError(AgentOrchestraError):
    """The answer of a run does not fit `output_type`."""


class RunNotCompleted(AgentOrchestraError):
    """The answer of a run that has none: it waits, was stopped, or failed.

    Attributes:
        status: its status, e.g. `waiting`.
        reason: why it has no answer, in one sentence.
        next_step: what to call now.
    """

    def __init__(self, run_id: str, *, status: str, reason: str, next_step: str) -> None:
        self.run_id, self.status, self.reason, self.next_step = run_id, status, reason, next_step
        super().__init__(f"run {run_id} is {status} and gives no answer: {reason}; {next_step}")


class EventFormatError(AgentOrchestraError):
    """An event of an unknown type or of a later version than this package knows."""


class HookWarning(UserWarning):
    """A hook (`on_step`, `on_tool`, `on_model`) raised; its run goes on."""


class UndeclaredToolWarning(UserWarning):
    """A tool was registered that does not say what it touches (`@tool` without `effect=`)."""
