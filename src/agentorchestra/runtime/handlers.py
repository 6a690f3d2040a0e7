"""The handlers of what the runtime itself executes: questions, mail, joins, environments."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.content import Trust, lowest
from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome, failed
from agentorchestra.core.errors import SuspendedError
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.protocols import BaseHandler, Handler
from agentorchestra.core.spec import Question
from agentorchestra.runtime.answers import settle
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.environments import EnvironmentHandler
from agentorchestra.runtime.mail_room import Waiting
from agentorchestra.runtime.results import MAX_RESULT_CHARS
from agentorchestra.runtime.run import Run
from agentorchestra.trust.approvals import question_of


class AskHumanHandler(BaseHandler):
    """Questions to a human: an answer in the log, a terminal, or the run waits."""

    fixed_mode = Mode.REPEATABLE  # asked again under its recorded key

    async def execute(self, effect: Effect, ctx: BranchContext[Any]) -> Outcome:
        """Return the answer; raise SuspendedError where nobody can give one now.

        Where no application answers questions at once, a question that names `otherwise` gets that answer.
        """
        run, key = ctx.run, str(ctx.key)
        answer_event = run.ledger.answers.get(key)
        if answer_event is not None:
            return Outcome(value=answer_event.answer, trust=Trust.USER)
        if not ctx.asks:
            return failed("denied", "nobody is asked about what this agent does; do without it")
        approval = effect.purpose == "approval"
        question = question_of(key, effect.arguments, approval=approval, provenance=effect.provenance)
        if run.services.asker is not None:
            async with run.asking:  # one question at a time
                answer = await self._ask_in_place(run, question)
            if answer is not None:
                return Outcome(value=await self._settle(run, question, answer), trust=Trust.USER)
        elif "otherwise" in effect.arguments:
            return Outcome(value=effect.arguments["otherwise"], trust=Trust.SYSTEM)
        if run.manifest.on_ask == "deny" and not run.pausing:
            return failed("denied", "nobody can be asked in this run (--on-ask deny)")
        raise SuspendedError(f"waits for an answer: {question.question}", waiting_for=(key,))

    async def _settle(self, run: Run, question: Question, answer: str | bool) -> JsonValue:
        """Log an answer; return the one that holds: somebody elsewhere may have been faster."""
        value: JsonValue = run.redactor.json(answer)
        by = str(getattr(run.services.asker, "by", "asker"))
        holding = await settle(run.services.store, run.id, question.key, value, by=by, now=run.clock.now())
        if holding.event is not None:
            run.take_answer(holding.event)
            value = holding.event.body["answer"]
        return value

    async def _ask_in_place(self, run: Run, question: Question) -> str | bool | None:
        """Return what is answered in place; None where a pause leaves the question open."""
        assert run.services.asker is not None
        asking = asyncio.ensure_future(run.services.asker(question))
        pause = asyncio.create_task(run.pause_asked.wait())
        try:
            await asyncio.wait({asking, pause}, return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else None
        finally:
            for task in (asking, pause):
                task.cancel()
            await asyncio.gather(asking, pause, return_exceptions=True)


class SendMessageHandler(BaseHandler):
    """Mail between actors: the record is the effect."""

    fixed_mode = Mode.PURE  # nothing happens but the record

    async def execute(self, effect: Effect, ctx: BranchContext[Any]) -> Outcome:
        society = ctx.run.mail.society
        founds = effect.arguments.get("op") == "found"
        if not founds and (forgery := society.forgery(ctx.actor, ctx.home)):
            return failed("denied", forgery)
        if "op" in effect.arguments:
            problem = society.problem(ctx.actor, effect.arguments)
            if founds and not problem and ctx.key.branch != ctx.home:
                problem = f"a tool cannot found a society; {ctx.actor} does that itself"
            return failed("mistake", problem) if problem else Outcome(value="done", trust=Trust.SYSTEM)
        sender = effect.arguments.get("sender", "" if society.leader else ctx.actor)
        if sender != ctx.actor:
            return failed("denied", f"{ctx.actor} cannot write in the name of {sender or 'nobody'}")
        if society.leader and (problem := society.message_problem(ctx.actor, effect.arguments)):
            return failed("mistake", problem)
        to = effect.arguments.get("to")
        if not isinstance(to, list) or not to:
            return failed("mistake", "a message needs at least one receiver in `to`")
        return Outcome(value={"sent": True}, trust=effect.lowest_trust)


class ReceiveHandler(BaseHandler):
    """The inbox of a running task: what was told since the last look, recorded even if empty."""

    fixed_mode = Mode.PURE  # it reads the log

    async def execute(self, effect: Effect, ctx: BranchContext[Any]) -> Outcome:
        cursor = ctx.vars.get("inbox", 0)
        after = cursor if isinstance(cursor, int) else 0
        texts = [(seq, message.text) for seq, message in ctx.run.ledger.told if seq > after and not message.to]
        if texts:
            ctx.vars["inbox"] = texts[-1][0]
        return Outcome(value=[text for _, text in texts], trust=Trust.USER)


class WaitHandler(BaseHandler):
    """Waiting for mail or a timer; records the ids it took and the last sequence, never the messages again."""

    fixed_mode = Mode.REPEATABLE

    async def execute(self, effect: Effect, ctx: BranchContext[Any]) -> Outcome:
        """Return `{"reason": mail|timeout|ended|all_waiting, "messages": [ids], "last": seq}`.

        Who leads a society gets `lost` besides, a sentence on each agent that works no more, and after a wait without
        mail `working`, the names of those that are at work.
        """
        run = ctx.run
        actor = str(effect.arguments.get("actor", ctx.actor))
        mail = bool(effect.arguments.get("mail", True))
        society = run.mail.society
        if forgery := society.forgery(ctx.actor, ctx.home):
            return failed("denied", forgery)
        if society.leader and actor != ctx.actor:
            return failed("denied", f"{ctx.actor} cannot read the mail of {actor}")
        began = run.ledger.records[ctx.key].marked or run.clock.now()
        try:
            due = due_at(effect.arguments, began)
        except ValueError as exc:
            return failed("mistake", str(exc))
        if not mail and due is None:
            return failed("mistake", "a wait needs `timeout_s` or `until` when it does not wait for mail")
        seconds = None if due is None else (due - run.clock.now()).total_seconds()
        name = f"mail:{actor}"
        cursor = ctx.vars.get(name, 0)
        after = cursor if isinstance(cursor, int) else 0
        # Mail from outside is seen when it is seen, perhaps after later mail from inside: it has a cursor of its own.
        cursor = ctx.vars.get(f"told:{actor}", 0)
        outside = int(cursor) if effect.arguments.get("outside") is True and isinstance(cursor, int) else None
        reason = "timeout"
        if seconds is None or seconds > 0:
            waiting = Waiting(str(ctx.key), ctx.branch, actor if mail else "", after, due, seconds, outside)
            reason = await run.mail.wait(waiting)
        mails = run.mail.inside_mails(actor, after) if mail else []
        outside_mails = run.mail.outside_mails(actor, outside) if outside is not None else []
        last = mails[-1].seq if mails else after
        if mails:
            ctx.vars[name] = last
        if outside_mails:
            ctx.vars[f"told:{actor}"] = outside_mails[-1].seq
        mails += outside_mails
        ids: list[JsonValue] = [mail.id for mail in mails]
        leads = bool(society.leader) and actor == society.leader
        losses: list[JsonValue] = [society.lost(member) for member in society.gone] if leads else []
        working: list[JsonValue] = [*run.mail.at_work()] if leads and not mails else []
        value: dict[str, JsonValue] = {"reason": "mail" if mails else reason, "messages": ids, "last": last}
        return Outcome(value=value | ({"lost": losses} if losses else {}) | ({"working": working} if working else {}))


LONGEST_WAIT = timedelta(days=366)


def due_at(arguments: Mapping[str, JsonValue], began: datetime) -> datetime | None:
    """Return when a wait that began then is over, None if never; ValueError for a time that cannot be waited for."""
    seconds, until = arguments.get("timeout_s"), arguments.get("until")
    if until is not None:
        try:
            due = datetime.fromisoformat(str(until))
        except ValueError:
            raise ValueError(f"{until!r} is no time; write it like 2027-01-31T09:00:00+01:00") from None
        if due.tzinfo is None:
            raise ValueError(f"the time {until} has no zone; write it like 2027-01-31T09:00:00+01:00")
    elif isinstance(seconds, int | float) and not isinstance(seconds, bool):
        if not 0 <= seconds <= LONGEST_WAIT.total_seconds():
            raise ValueError(f"{seconds:g} seconds cannot be waited for; wait for 0 to {LONGEST_WAIT.days} days")
        due = began + timedelta(seconds=seconds)
    else:
        return None
    if due - began > LONGEST_WAIT:
        raise ValueError(f"{until} is too far away; wait for at most {LONGEST_WAIT.days} days")
    return max(due, began).astimezone(UTC)


class JoinHandler(BaseHandler):
    fixed_mode = Mode.REPEATABLE

    async def execute(self, effect: Effect, ctx: BranchContext[Any]) -> Outcome:
        """Return `{"results": {key: value}, "winner": key}`; raise what a joined agent raised."""
        parent = ctx.parent
        keys = effect.arguments.get("keys")
        if parent is None or not isinstance(keys, list):
            return failed("mistake", "a join needs the `keys` of agents spawned on the same branch")
        spawns = []
        for text in keys:
            spawn = parent.spawns.by_key.get(EffectKey.parse(str(text)))
            if spawn is None:
                names = ", ".join(str(k) for k in parent.spawns.by_key) or "none"
                return failed("mistake", f"nothing was spawned at {text}; spawned here: {names}")
            spawns.append(spawn)
        first = effect.arguments.get("mode") == "any"

        def ready() -> bool:
            over = [agent.ended.is_set() for agent in spawns]
            return all(over) or (first and any(agent.outcome is not None for agent in spawns))

        if not ready():
            await self._wait(ctx.run, parent, ready)
        finished = [agent for agent in spawns if agent.outcome is not None]
        if not (first and finished):
            errors = [agent.error for agent in spawns if agent.error is not None]
            for error in errors:
                if not isinstance(error, SuspendedError):
                    raise error
            if errors:
                raise errors[0]
        winners = finished[:1] if first else finished
        for winner in winners:
            if not winner.joined:
                winner.joined = True
                ctx.vars.writes.update(winner.writes)
        results: dict[str, JsonValue] = {str(o.key): o.outcome.value for o in winners if o.outcome is not None}
        trust = lowest(*(winner.outcome.trust for winner in winners if winner.outcome is not None))
        return Outcome(value={"results": results, "winner": str(winners[0].key)}, trust=trust)

    async def _wait(self, run: Run, parent: BranchContext[Any], ready: Any) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if ready() and not future.done():
                run.mail.take_up()
                future.set_result(None)

        parent.spawns.joiners.append(wake)
        run.mail.give_up()
        try:
            await future
        except asyncio.CancelledError:
            if not future.done() or future.cancelled():
                run.mail.take_up()
            raise
        finally:
            parent.spawns.joiners.remove(wake)


def builtin_handlers(*, max_result_chars: int = MAX_RESULT_CHARS) -> dict[EffectKind, Handler]:
    """Return the handlers that need no component; longer results of actions are cut, the whole is an artifact."""
    environment = EnvironmentHandler(max_result_chars=max_result_chars)
    handlers: dict[EffectKind, Any] = {
        EffectKind.ASK_HUMAN: AskHumanHandler(),
        EffectKind.SEND_MESSAGE: SendMessageHandler(),
        EffectKind.RECEIVE: ReceiveHandler(),
        EffectKind.WAIT: WaitHandler(),
        EffectKind.JOIN: JoinHandler(),
        EffectKind.INVOKE_ACTION: environment,
        EffectKind.SNAPSHOT: environment,
        EffectKind.RESTORE: environment,
    }
    return handlers
