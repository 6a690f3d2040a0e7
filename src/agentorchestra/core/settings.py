"""The model of the settings; workspace/settings.py reads them from `agentorchestra.toml` and the environment."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, SecretStr, ValidationInfo, field_validator, model_validator

from agentorchestra.core.budget import Budget

NO_PRESET = "none"
"""In place of a preset's name: there is nothing under the settings."""


ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
"""Thinking of a model before it answers; each provider gets it in its own form."""


class Price(BaseModel, frozen=True, extra="forbid"):
    """US dollars per million tokens, by class. A class left out costs as much as plain input or output.

    Attributes:
        audio_minute: US dollars per minute of sound, for models that transcribe and are paid by the minute.
    """

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cache_read: float | None = Field(default=None, ge=0)
    cache_write: float | None = Field(default=None, ge=0)
    audio_minute: float | None = Field(default=None, ge=0)


class ModelProfile(BaseModel, frozen=True, extra="forbid"):
    """A named model.

    Attributes:
        model: `provider:model`, e.g. `openai:gpt-5`, or `scripted` / `offline`.
        base_url: address of an OpenAI-compatible server.
        api_key_env: the environment variable that holds the key ("" for a server without one).
        tools: whether the model takes native tool calls; without them the JSON text format is used.
        forces_tools: whether its server lets a request force the call of one tool; None: if it is its maker's own.
        max_tokens: the longest answer; None for the model's own limit. Window and budget bound it too.
        temperature: of each request; None for the provider's.
        reasoning_effort: how much the model thinks before it answers; None for the provider's default.
        thinking_tokens: for models that take a number (Anthropic, Google), in place of the effort.
        timeout_s: seconds of silence, before or in the answer, after which a request is given up.
        stream: whether answers come in pieces; without it `timeout_s` limits the whole of an answer.
        context_window: tokens the model can read.
        vision, audio, document: whether it takes images, sound, PDFs; None (unknown) sends them. What it does not take
            is named in the text instead.
        video: whether it takes videos; None: it does not, as few models do.
        price: overrides the known price.
        fallbacks: names of the models that are asked in its place, in order, when it cannot serve a request.
        concurrency: requests that may be under way at the same time, over all runs of a process.
        requests_per_minute: requests that may begin in a minute, over all runs of a process.
        max_attempts: attempts in all (first one included) on 5xx, refused connections, silence and garbage.
        backoff_s: the first pause between two attempts; it doubles with each, up to a minute.
        rate_limit_s: seconds that one request waits in all where the provider limits the rate (429).
    """

    model: str
    base_url: str | None = None
    api_key_env: str | None = None
    tools: bool = True
    forces_tools: bool | None = None
    vision: bool | None = None
    audio: bool | None = None
    document: bool | None = None
    video: bool | None = None
    max_tokens: int | None = Field(default=None, gt=0)
    temperature: float | None = None
    reasoning_effort: ReasoningEffort | None = None
    thinking_tokens: int | None = Field(default=None, ge=1024)
    timeout_s: float = Field(default=600.0, gt=0)
    stream: bool = True
    context_window: int = Field(default=128_000, gt=0)
    price: Price | None = None
    max_attempts: int = Field(default=7, ge=1)
    backoff_s: float = Field(default=1.0, ge=0)
    rate_limit_s: float = Field(default=600.0, ge=0)
    fallbacks: tuple[str, ...] = ()
    concurrency: int | None = Field(default=None, ge=1)
    requests_per_minute: float | None = Field(default=None, gt=0)

    @property
    def may_force(self) -> bool:
        """True if a request may force the call of one tool."""
        is_provider = ":" in self.model and self.base_url is None
        return self.tools and (is_provider if self.forces_tools is None else self.forces_tools)


Finish = Literal["done", "text"]
"""The end of an agent's work: a call of `done` only, or also a reply in plain words without a call."""


Reasoning = Literal["native", "fields"]
"""Reasoning of an agent: in its model's own way, or in four fields that it writes beside its calls (000, app. H)."""

FirstTools = Literal["fitting", "all"]
"""Tools whose schemas stand in an agent's first prompt: those that fit its task, or all."""

Action = Literal["tools", "code"]
"""Acting of an agent: by calling tools, or by writing a program in which they are functions."""

OnAsk = Literal["wait", "deny"]  # the fate of a question that nobody can answer now
OnUncertain = Literal["report", "ask", "retry"]  # the fate of an effect that may have happened before a crash


class RoleSettings(BaseModel, frozen=True, extra="forbid"):
    """A role's model and parameters, in place of the run's model and its profile's parameters.

    Attributes:
        model: a profile's name or `provider:model`; "" for the run's model.
        temperature, max_tokens, reasoning_effort, thinking_tokens: None for the profile's.
    """

    model: str = ""
    temperature: float | None = None
    max_tokens: int | None = Field(default=None, gt=0)
    reasoning_effort: ReasoningEffort | None = None
    thinking_tokens: int | None = Field(default=None, ge=1024)


class PolicySettings(BaseModel, frozen=True, extra="forbid"):
    """The exceptions of the default policy."""

    allowed_hosts: tuple[str, ...] = ()  # hosts that may be read whatever the address came from
    allow: tuple[str, ...] = ()  # component names that need no question
    ask: tuple[str, ...] = ()  # component names of which every call is asked about
    deny: tuple[str, ...] = ()  # component names that are refused
    # for tools that do not say what they touch (`@tool` without `effect=`): `ask` as for one that sends, or `allow`.
    # Tools whose description comes from outside are asked about in any case.
    undeclared: Literal["allow", "ask"] = "ask"
    # whether the model states what the user's words call for, from these words alone, before the first call that sends,
    # spends or writes elsewhere: what lies inside needs no question, what lies outside does
    plan: Literal["off", "on"] = "on"
    # whether the model looks again at such a call that the plan allows, if a value of it is not the user's and
    # something untrusted was read: what it doubts is asked about
    review: Literal["off", "on"] = "on"

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        for name in self.ask:
            for other in ("allow", "deny"):
                if name in getattr(self, other):
                    raise ValueError(f"{name!r} stands in policy.ask and in policy.{other}; name it in one of them")
        return self


class ServeSettings(BaseModel, frozen=True, extra="forbid"):
    """The limits of `agentorchestra serve` (docs/web.md).

    Attributes:
        max_connections: that are open at the same time, followed streams of events among them.
        header_timeout_s: seconds until the head of a request has come, from the connection or from its first byte on.
        body_timeout_s: seconds until its body has come.
        max_runs: runs that are driven at the same time; None for eight for each core, 0 where workers drive them all
            (docs/cluster.md).
        max_queued: runs that wait for their beginning; further ones are refused until there is room.
        stop_s: seconds in which effects under way may end when the server stops.
        take_up: which runs it goes on with: those that a server `accepted`, or `all`, those that a command line began
            and abandoned too.
    """

    max_connections: int = Field(default=200, ge=1)
    header_timeout_s: float = Field(default=10.0, gt=0, allow_inf_nan=False)
    body_timeout_s: float = Field(default=60.0, gt=0, allow_inf_nan=False)
    max_runs: int | None = Field(default=None, ge=0)
    max_queued: int = Field(default=1000, ge=1)
    stop_s: float = Field(default=10.0, ge=0, allow_inf_nan=False)
    take_up: Literal["accepted", "all"] = "accepted"


class ArtifactsOptions(BaseModel, frozen=True, extra="forbid"):
    """How the store of `artifacts` is reached from this machine. Keys never stand here.

    Attributes:
        endpoint: address of its server, such as `https://minio.example.org:9000`; "" for AWS_ENDPOINT_URL, or AWS.
        region: "" for AWS_DEFAULT_REGION, or the profile's.
        profile: in ~/.aws, whose keys are used; "" for AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE.
    """

    endpoint: str = ""
    region: str = ""
    profile: str = ""


class ModelLimit(BaseModel, frozen=True, extra="forbid"):
    """Limits of one model over all workers of a database."""

    concurrency: int | None = Field(default=None, ge=1)  # runs made with it at the same time
    # runs made with it that begin, or are taken up again, in a minute
    per_minute: int | None = Field(default=None, ge=1)
    # requests to it that are under way at the same time, whichever runs and agents send them
    requests: int | None = Field(default=None, ge=1)
    requests_per_minute: int | None = Field(default=None, ge=1)  # requests to it that begin in a minute

    @property
    def of_runs(self) -> bool:
        return self.concurrency is not None or self.per_minute is not None

    @property
    def of_requests(self) -> bool:
        return self.requests is not None or self.requests_per_minute is not None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not (self.of_runs or self.of_requests):
            raise ValueError("name at least one of concurrency, per_minute, requests, requests_per_minute")
        return self


class ClusterSettings(BaseModel, frozen=True, extra="forbid"):
    """Many workers on one database (docs/cluster.md).

    Attributes:
        limits: of the runs and requests of single models, by the model's name.
        hand_on_s: seconds that what is under way has to end when a worker is told to stop; then it is given up, as in
            a crash.
        sub_agents: where the sub-agents of a run work that a worker drives, and the agents that write to each other:
            `here`, or as `jobs` of their own, which any worker takes.
    """

    limits: dict[str, ModelLimit] = {}
    hand_on_s: float = Field(default=20.0, ge=0, allow_inf_nan=False)
    sub_agents: Literal["here", "jobs"] = "here"


class SandboxSettings(BaseModel, frozen=True, extra="forbid"):
    """The place and the limits of code that a model wrote.

    Attributes:
        backend: `auto` (bubblewrap, else Docker), `bubblewrap`, `docker`, the name of an installed entry point, `none`,
            or `unsafe-local`: no sandbox at all, the program may do what this user may.
        network: whether programs reach the network; every call is then judged as one that could send data out.
        libraries: distributions of this environment that programs may import, besides those of the extra `sandbox`.
        image, runtime: of Docker.
        timeout_s: seconds one program may take.
        memory_mib: of all its processes together.
        processes: at the same time, threads included.
        files_mib: of its working folder and of temporary files; `folder` has the limits of a run's folder.
        kept_mib: of the files that are kept as artifacts after one program.
    """

    backend: str = "auto"
    network: bool = False
    libraries: tuple[str, ...] = ()
    image: str = "agentorchestra-sandbox"
    runtime: str = ""
    timeout_s: float = Field(default=60.0, gt=0)
    memory_mib: int = Field(default=2048, ge=64)
    processes: int = Field(default=256, ge=4)
    files_mib: int = Field(default=512, ge=1)
    kept_mib: int = Field(default=64, ge=1)


class GitHubSettings(BaseModel, frozen=True, extra="forbid"):
    """GitHub for the environment `github`."""

    base_url: str = "https://api.github.com"  # of the REST API; of GitHub Enterprise `https://HOST/api/v3`
    # the environment variable that holds the token; "" for none: then only what is public can be read
    token_env: str = "GITHUB_TOKEN"
    timeout_s: float = Field(default=30.0, gt=0)  # of one request
    # how long one action waits in all when the limit of requests is reached
    max_wait_s: float = Field(default=60.0, ge=0)


class FolderSettings(BaseModel, frozen=True, extra="forbid"):
    """Limits of a run's folder, for all environments that work on it, the commands of the terminal among them.

    Attributes:
        max_mib: of all files together; a command that writes more is ended.
        max_entries: files, folders and links, as for `max_mib`.
        max_file_mib: of one file in snapshots; a larger one is named and left out of them.
        max_project_mib: of a project's files that are copied for a run (docs/coding.md).
        see: names of further folders of a project that git ignores and commands see read-only, such as vendor.
    """

    max_mib: float = Field(default=4096.0, gt=0)
    max_entries: int = Field(default=250_000, ge=1)
    max_file_mib: float = Field(default=256.0, gt=0)
    max_project_mib: float = Field(default=1024.0, gt=0)
    see: tuple[str, ...] = ()


class TerminalMount(BaseModel, frozen=True, extra="forbid"):
    """A folder of this machine that commands of the terminal see."""

    folder: str = Field(min_length=1)  # on this machine
    inside: str = Field(pattern=r"^/[^/]")  # where commands see it; a path from the root
    writable: bool = False  # whether they may change it. No snapshot has what they change there.


class TerminalCopy(BaseModel, frozen=True, extra="forbid"):
    """A file or folder of this machine that is copied into each new run's folder."""

    source: str = Field(min_length=1)  # on this machine; of a folder what is in it
    to: str = ""  # where it comes in the run's folder; "" for the folder itself


class TerminalSettings(BaseModel, frozen=True, extra="forbid"):
    """The machine of the environment `terminal`."""

    # the system that commands see: an OCI layout (a folder or a tar), or what `docker save` writes; "" for this
    # machine's /usr, read only
    image: str = ""
    workdir: str = ""  # where the run's folder is seen; "" for where the image itself begins, else /work
    # variables that commands find, besides those of an image
    environment: dict[
        Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], Annotated[str, Field(pattern=r"^[^\x00]*$")]
    ] = {}
    copies: tuple[TerminalCopy, ...] = ()  # what a new run's folder begins with
    mounts: tuple[TerminalMount, ...] = ()  # further folders of this machine
    # that commands reach through a checking proxy, `NAME`, `NAME:PORT` or `*.NAME`; none for no network
    hosts: tuple[str, ...] = ()


class GitSettings(BaseModel, frozen=True, extra="forbid"):
    """Git for the environment `git`."""

    # `author_name`, `author_email`: whose name commits bear
    author_name: str = Field(default="AgentOrchestra", min_length=1)
    author_email: str = Field(default="agent@localhost", min_length=3)
    # environment variables that hold tokens, by the host they are for (`host` or `host:port`); a token is sent to its
    # host only, over HTTPS or to this machine
    tokens: dict[str, str] = {}
    remotes: tuple[str, ...] = ()  # how the addresses begin that may be used; none for any that policy lets through
    local: tuple[str, ...] = ()  # bare repositories of this machine, or folders with such, that may be used as remotes
    timeout_s: float = Field(default=60.0, gt=0)  # of one command in the sandbox, and of asking a remote what it has
    transfer_timeout_s: float = Field(default=600.0, gt=0)  # of one fetch or push
    max_pack_mib: int = Field(default=256, ge=1)  # of what is fetched or pushed at once


class WebSettings(BaseModel, frozen=True, extra="forbid"):
    """Reading the web: `fetch`, search, and whatever else asks a site for something."""

    # services of one's own that may be read, `HOST:PORT` each, as they stand in an address. Everything else that is not
    # on the public network is refused.
    private: tuple[str, ...] = ()
    # pages that are neither read nor listed by searches, `HOST` or `HOST/PATH` each, with all below it
    deny: tuple[str, ...] = ()
    user_agent: str = "agentorchestra"  # what the client calls itself
    timeout_s: float = Field(default=60.0, gt=0)  # seconds for one read, redirects included
    idle_s: float = Field(default=15.0, gt=0)  # seconds without a byte after which an answer is given up
    max_mib: float = Field(default=20.0, gt=0)  # of one answer, unpacked
    redirects: int = Field(default=10, ge=0)  # that are followed
    per_host: int = Field(default=3, ge=1)  # requests that are under way at one host at the same time
    retry_after_s: float = Field(default=5.0, ge=0)  # how long a host that asks to wait is waited for, once; 0 not to
    ca_file: str = ""  # certificates of authorities that are believed beside the system's
    robots: bool = True  # whether robots.txt is respected by `fetch`
    # what `fetch` makes of an HTML page: its main content as Markdown (`text`), with the pages of its site that it
    # links to (`crawler`), its source (`raw`), or the answer of a reading service (`service`)
    reader: Literal["text", "raw", "crawler", "service"] = "text"
    crawl_pages: int = Field(default=8, ge=1, le=50)  # that the crawler reads for one address, the first one included
    service_url: str = ""  # the service's address, in which `{url}` stands for the page's
    service_key_env: str = ""  # the environment variable that holds its key; "" for a service without one
    cache_mib: float = Field(default=200.0, ge=0)  # of the pages that are kept in the workspace; 0 to keep none
    cache_s: float = Field(default=86_400.0, ge=0)  # how long a page is taken from there before it is read again


class BrowserSettings(BaseModel, frozen=True, extra="forbid"):
    """The environment `browser` (docs/browser.md).

    Attributes:
        executable: the Chromium that is driven, a path or a name on the PATH; "" for any that is found.
        window: whether it has a window on the screen.
        sandbox: whether pages are kept in Chromium's own sandbox; root never has it, and most containers forbid it.
        width, height: of a page's view in CSS pixels.
        allow: hosts that may be reached, `HOST`, `*.HOST` or `HOST:PORT`; none for all that policy lets through.
        deny: hosts that may not be reached, written like those; they come before `allow`.
        private: services of one's own that pages may reach, `HOST:PORT` each; None for those of `web.private`.
        logins: by host, the environment variables whose values agents may fill in there, by names; unseen by them. Two
            of a host are also the user and the password, in this order, where its server asks for them by HTTP.
        launch_s: seconds the browser may do nothing while it starts; a start has ten times as many at most.
        load_s: seconds a page has to load.
        call_s: seconds any other call on a page has. What takes longer is stopped, closed or killed, in this order.
        looks_at_once: snapshots and pictures of pages taken at the same time, over all runs; waiting costs no time.
        tabs: that a run may have open at the same time; pages that open more of them are closed.
        screenshots: whether an agent sees a picture of its page beside its text; `auto` if its model takes pictures.
        record: whether agents that work in the browser leave a moving picture, a log and a report of what they did.
        download_mib: of one download.
        download_s: seconds it may take.
        rounds: of steps that the agent `browser_use` has for one task, knowing what the last came to. 5 in both papers.
    """

    executable: str = ""
    window: bool = False
    sandbox: bool = True
    width: int = Field(default=1280, ge=320, le=7680)
    height: int = Field(default=800, ge=240, le=4320)
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    private: tuple[str, ...] | None = None
    logins: dict[str, tuple[str, ...]] = {}
    launch_s: float = Field(default=30.0, gt=0)
    load_s: float = Field(default=30.0, gt=0)
    call_s: float = Field(default=10.0, gt=0)
    looks_at_once: int = Field(default=3, ge=1)
    tabs: int = Field(default=20, ge=1)
    screenshots: Literal["auto", "always", "never"] = "auto"
    record: bool = True
    download_mib: float = Field(default=100.0, gt=0)
    download_s: float = Field(default=120.0, gt=0)
    rounds: int = Field(default=1, ge=1, le=20)


class ComputerSettings(BaseModel, frozen=True, extra="forbid"):
    """The environment `computer` (docs/computer.md).

    Attributes:
        width, height: of the screen in pixels.
    """

    width: int = Field(default=1280, ge=320, le=3840)
    height: int = Field(default=800, ge=240, le=2160)


class SearchEngineSettings(BaseModel, frozen=True, extra="forbid"):
    """The needs of one search engine; what is left out is the engine's own (docs/web-search.md)."""

    base_url: str = ""  # address of its interface, for one that is not asked at its maker's
    key_env: str = ""  # the environment variable that holds its key
    engine_id: str = ""  # of Google: the search engine's id (`cx`)
    model: str = ""  # of `model`: the model that searches, a profile's name or `provider:model`
    timeout_s: float | None = Field(default=None, gt=0)  # seconds one request may take; None for the section's
    # US dollars one request costs; it is held against the budget and counted
    cost_usd: float = Field(default=0.0, ge=0)


class SearchFolder(BaseModel, frozen=True, extra="forbid"):
    """A folder that `local` searches besides the files of the task."""

    path: str  # absolute, or relative to the folder of the settings file
    address: str = ""  # of the site that the folder is a copy of: `news/index.html` is then found as ADDRESS/news/


class SearchSettings(BaseModel, frozen=True, extra="forbid"):
    """Searching the web and folders."""

    # that may be asked; `auto` stands for all that lack nothing. Empty: there is no search.
    engines: tuple[str, ...] = ("auto",)
    # who chooses among them for a question: the documented `rules`, or the model of the role `search`
    choice: Literal["rules", "model"] = "rules"
    most: int = Field(default=5, ge=1)  # engines that are asked for one question, at most
    timeout_s: float = Field(default=10.0, gt=0)  # seconds each of them has
    # for how many seconds what an engine gave is given again where it is asked the same; 0 asks each time
    cache_s: float = Field(default=0.0, ge=0)
    folders: tuple[SearchFolder, ...] = ()  # that `local` searches
    engine: dict[str, SearchEngineSettings] = {}  # what single engines need, by name


class AgentSettings(BaseModel, frozen=True, extra="forbid"):
    """Settings of one agent, a packaged one or the user's."""

    max_steps: int | None = Field(default=None, ge=1)  # decisions it may take in one delegation; None for its own
    memory: str | None = None  # the memory system it works with; None for its own, `none` for none
    # True puts an agent that is for certain runs only (the `debate`) into the team of all
    team: Literal[True] | None = None


class TeamSettings(BaseModel, frozen=True, extra="forbid"):
    """Work of the planning agent with its team (docs/team.md).

    Attributes:
        verify: `web`: what one agent alone found on the web is verified by another before it is the answer (000, app.
            E.2), for one more delegation; `off`: only code and the judge look at it.
        verifier: the agent that is asked, "" for the first of deep analyzer, browser use agent and deep researcher
            that did not find it.
        agents: those that the planner has; None for all (000, table 4). Agents that work for others stay with them.
        systems: systems that the planner may delegate to besides its agents, such as `aorchestra`.
        models: that a delegation may choose from, by profile or `provider:model`; none: each agent has its role's.
        shorten: whether a request (role `formatter`) cuts a long answer to the short form that a task asks for.
    """

    verify: Literal["web", "off"] = "web"
    verifier: str = ""
    agents: tuple[str, ...] | None = None
    systems: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    shorten: bool = False


class ResearchSettings(BaseModel, frozen=True, extra="forbid"):
    """Limits of the deep researcher for one task (000, app. D.3; 001, sec. 3.3.1)."""

    rounds: int = Field(default=3, ge=1, le=20)  # of searching, reading and judging; 3 in both papers
    # how far follow-ups lead from a query of the plan, that one counted; each branch has its own. 2 in 001.
    depth: int = Field(default=3, ge=1, le=5)
    queries: int = Field(default=3, ge=1, le=10)  # of the plan, searched in the first round
    reflect: bool = False  # whether queries are judged and changed before they are searched, one request a round
    variants: int = Field(default=1, ge=0, le=5)  # of each query that are searched as well, in other words
    follow_ups: int = Field(default=3, ge=1, le=10)  # that are asked for after a round; 3 in 001
    branches: int = Field(default=2, ge=1, le=10)  # of these that are searched; 2 in 001
    # `pages_per_round`, `pages`: that are read, in one round and in all
    pages_per_round: int = Field(default=5, ge=1, le=20)
    pages: int = Field(default=15, ge=1, le=200)
    parts: int = Field(default=2, ge=1, le=10)  # of a long page that are read, the first one included
    # `insights_per_page`, `insights`: that are taken out of a page, and kept of all; 3 and 20 in 001
    insights_per_page: int = Field(default=3, ge=1, le=10)
    insights: int = Field(default=20, ge=1, le=200)
    calculations: int = Field(default=2, ge=0, le=10)  # over the findings, after each round
    # after which nothing is begun any more but the report; 0 for no limit, 60 in 001
    seconds: float = Field(default=0.0, ge=0)
    # of the researcher's questions, after which it is the same; 0 for no limit but the budget
    tokens: int = Field(default=0, ge=0)


class AnalysisSettings(BaseModel, frozen=True, extra="forbid"):
    """Limits of the deep analyzer and the tool `analyze_file` (000, app. D.4; 001, sec. 3.3.3)."""

    rounds: int = Field(default=3, ge=1, le=20)  # of one analysis; the next one knows what was tried. 3 in both papers.
    # that analyse without the others' results, by profile or `provider:model`; the role `summariser` makes one answer
    # of theirs. None for the model of the role `analyzer` alone.
    models: tuple[str, ...] = ()
    sources: int = Field(default=8, ge=0, le=50)  # addresses of the task that are read before the first round
    chunk_chars: int = Field(default=12_000, ge=500, le=400_000)  # characters of a text that are asked about at once
    # of one source that are asked about; of more, those with the words of the question
    chunks: int = Field(default=24, ge=1, le=500)
    # chunks that are asked at the same time; the next ones only if none of these answers
    at_once: int = Field(default=4, ge=1, le=32)
    findings: int = Field(default=5, ge=1, le=50)  # that are taken out of a chunk
    # pictures and recordings of one archive that are looked at, tables and texts of it that are shown
    members: int = Field(default=10, ge=1, le=200)


Keep = Literal["run", "ask", "workspace"]
"""The stay of a generated tool: in its run, or also for later runs of the workspace; `ask` asks the user."""


class GeneratorSettings(BaseModel, frozen=True, extra="forbid"):
    """Limits of the tool generator (000, app. D.6).

    Attributes:
        keep: where a tool stays when it has passed its trials; `ask` means `run` where nobody answers at a terminal.
        attempts: at writing the code of one tool; 10 steps in 000.
        examples: of what the tool is to give, written before its code; more are tried too.
        candidates: tools that are there already and are tried in its place.
        trial_s: seconds that one trial may take.
        libraries: modules besides pure standard ones that its code may import; `sandbox.libraries` must have them.
        tools: that code which an agent or another machine wrote may call, where whoever calls it may call them too.
    """

    keep: Keep = "ask"
    attempts: int = Field(default=5, ge=1, le=50)
    examples: int = Field(default=2, ge=1, le=10)
    candidates: int = Field(default=3, ge=0, le=20)
    trial_s: float = Field(default=10.0, gt=0, le=600)
    libraries: tuple[str, ...] = ("numpy", "pandas", "openpyxl", "matplotlib", "pypdf", "PIL", "scipy")
    tools: tuple[str, ...] = ("fetch", "search")


class DebateSettings(BaseModel, frozen=True, extra="forbid"):
    """Limits of debates (000, app. G.2, which names none)."""

    rounds: int = Field(default=2, ge=1, le=10)  # of arguments and rebuttals after the opening statements, at most
    experts: int = Field(default=3, ge=2, le=8)  # that are invited, at most, where nobody names them
    arguments: int = Field(default=3, ge=1, le=10)  # that an expert brings in one turn, at most


PLACEHOLDERS = ("task", "model", "base_url", "folder")
"""Words in the command of a program that are filled in, each written as `{task}`."""


class ProgramSettings(BaseModel, frozen=True, extra="forbid"):
    """A program of the user's as a system (docs/programs.md)."""

    # the program and its arguments. In each, `{task}` stands for the task, `{model}` for the model's name, `{base_url}`
    # for the run's address, `{folder}` for the run's folder.
    command: tuple[str, ...]
    timeout_s: float | None = Field(default=None, gt=0)  # seconds it may take; None for the run's own limit alone
    # environment variables that it gets besides a few of every program's; their values are secrets
    env: tuple[str, ...] = ()
    description: str = ""  # what it is for

    @field_validator("command")
    @classmethod
    def _check_command(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        if not command or not command[0].strip():
            raise ValueError('the command is empty; write the program and its arguments: ["python", "agent.py"]')
        for word in command:
            for name in PLACEHOLDER.findall(word):
                if name not in PLACEHOLDERS:
                    names = ", ".join(f"{{{placeholder}}}" for placeholder in PLACEHOLDERS)
                    raise ValueError(f"there is no placeholder {{{name}}}; the placeholders: {names}")
        return command


PLACEHOLDER = re.compile(r"\{(\w+)\}")


class CoralSettings(BaseModel, frozen=True, extra="forbid"):
    """Orchestration by the flow of information (003, docs/coral.md)."""

    # in which the run is driven, after which the best answer must be submitted; 30 in 003
    minutes: float = Field(default=30.0, gt=0)
    steps: int = Field(default=60, ge=2, le=1000)  # decisions of the orchestrator, at least
    turn_steps: int = Field(default=20, ge=1, le=200)  # decisions of an agent for one message that it answers
    # who may write to whom: all through the orchestrator (`star`, as in 003), or all to all (`mesh`)
    topology: Literal["star", "mesh"] = "star"


class SocietySettings(CoralSettings, frozen=True, extra="forbid"):
    """Agents that write to each other, as the user puts them together (docs/coral.md)."""

    agents: tuple[str, ...]  # the names of those who take part, each once
    # which of them leads and submits the answer; `coral` for an orchestrator that leads and does no work
    leader: str = "coral"
    description: str = ""  # what the society is for

    @field_validator("agents")
    @classmethod
    def _distinct(cls, agents: tuple[str, ...]) -> tuple[str, ...]:
        if not agents:
            raise ValueError('nobody takes part; name the agents, e.g. ["planner", "web_agent"]')
        twice = next((name for name in agents if agents.count(name) > 1), "")
        if twice:
            raise ValueError(f"{twice!r} is named twice; an agent takes part once")
        return agents

    @field_validator("leader")
    @classmethod
    def _takes_part(cls, leader: str, info: ValidationInfo) -> str:
        agents = info.data.get("agents", ())
        if agents and leader not in ("coral", *agents):
            raise ValueError(f"{leader!r} is none of its agents ({', '.join(agents)}); name one of them, or 'coral'")
        if agents == (leader,):
            raise ValueError(f"there is nobody for {leader!r} to lead; name further agents")
        return leader


class OwlSettings(BaseModel, frozen=True, extra="forbid"):
    """The workforce that orchestration by the flow of information was compared with (003, docs/owl.md)."""

    # times that the whole task is decomposed again after a subtask failed; 3 in 003
    replans: int = Field(default=3, ge=0, le=20)
    subtasks: int = Field(default=8, ge=1, le=50)  # of one plan, at most
    worker_steps: int = Field(default=20, ge=1, le=200)  # decisions of a worker for one subtask


class AOrchestraSettings(BaseModel, frozen=True, extra="forbid"):
    """Orchestration with sub-agents that are made on demand (002, docs/aorchestra.md).

    Attributes:
        attempts: delegations for one task, at most; 10 in the public code of 002.
        parallel: delegations that may go out in one decision, at the same time; 1 in 002.
        child_steps: decisions of a sub-agent; 30 for GAIA, 50 for the terminal and code in the public code of 002.
        child_seconds: seconds that one may work; 0 for no limit but the run's.
        executor: what drives sub-agents: a system, an agent or a program by its name.
        context: what one is given to know besides its instruction: nothing (`none`), all that came back so far
            (`full`), or what the orchestrator chooses (`curated`) (002, sec. 4.3.1).
        question: whether they are shown the user's question too.
        toolset: the tools they may get: all of the run (`all`), or those of a benchmark (002, table 6). Where tests
            grade the work (`terminal`, `swe`) the orchestrator submits it instead of answering.
        models: that a delegation may choose from, by profile or `provider:model`; none for those of `team.models`.
        guide: what a model is good for, a sentence for each that has one.
        mask: whether models are called `model_1`, `model_2`, ... in the prompt, so that only price and guide count.
        review_from: decisions from which a sub-agent's log is reviewed; one that was cut off always is.
    """

    attempts: int = Field(default=10, ge=1, le=100)
    parallel: int = Field(default=8, ge=1, le=16)
    child_steps: int = Field(default=30, ge=1, le=500)
    child_seconds: float = Field(default=0.0, ge=0)
    executor: str = Field(default="react", min_length=1)
    context: Literal["none", "full", "curated"] = "curated"
    question: bool = False
    toolset: Literal["all", "gaia", "terminal", "swe"] = "all"
    models: tuple[str, ...] = ()
    guide: dict[str, str] = {}
    mask: bool = False
    review_from: int = Field(default=5, ge=1)


class PartSettings(BaseModel, frozen=True, extra="forbid"):
    """The parts of OAgents, for the main agent of any system that works in steps (004, sec. 3.2; docs/oagents.md).

    Attributes:
        plan: before its first step the agent surveys the facts and plans (`once`), and it revises the plan as the work
            goes on (`reviewed`).
        planning_interval: steps from one review of the plan to the next.
        subtasks: the task is divided into a graph of subtasks, which sub-agents do before the first step.
        tips: what earlier tasks of the workspace taught is put before whoever plans, and before the agent.
        tip: the name of one insight that is put there whatever the task, `RUN:ENTRY`; so a tip is tried by itself.
        summary: each step is summed up, with suggestions for the next one, and the summaries stay before the agent.
        retrieval: the past step that is most like the last one is put before the agent.
        long_term: what is known is fused with each step, and put before the agent; later tasks of the session go on
            with it.
        reflect: a query is looked at again, and bettered, before it is searched (3.1.2).
        expand: variants of a query that are searched besides.
        candidates: proposals for each step, of which the best is kept; 1 for a plain step.
        width: courses that are followed at the same time; 1 keeps one after each step (best-of-N), more is a beam.
        rollouts: whole runs at the same time, of which the best is kept.
        choose: how: by rewards of the steps (`process`, for steps), one reward for the whole (`outcome`), a comparison
            of all (`listwise`, for whole runs), comparisons of two each (`pairwise`), or the majority (`vote`).
        threshold: a step whose reward, 0 to 10, is at or under it is looked back on before the next one.
        mixture: models that are asked by turns at random, with their weights; in place of the agent's one model.
        refine: the answer is criticised and written anew, by textual gradients (`textgrad`) or self-reflection
            (`reflect`), in every system (000, table 5).
        rounds: times that it is, at most; it ends where the critique finds nothing.

    What is None is the system's own way; without one there is no such part. `reflect` and `expand` are of all agents of
    the run that search.
    """

    plan: Literal["none", "once", "reviewed"] | None = None
    planning_interval: int | None = Field(default=None, ge=1, le=100)
    subtasks: bool | None = None
    tips: bool | None = None
    tip: str | None = None
    summary: bool | None = None
    retrieval: bool | None = None
    long_term: bool | None = None
    reflect: bool | None = None
    expand: int | None = Field(default=None, ge=0, le=5)
    candidates: int | None = Field(default=None, ge=1, le=16)
    width: int | None = Field(default=None, ge=1, le=16)
    rollouts: int | None = Field(default=None, ge=1, le=16)
    choose: Literal["process", "outcome", "listwise", "pairwise", "vote"] | None = None
    threshold: float | None = Field(default=None, ge=0, le=10)
    mixture: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] | None = None
    refine: Literal["none", "textgrad", "reflect"] | None = None
    rounds: int | None = Field(default=None, ge=1, le=10)

    @model_validator(mode="after")
    def _fits(self) -> PartSettings:
        if (self.width or 1) > 1 and (self.candidates or 1) == 1:
            raise ValueError(
                f"parts.width = {self.width} follows several courses, and there is one candidate for each step; set "
                "parts.candidates to 2 or more"
            )
        return self

    def over(self, own: PartSettings) -> PartSettings:
        """Return these settings, with a system's own ones where these are None."""
        return own.model_copy(update=self.model_dump(exclude_none=True))


class Settings(BaseModel, frozen=True, extra="forbid"):
    """The workspace's settings; unknown names are refused.

    Attributes:
        preset: the settings under these, of a paper (docs/presets.md); what is set here wins, key by key.
        app: `module:workspace`: where a fresh process finds the user's tools and dependencies.
        model: the default model.
        system: the default system.
        models: named profiles.
        roles: model and parameters by role: planner, analyzer, reporter, ...; for media vision, hearing, video.
        budget: default limits; without a dollar limit, 1 US dollar holds for priced models.
        max_steps: decisions per run's top agent.
        embedding_model, transcription_model: the models that embed texts and write down recordings; "" for none.
        prompt_tool_chars: characters of tools' schemas that an agent's prompt may hold. Of more tools it is shown those
            that fit its task, and finds the others (docs/retrieval.md); 0 shows all.
        first_tools: the packaged tools in an agent's first prompt: those `fitting` its task, or `all`.
        without_tools: packaged tools that no agent of a run has (ablations, such as 004, table 2).
        in_view_chars: characters of all files' text up to which it stands in the first prompt; 0 for none. The deep
            analyzer is shown the text of pages that its task names up to as many.
        in_view_pictures: pictures at most that go along with it, to a model that may see.
        reasoning, finish, action: see Reasoning, Finish, Action.
        memory: of runs' top agents: `none`, `window`, `summary`, `insights`, `workflow`, or the user's own.
        on_ask, on_uncertain: see OnAsk, OnUncertain.
        max_bytes: quota of the workspace's database, None for no limit but the disk; of SQLite only.
        database: of PostgreSQL, `postgresql://user@host:5432/name`, for the log instead of a file in the folder; never
            shown, as it may hold a password.
        database_schema: the workspace's own schema there.
        database_retry_s: how long writes and reads wait for a database, or a store of artifacts, that is away.
        artifacts: `s3://bucket/prefix`, where large artifacts and the files given with tasks lie in place of the
            database and the folder, for workers that share no folder; only with `database`.
        artifacts_options: how that store is reached from this machine.
        max_depth: how deep agents may be nested below the run's top agent.
        agents: settings of single agents, by name.
        programs: programs of the user's that are systems, by name (docs/programs.md).
        societies: agents that write to each other as systems of the user's, by name (docs/coral.md).
        mcp: a file of MCP servers whose tools runs have (docs/mcp.md), beside the settings file; "" for none.
        secrets: environment variables whose values are redacted from the log (keys of profiles always are).
        env_file: a file with further variables, under those of the process, beside the settings file; "" for none.
            None: the command line reads `.env` of the working folder, and a program nothing.
        keyring: variables whose values lie in the system's keyring, where neither the process nor that file has them.
    """

    preset: str = NO_PRESET
    app: str | None = None
    model: str = "offline"
    system: str = "agentorchestra"
    models: dict[str, ModelProfile] = {}
    roles: dict[str, RoleSettings] = {}
    embedding_model: str = ""
    transcription_model: str = ""
    budget: Budget = Budget()
    max_steps: int = Field(default=20, ge=1)
    prompt_tool_chars: int = Field(default=32_000, ge=0)
    first_tools: FirstTools = "fitting"
    without_tools: tuple[str, ...] = ()
    in_view_chars: int = Field(default=8_000, ge=0)
    in_view_pictures: int = Field(default=4, ge=0)
    reasoning: Reasoning = "native"
    finish: Finish = "text"
    action: Action = "tools"
    memory: str = "none"
    max_depth: int = Field(default=4, ge=1, le=16)
    on_ask: OnAsk = "wait"
    on_uncertain: OnUncertain = "report"
    policy: PolicySettings = PolicySettings()
    serve: ServeSettings = ServeSettings()
    cluster: ClusterSettings = ClusterSettings()
    sandbox: SandboxSettings = SandboxSettings()
    folder: FolderSettings = FolderSettings()
    terminal: TerminalSettings = TerminalSettings()
    git: GitSettings = GitSettings()
    github: GitHubSettings = GitHubSettings()
    web: WebSettings = WebSettings()
    browser: BrowserSettings = BrowserSettings()
    computer: ComputerSettings = ComputerSettings()
    search: SearchSettings = SearchSettings()
    agents: dict[str, AgentSettings] = {}
    team: TeamSettings = TeamSettings()
    research: ResearchSettings = ResearchSettings()
    analysis: AnalysisSettings = AnalysisSettings()
    debate: DebateSettings = DebateSettings()
    aorchestra: AOrchestraSettings = AOrchestraSettings()
    coral: CoralSettings = CoralSettings()
    owl: OwlSettings = OwlSettings()
    parts: PartSettings = PartSettings()
    generator: GeneratorSettings = GeneratorSettings()
    programs: dict[str, ProgramSettings] = {}
    societies: dict[str, SocietySettings] = {}
    mcp: str = ""
    secrets: tuple[str, ...] = ()
    env_file: str | None = None
    keyring: tuple[str, ...] = ()
    max_bytes: int | None = Field(default=None, gt=0)
    database: SecretStr | None = None
    database_schema: str = "agentorchestra"
    database_retry_s: float = Field(default=120.0, ge=0)
    artifacts: str | None = None
    artifacts_options: ArtifactsOptions = ArtifactsOptions()
    tool_timeout_s: float = Field(default=120.0, gt=0)
    max_result_chars: int = Field(default=20_000, ge=200)
    lease_s: float = Field(default=30.0, gt=0, allow_inf_nan=False)
