"""The HTTP interface: routes over a workspace, behind a guard."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib
import re
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from agentorchestra.core.errors import (
    AgentOrchestraError,
    AnswerError,
    FencedError,
    FileInputError,
    HttpRequestError,
    RunOverError,
    SessionError,
    StoreError,
    StoreFullError,
    UnknownRunError,
    UsageError,
    WorkspaceStateError,
)
from agentorchestra.core.protocols import Acceptance, RunHead, RunRecord
from agentorchestra.core.settings import ServeSettings
from agentorchestra.core.spec import FINAL, Question, RunStatus
from agentorchestra.evolution.canary import check_canaries
from agentorchestra.models.openai import PydanticAIClient
from agentorchestra.runtime.waits import GOES_ON, Standing, standing
from agentorchestra.web.bodies import (
    AnswerBody,
    ApproveBody,
    B,
    DenyBody,
    ReasonBody,
    ResumeBody,
    SentFile,
    Submission,
    TellBody,
    parsed,
    read_body,
    read_bytes,
)
from agentorchestra.web.follow import stream
from agentorchestra.web.guard import Guard, problem
from agentorchestra.web.metrics import MEDIA_TYPE, Metrics
from agentorchestra.web.queue import RETRY_AFTER_S, RunQueue
from agentorchestra.web.shared import SharedRead
from agentorchestra.workspace import Workspace

STATUS_CODES: tuple[tuple[type[AgentOrchestraError], int], ...] = (
    (UnknownRunError, 404),
    (AnswerError, 409),
    (FencedError, 409),
    (RunOverError, 409),
    (SessionError, 409),
    (WorkspaceStateError, 503),
    (UsageError, 422),
    (StoreFullError, 507),
    (StoreError, 503),
    (AgentOrchestraError, 500),
)
"""The first class that fits gives the status; HttpRequestError has its own."""

REACH_S = 5.0
"""Time in which the store has to answer, before anything is begun: one that is away is waited for much longer."""

CANARIES_S = 1.0  # time between looks at how candidates do that have a share of the live runs

_BY = "web"
_MOST_RUNS = 1000
_KEY = re.compile(r"[!-~]{1,200}")


class WebApp:
    """An ASGI application; made by `agentorchestra.web.asgi`. Requests must bring its `token`."""

    def __init__(
        self, ws: Workspace[Any], *, token: str | None, allowed_hosts: Collection[str], max_body_bytes: int
    ) -> None:
        self._ws = ws
        self._queue = RunQueue(ws)
        self._metrics = Metrics()
        self._creating = 0  # requests whose runs are being created
        self._created_here = 0
        self._reached = SharedRead(self._reach)
        self._waiting = SharedRead(self._count)
        self._canaries_at = -CANARIES_S
        self._closing = asyncio.Event()
        self._max_body_bytes = max_body_bytes
        self._app = Starlette(
            routes=self._routes(),
            lifespan=self._lifespan,
            exception_handlers={AgentOrchestraError: _error_response, HTTPException: _no_such_route, Exception: _bug},
        )
        self._app.router.redirect_slashes = False
        self._guard = Guard(self._serve, token=token, allowed_hosts=allowed_hosts)
        self.token = self._guard.token

    @property
    def limits(self) -> ServeSettings:
        """The limits that the settings of the open workspace name."""
        return self._ws.settings.serve

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._guard(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._ws.is_open:
            sentence = "the workspace is not open: the server has to run the lifespan of this application"
            await problem(sentence, 503, kind="WorkspaceStateError")(scope, receive, send)
            return
        if scope["type"] == "http" and not await self._reached():
            sentence = f"the store did not answer within {REACH_S:g} s; nothing was done: send the request again"
            await problem(sentence, 503, kind="StoreUnavailableError", headers=_RETRY)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _reach(self) -> bool:
        try:
            async with asyncio.timeout(REACH_S):
                await self._ws.store.request("")
        except (TimeoutError, StoreError):
            return False
        return True

    def stop(self, *, now: bool = False) -> None:
        """Begin to stop: streams end, no run is begun, those under way stop before their next effect, or `now`."""
        self._closing.set()
        self._queue.stop(now=now)

    async def close(self) -> None:
        """End the streams, hand on the runs driven here: the end of the lifespan, but for the workspace."""
        self._closing.set()
        await self._queue.close()

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        opened_here = not self._ws.is_open
        await self._ws.open()
        self._closing.clear()
        await self._warm()
        work = asyncio.create_task(self._queue.work(), name="web:queue")
        try:
            yield
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            await self.close()
            if opened_here:
                # A scripted model of the application may have steps left for the next process.
                await self._ws.close(verify=False)

    async def _warm(self) -> None:
        """Import now what the first run would import: requests would wait for it."""
        with contextlib.suppress(AgentOrchestraError):  # what is wrong with the settings, the first task is told
            await self._ws.runs.foresee("What does a first task need?")
            if isinstance(self._ws.models.client(self._ws.settings.model), PydanticAIClient):
                await asyncio.to_thread(importlib.import_module, "agentorchestra.models.wire")

    def _routes(self) -> list[Route]:
        ws = self._ws
        return [
            Route("/runs", self._submit, methods=["POST"]),
            Route("/runs", self._list, methods=["GET"]),
            Route("/runs/{run_id}", self._show, methods=["GET"], name="run"),
            Route("/runs/{run_id}/events", self._events, methods=["GET"], name="events"),
            self._order(
                "answer", AnswerBody, lambda run, body: ws.answer(run, body.answer, question=body.question, by=_BY)
            ),
            self._order("approve", ApproveBody, lambda run, body: ws.approve(run, **dict(body), by=_BY)),
            self._order("deny", DenyBody, lambda run, body: ws.deny(run, **dict(body), by=_BY)),
            self._order("tell", TellBody, self._tell),
            self._order("pause", ReasonBody, self._pause),
            self._order("cancel", ReasonBody, lambda run, body: ws.cancel(run, reason=body.reason, by=_BY)),
            self._order("resume", ResumeBody, lambda run, body: ws.runs.enqueue(run, budget=body.budget)),
            Route("/health", self._health, methods=["GET"]),
            Route("/metrics", self._figures, methods=["GET"]),
        ]

    def _order(self, name: str, model: type[B], obey: Callable[[str, B], Awaitable[Question | None]]) -> Route:
        """Return a route that tells a run something, by its id and the body of the request."""

        async def endpoint(request: Request) -> Response:
            body = await self._body(request, model)
            run_id = request.path_params["run_id"]
            question = await obey(run_id, body)
            answer = {} if question is None else {"question": question.key}
            self._queue.wake(run_id)
            return JSONResponse({**await self._brief(run_id), **answer}, status_code=202)

        return Route(f"/runs/{{run_id}}/{name}", endpoint, methods=["POST"])

    # -- runs ------------------------------------------------------------------------------------------------------

    async def _submit(self, request: Request) -> Response:
        data = await read_bytes(request, self._max_body_bytes, self.limits.body_timeout_s)
        with self._metrics.answered.time(), self._queue.accepting():
            body = parsed(data, request, Submission)
            key = _request_key(request)
            acceptance = Acceptance(datetime.now(UTC), key, hashlib.sha256(data).hexdigest())
            earlier = await self._ws.runs.accepted_run(acceptance)
            run_id = earlier or await self._created(body, acceptance)
            brief = {"run_id": run_id, "status": RunStatus.CREATED} if earlier is None else await self._brief(run_id)
            (self._metrics.accepted if earlier is None else self._metrics.repeated).inc()
            here = request.url_for("run", run_id=run_id).path
            answer = {**brief, "url": here, "events": request.url_for("events", run_id=run_id).path}
            return JSONResponse(answer, status_code=202, headers={"Location": here})

    async def _created(self, body: Submission, acceptance: Acceptance) -> str:
        await self._need_room()
        self._creating += 1
        try:
            run_id = await self._create(body, acceptance)
            self._created_here += 1
        finally:
            self._creating -= 1
        self._queue.wake()
        return run_id

    async def _need_room(self) -> None:
        """Refuse a new run where it could not be queued."""
        if self._queue.stopping:
            raise HttpRequestError(
                "the server is about to stop; send the request again", status=503, retry_after_s=RETRY_AFTER_S
            )
        most = self.limits.max_queued
        before, count = await self._waiting()
        # Those that were created since the count may be in it or not.
        if count + self._creating + self._created_here - before >= most:
            self._metrics.turned_away.inc()
            raise HttpRequestError(
                f"{most} runs wait for their beginning, which is the most; send the request again later, or set "
                "serve.max_queued",
                status=429,
                retry_after_s=self._queue.retry_after(),
            )

    async def _count(self) -> tuple[int, int]:
        """Return how many runs were created here before the count, and how many runs wait for their beginning."""
        return self._created_here, await self._ws.store.count_created()

    async def _create(self, body: Submission, acceptance: Acceptance) -> str:
        now = asyncio.get_running_loop().time()
        if now - self._canaries_at >= CANARIES_S:
            self._canaries_at = now
            await check_canaries(self._ws)
        if not body.files:
            return await self._ws.create(body.spec(()), accepted=acceptance)
        with tempfile.TemporaryDirectory(prefix="agentorchestra-upload-") as folder:
            paths = [await asyncio.to_thread(_write, Path(folder), file) for file in body.files]
            try:
                return await self._ws.create(body.spec(paths), temporary_files=True, accepted=acceptance)
            except FileInputError as exc:
                # The sentence names the file as it was sent, not where it lay here.
                raise FileInputError(str(exc).replace(f"{folder}/", "")) from None

    async def _list(self, request: Request) -> Response:
        limit = _number(request.query_params.get("limit"), "limit", _MOST_RUNS)
        if not 1 <= limit <= _MOST_RUNS:
            raise HttpRequestError(f"limit is {limit}; it is from 1 to {_MOST_RUNS}", status=422)
        records = await self._ws.runs.list(limit=limit)
        names = [record.id for record in records]
        until = {run: time.isoformat() for run, time in (await self._ws.runs.waiting_until(names)).items()}
        standings = await self._ws.runs.standings(names)
        return JSONResponse(
            {
                "runs": [
                    {**_about(record, standings.get(record.id)), "until": until.get(record.id)} for record in records
                ]
            }
        )

    async def _show(self, request: Request) -> Response:
        record = await self._record(request.path_params["run_id"])
        result = await self._ws.runs.result(record.id)
        standings = await self._ws.runs.standings([record.id])
        questions = () if record.status in FINAL else await self._ws.runs.questions(record.id)
        return JSONResponse(
            {
                **_about(record, standings.get(record.id)),
                "refused": self._queue.refused.get(record.id) if record.id in standings else None,
                # Where a folder lies on this machine is no answer for another one.
                "result": result.model_dump(mode="json", exclude={"folder"}),
                "questions": [question.model_dump(mode="json") for question in questions],
            }
        )

    async def _events(self, request: Request) -> Response:
        record = await self._record(request.path_params["run_id"])
        after = _number(request.headers.get("last-event-id") or request.query_params.get("after"), "Last-Event-ID", 0)
        last = record.next_seq - 1
        if not 0 <= after <= last:
            raise HttpRequestError(
                f"Last-Event-ID is {after}; the log of {record.id} goes from 1 to {last}", status=400
            )
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        return StreamingResponse(
            stream(self._ws, record, after, self._closing),
            media_type="text/event-stream",
            headers={"X-Accel-Buffering": "no"},
        )

    # -- the server itself -----------------------------------------------------------------------------------------

    async def _standing(self) -> tuple[Counter[str], datetime | None]:
        """Return how many runs stand how, and the end of the lease that ends first."""
        running = await self._ws.store.unfinished_runs(status=RunStatus.RUNNING)
        counts = Counter(standing(run) for run in running)
        counts["queued"] += await self._ws.store.count_created()
        leases = [run.lease_until for run in running if run.lease_until is not None]
        return Counter(counts), min(leases, default=None)

    async def _health(self, request: Request) -> Response:
        counts, oldest = await self._standing()
        ready = not self._queue.stopping
        return JSONResponse(
            {
                "ready": ready,
                "places": self._queue.places,
                "driving": self._queue.driving,
                "driven": counts["driven"],
                "queued": counts["queued"],
                "refused": len(self._queue.refused),
                "abandoned": counts["abandoned"],
                "oldest_lease": None if oldest is None else oldest.isoformat(),
            },
            status_code=200 if ready else 503,
        )

    async def _figures(self, request: Request) -> Response:
        counts, _ = await self._standing()
        every = {name: counts[name] for name in ("driven", "queued", "abandoned")}
        here = {"driving": self._queue.driving, "refused": len(self._queue.refused), "places": self._queue.places}
        return Response(self._metrics.text(every, here, self._queue.ended), headers={"Content-Type": MEDIA_TYPE})

    # -- orders ----------------------------------------------------------------------------------------------------

    async def _tell(self, run_id: str, body: TellBody) -> None:
        await self._record(run_id)
        await self._ws.tell(run_id, body.text, to=body.to, by=_BY)  # what it makes due is taken up in a moment

    async def _pause(self, run_id: str, body: ReasonBody) -> None:
        status = (await self._record(run_id)).status
        if status is not RunStatus.PAUSED and status not in GOES_ON:
            raise HttpRequestError(
                f"run {run_id} is not under way ({status.value}): there is nothing to pause", status=409
            )
        await self._ws.pause(run_id, reason=body.reason, by=_BY)

    # -- parts -----------------------------------------------------------------------------------------------------

    async def _record(self, run_id: str) -> RunRecord:
        record = await self._ws.store.get_run(run_id)
        if record is None:
            raise UnknownRunError(f"no run {run_id!r} in this workspace; GET /runs lists them")
        return record

    async def _body(self, request: Request, model: type[B]) -> B:
        return await read_body(request, model, self._max_body_bytes, self.limits.body_timeout_s)

    async def _brief(self, run_id: str) -> dict[str, Any]:
        return {"run_id": run_id, "status": (await self._ws.runs.result(run_id)).status}


def _about(record: RunHead, run_standing: Standing | None) -> dict[str, Any]:
    manifest = record.manifest
    return {
        "run_id": record.id,
        "status": record.status,
        "queued": run_standing == "queued",
        "abandoned": run_standing == "abandoned",
        "created": record.created.isoformat(),
        "last_event": record.next_seq - 1,
        "task": manifest.task,
        "system": manifest.system,
        "model": manifest.model,
        "session": manifest.session,
        "labels": manifest.labels,
        "files": [file.name for file in manifest.files],
    }


def _write(folder: Path, file: SentFile) -> Path:
    path = folder / file.name
    try:
        path.write_bytes(file.content)
    except OSError as exc:
        raise StoreFullError(
            f"the file {file.name!r} cannot be kept: {exc.strerror}; free space and send it again"
        ) from None
    return path


def _request_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not _KEY.fullmatch(key):
        raise HttpRequestError(
            f"the Idempotency-Key {key[:80]!r} is none; send 1 to 200 letters, digits or signs without spaces"
        )
    return key


def _number(text: str | None, subject: str, default: int) -> int:
    if text is None or not text.strip():
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise HttpRequestError(f"{subject} is {text!r}; it is a number", status=400)
    return int(text)


_RETRY = {"Retry-After": str(RETRY_AFTER_S)}

# -- errors ------------------------------------------------------------------------------------------------------------


async def _error_response(request: Request, exc: Exception) -> Response:
    by_class = next(code for cls, code in STATUS_CODES if isinstance(exc, cls))
    code = exc.status if isinstance(exc, HttpRequestError) else by_class
    # Of a body that was given up the rest is not waited for.
    headers = {"Connection": "close"} if code == 408 else {}
    if isinstance(exc, HttpRequestError) and exc.retry_after_s is not None:
        headers["Retry-After"] = str(exc.retry_after_s)
    elif code == 503:
        headers |= _RETRY
    return problem(str(exc), code, kind=type(exc).__name__, headers=headers)


async def _no_such_route(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    sentence = (
        f"{request.method} is not allowed at {request.url.path}"
        if exc.status_code == 405
        else f"there is nothing at {request.url.path}; the runs are at /runs"
    )
    return problem(sentence, exc.status_code, headers=dict(exc.headers or {}))


async def _bug(request: Request, exc: Exception) -> Response:
    # Starlette raises it again after the answer, so that the server's log has the traceback.
    return problem(
        f"this is a bug in agentorchestra: {type(exc).__name__}; please report it, the server's log has more",
        500,
        kind=type(exc).__name__,
    )
