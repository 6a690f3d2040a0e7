"""The HTTP interface: routes over a workspace, behind a guard."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
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
    StoreError,
    StoreFullError,
    UnknownRunError,
    UsageError,
    WorkspaceStateError,
)
from agentorchestra.core.protocols import RunRecord
from agentorchestra.core.settings import ServeSettings
from agentorchestra.core.spec import FINAL, Question, RunStatus
from agentorchestra.evolution.canary import check_canaries
from agentorchestra.runtime.engine import is_dead
from agentorchestra.runtime.waits import GOES_ON
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
    read_body,
)
from agentorchestra.web.driver import Driver
from agentorchestra.web.follow import stream
from agentorchestra.web.guard import Guard, problem
from agentorchestra.workspace import Workspace

logger = logging.getLogger("agentorchestra.web")

STATUS_CODES: tuple[tuple[type[AgentOrchestraError], int], ...] = (
    (UnknownRunError, 404),
    (AnswerError, 409),
    (FencedError, 409),
    (WorkspaceStateError, 503),
    (UsageError, 422),
    (StoreFullError, 507),
    (StoreError, 503),
    (AgentOrchestraError, 500),
)
"""The first class that fits gives the status; HttpRequestError has its own."""

_BY = "web"
_MOST_RUNS = 1000


class WebApp:
    """An ASGI application; made by `agentorchestra.web.asgi`. Requests must bring its `token`."""

    def __init__(
        self, ws: Workspace[Any], *, token: str | None, allowed_hosts: Collection[str], max_body_bytes: int
    ) -> None:
        self._ws = ws
        self._driver = Driver(ws)
        self._closing = asyncio.Event()
        self._max_body_bytes = max_body_bytes
        self._app = Starlette(
            routes=self._routes(),
            lifespan=self._lifespan,
            exception_handlers={
                AgentOrchestraError: _refused,
                HTTPException: _no_such_route,
                Exception: _bug,
            },
        )
        self._app.router.redirect_slashes = False
        self._guard = Guard(self._opened, token=token, allowed_hosts=allowed_hosts)
        self.token = self._guard.token

    @property
    def limits(self) -> ServeSettings:
        """The limits that the settings of the open workspace name."""
        return self._ws.settings.serve

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as ASGI has it."""
        await self._guard(scope, receive, send)

    async def _opened(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._ws.is_open:
            sentence = "the workspace is not open: the server has to run the lifespan of this application"
            await problem(sentence, 503, kind="WorkspaceStateError")(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def stop_streams(self) -> None:
        """End the streams of events: a server that is about to stop would wait for them."""
        self._closing.set()

    async def close(self) -> None:
        """End the streams, cancel the runs driven here: the end of the lifespan, but for the workspace."""
        self._closing.set()
        await self._driver.close()

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        opened_here = not self._ws.is_open
        await self._ws.open()
        self._closing.clear()
        due = asyncio.create_task(self._driver.take_up_due(), name="web:due")
        try:
            yield
        finally:
            due.cancel()
            await asyncio.gather(due, return_exceptions=True)
            await self.close()
            if opened_here:
                # A scripted model of the application may have steps left for the next process.
                await self._ws.close(verify=False)

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
            self._order("resume", ResumeBody, lambda run, body: self._driver.begin(run, budget=body.budget)),
        ]

    def _order(self, name: str, model: type[B], obey: Callable[[str, B], Awaitable[Question | None]]) -> Route:
        """Return a route that tells a run something, by its id and the body of the request."""

        async def endpoint(request: Request) -> Response:
            body = await self._body(request, model)
            run_id = request.path_params["run_id"]
            question = await obey(run_id, body)
            answered = {}
            if question is not None:
                await self._driver.go_on(run_id, question)
                answered = {"question": question.key}
            return JSONResponse({**await self._brief(run_id), **answered}, status_code=202)

        return Route(f"/runs/{{run_id}}/{name}", endpoint, methods=["POST"])

    # -- runs ------------------------------------------------------------------------------------------------------

    async def _submit(self, request: Request) -> Response:
        body = await self._body(request, Submission)
        with tempfile.TemporaryDirectory(prefix="agentorchestra-upload-") as folder:
            paths = [await asyncio.to_thread(_write, Path(folder), one) for one in body.files]
            await check_canaries(self._ws)
            try:
                run_id = await self._ws.create(body.spec(paths), temporary_files=True)
            except FileInputError as exc:
                # The sentence names the file as it was sent, not where it lay here.
                raise FileInputError(str(exc).replace(f"{folder}/", "")) from None
        await self._driver.begin(run_id)
        here = request.url_for("run", run_id=run_id).path
        answer = {**await self._brief(run_id), "url": here, "events": request.url_for("events", run_id=run_id).path}
        return JSONResponse(answer, status_code=202, headers={"Location": here})

    async def _list(self, request: Request) -> Response:
        limit = _number(request.query_params.get("limit"), "limit", _MOST_RUNS)
        if not 1 <= limit <= _MOST_RUNS:
            raise HttpRequestError(f"limit is {limit}; it is from 1 to {_MOST_RUNS}", status=422)
        until = {run: time.isoformat() for run, time in (await self._ws.waiting_until()).items()}
        found = await self._ws.runs(limit=limit)
        return JSONResponse({"runs": [{**_about(one), "until": until.get(one.id)} for one in found]})

    async def _show(self, request: Request) -> Response:
        record = await self._record(request.path_params["run_id"])
        result = await self._ws.result(record.id)
        # Abandoned: the process that drove it is provably gone; it goes on only by a resume.
        job = await self._ws.store.job(record.id) if record.status == "running" else None
        questions = () if record.status in FINAL else await self._ws.questions(record.id)
        return JSONResponse(
            {
                **_about(record),
                "abandoned": job is not None and job.owner is not None and is_dead(job.owner),
                "result": result.model_dump(mode="json"),
                "questions": [one.model_dump(mode="json") for one in questions],
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

    # -- orders ----------------------------------------------------------------------------------------------------

    async def _tell(self, run_id: str, body: TellBody) -> None:
        status = (await self._record(run_id)).status
        if status in FINAL:
            raise HttpRequestError(
                f"run {run_id} is over ({status.value}) and reads nothing; start a new run", status=409
            )
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
        return {"run_id": run_id, "status": (await self._ws.result(run_id)).status}


def _about(record: RunRecord) -> dict[str, Any]:
    manifest = record.manifest
    return {
        "run_id": record.id,
        "status": record.status,
        "created": record.created.isoformat(),
        "last_event": record.next_seq - 1,
        "task": manifest.task,
        "system": manifest.system,
        "model": manifest.model,
        "session": manifest.session,
        "labels": manifest.labels,
        "files": [one.name for one in manifest.files],
    }


def _write(folder: Path, sent: SentFile) -> Path:
    path = folder / sent.name
    try:
        path.write_bytes(sent.content)
    except OSError as exc:
        raise StoreFullError(
            f"the file {sent.name!r} cannot be kept: {exc.strerror}; free space and send it again"
        ) from None
    return path


def _number(text: str | None, what: str, default: int) -> int:
    if text is None or not text.strip():
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise HttpRequestError(f"{what} is {text!r}; it is a number", status=400)
    return int(text)


# -- errors ------------------------------------------------------------------------------------------------------------


async def _refused(request: Request, exc: Exception) -> Response:
    by_class = next(code for cls, code in STATUS_CODES if isinstance(exc, cls))
    code = exc.status if isinstance(exc, HttpRequestError) else by_class
    # Of a body that was given up the rest is not waited for.
    headers = {"Connection": "close"} if code == 408 else None
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
