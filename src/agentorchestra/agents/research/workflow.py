"""One research, round after round: queries, pages, findings, what is still missing, the report (000, app. D.3)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from agentorchestra.agents.asking import Asking, Question
from agentorchestra.agents.references import make_report
from agentorchestra.agents.reporting import add_to_report
from agentorchestra.agents.research.findings import Insight, evidence, ordered
from agentorchestra.agents.research.queries import Asked, Queries, query_from
from agentorchestra.agents.research.questions import BETTER, CHECK, PLAN, report_schema
from agentorchestra.agents.research.reading import PYTHON, Reading
from agentorchestra.agents.research.rounds import as_text
from agentorchestra.agents.research.sourced import sourced
from agentorchestra.core.settings import ResearchSettings
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.runtime.session import Session

_MOST = 10
"""Of questions, gaps, conflicts: what a model lists beyond is left out."""

_LONGEST_CODE = 200
_LONGEST_RESULT = 600


@dataclass(frozen=True)
class Conflict:
    """Findings that cannot all be true.

    Attributes:
        about: what.
        sides: the findings.
        believe: which of them is to be believed, and why; "" where nothing decides it.
    """

    about: str
    sides: tuple[Insight, ...]
    believe: str = ""


@dataclass
class Research:
    """One research.

    Attributes:
        spec: what is asked.
        session: the agent's.
        limits: of the research.
        asking: asks the agent's model.
        reading: searches and reads for it.
    """

    spec: AgentSpec
    session: Session[Any]
    limits: ResearchSettings
    asking: Asking
    reading: Reading
    queries: Queries = field(init=False)
    questions: list[str] = field(default_factory=list)
    insights: list[Insight] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    complete: bool = False
    rounds: int = 0
    calculated: int = 0

    def __post_init__(self) -> None:
        self.queries = Queries(self.limits.depth)

    async def run(self) -> AgentResult:
        """Round after round until the task is answered or a limit is reached, then the report."""
        began = self.session.now
        frontier = await self._plan()
        while frontier:
            self.rounds += 1
            before = {one.mark for one in self.insights}
            frontier = await self._round(await self._bettered(frontier))
            await self._document(before)
            self.session.partial = {"steps": self.rounds, "report": self._found_so_far()}
            why = self._limit((self.session.now - began).total_seconds())
            if why:
                if frontier or self.asking.limited:
                    self.reading.notes.append(why)
                break
        return await self._report()

    async def _round(self, queries: Sequence[Asked]) -> list[Asked]:
        """Search, read, judge; the queries of the next round."""
        self.queries.take(queries, self.rounds)
        await self.reading.search(queries)
        self.insights += await self.reading.read(queries)
        self.insights = ordered(self.insights, self.limits.insights)
        return await self._check(queries)

    def _limit(self, taken: float) -> str:
        """Why no further round begins, "" while one may."""
        limits, pages = self.limits, self.reading.pages
        if self.asking.limited:
            return f"The budget ended the search: {self.asking.limited}"
        if self.rounds >= limits.rounds:
            return f"The search ended after {limits.rounds} rounds."
        if pages >= limits.pages:
            return f"The search ended after {pages} pages."
        if limits.tokens and self.asking.tokens >= limits.tokens:
            return f"The search ended after {self.asking.tokens:,} tokens."
        if limits.seconds and taken >= limits.seconds:
            return f"The search ended after {taken:.0f} s."
        return ""

    # -- queries -----------------------------------------------------------------------------------------------------

    @property
    def _today(self) -> str:
        return self.session.now.date().isoformat()

    async def _plan(self) -> list[Asked]:
        values = {"task": self.spec.instruction, "today": self._today, "queries": self.limits.queries}
        question = Question("research_plan", PLAN, values, tuple(self.spec.context), decides=True)
        (reply,) = await self.asking.all([question])
        written: Mapping[str, Any] = reply or {}
        self.questions = [str(one) for one in written.get("questions", ()) if str(one).strip()][:_MOST]
        self.reading.values = {"task": self.spec.instruction, "questions": self.questions}
        found = self.queries.new([query_from(one) for one in written.get("queries", ())])
        # A model that plans nothing usable: the task itself is a query.
        return found[: self.limits.queries] or [query_from({"query": self.spec.instruction})]

    async def _bettered(self, drafts: Sequence[Asked]) -> Sequence[Asked]:
        """The queries as they are after a second look, with their variants."""
        if not self.limits.reflect and not self.limits.variants:
            return drafts
        values = {
            **self.reading.values,
            "today": self._today,
            "drafts": [asdict(one) for one in drafts],
            "asked": self._asked(),
            "variants": self.limits.variants,
            "reflect": self.limits.reflect,
        }
        content = (*self.spec.context, evidence(self.insights)) if self.insights else tuple(self.spec.context)
        (reply,) = await self.asking.all([Question("research_queries", BETTER, values, content)])
        return self.queries.bettered(drafts, (reply or {}).get("queries", ()), self.limits.variants) or drafts

    def _asked(self) -> list[dict[str, Any]]:
        return [{"query": one.query, "failed": one.failed} for one in self.queries.asked]

    # -- what is missing ---------------------------------------------------------------------------------------------

    async def _check(self, last: Sequence[Asked]) -> list[Asked]:
        """Judge the findings; the queries of the next round."""
        left = self.limits.calculations if PYTHON in self.spec.tools else 0
        while True:
            reply = await self._judged(left)
            if reply is None:
                return []
            calculations = reply.get("calculations", ())[:left]
            if not calculations:
                break
            # What was computed is a finding: it is judged with the others, once.
            await self._calculate(calculations)
            left = 0
        self.complete = bool(reply["complete"]) and bool(self.insights)
        self.missing = [str(one) for one in reply.get("missing", ())][:_MOST]
        self.conflicts = self._conflicts(reply.get("conflicts", ()))
        if self.complete:
            return []
        return self.queries.follow_ups(
            reply.get("follow_ups", ())[: self.limits.follow_ups], self.limits.branches, last
        )

    async def _judged(self, calculations: int) -> dict[str, Any] | None:
        values = {
            **self.reading.values,
            "asked": self._asked(),
            "most": self.limits.follow_ups,
            "rounds_left": self.limits.rounds - self.rounds,
            "calculations": calculations,
            "failed": self.failed,
        }
        question = Question("research_check", CHECK, values, (evidence(self.insights),), decides=True)
        (reply,) = await self.asking.all([question])
        return reply

    async def _calculate(self, written: Sequence[Mapping[str, Any]]) -> None:
        """Compute over the findings; each result is one."""
        outcomes = await self.reading.calls([(PYTHON, {"code": str(one["code"])}) for one in written])
        for one, outcome in zip(written, outcomes, strict=True):
            what = " ".join(str(one["what"]).split())
            if not outcome.ok:
                self.failed.append(f"{what}: {outcome.error}")
                self.reading.notes.append(f"Not calculated: {what}: {outcome.error}")
                continue
            self.calculated += 1
            code = " ".join(str(one["code"]).split())[:_LONGEST_CODE]
            result = " ".join(str(outcome.value).split())[:_LONGEST_RESULT]
            place = f"calculation {self.calculated}"
            self.insights.append(Insight(what, f"{code} gives {result}", PYTHON, place, 1.0, 0, "calculation"))
        self.insights = ordered(self.insights, self.limits.insights)

    def _conflicts(self, written: Sequence[Mapping[str, Any]]) -> list[Conflict]:
        """Contradictions between findings that there are."""
        found = []
        for one in written[:_MOST]:
            numbers = [int(mark) - 1 for mark in re.findall(r"E(\d{1,4})", " ".join(map(str, one["marks"])))]
            sides = tuple(self.insights[number] for number in numbers if 0 <= number < len(self.insights))
            if len(sides) > 1:
                found.append(Conflict(str(one["about"]), sides, str(one.get("believe") or "")))
        return found

    # -- report ------------------------------------------------------------------------------------------------------

    async def _document(self, before: set[str]) -> None:
        """The round in the report of the run: its queries, what they gave, how it was judged."""
        new = [one for one in self.insights if one.mark not in before]
        last = [one for one in self.queries.asked if one.round == self.rounds]
        text = as_text(last, new, missing=self.missing, complete=self.complete)
        title = f"Research, round {self.rounds}: {self.spec.instruction[:80]}"
        await add_to_report(self.session, text, title=title, citations=[one.citation for one in new])

    async def _report(self) -> AgentResult:
        self.insights = ordered(self.insights, self.limits.insights)
        notes = [*self.reading.notes, *self._dead()]
        if not self.insights:
            tried = "; ".join(f"{one.query!r}: {one.failed or 'nothing that helps'}" for one in self.queries.asked)
            said = " ".join([f"Nothing was found. Searched for {tried}.", *notes])
            return AgentResult(status=RunStatus.BLOCKED, answer="", report=said, steps=self.rounds)
        schema = self.spec.output_schema
        values = {
            "task": self.spec.instruction,
            "complete": self.complete,
            "missing": self.missing,
            "conflicts": [
                {"about": one.about, "marks": [self._mark(side) for side in one.sides], "believe": one.believe}
                for one in self.conflicts
            ],
            "output_schema": schema or "",
        }
        question = Question("research_report", report_schema(schema), values, (evidence(self.insights),), final=True)
        (reply,) = await self.asking.all([question])
        cited = [one.citation for one in self.insights]
        written, unsourced = sourced(str((reply or {}).get("report") or ""))
        notes += [f"Left out, since no finding is named for it: “{one}”" for one in unsourced]
        written = written or self._findings()
        whole = "\n\n".join(part for part in (written, self._contradictions(written), *self._open()) if part)
        made = make_report(whole, cited, self.session.manifest.files)
        answer: Any = (reply or {}).get("answer", "")
        text = answer if isinstance(answer, str) else ""
        status = RunStatus.COMPLETED if self.complete and reply is not None else RunStatus.PARTIAL
        key = tuple(one.citation for one in self.insights if one.group == "key")
        return AgentResult(
            status=status,
            answer=re.sub(r"\s*\[E\d+\]", "", text).strip(),
            output=None if schema is None else answer,
            report="\n\n".join(part for part in (made.text, *notes, *made.notes) if part),
            sources=made.sources or key or tuple(cited[:1]),
            steps=self.rounds,
        )

    def _mark(self, insight: Insight) -> str:
        return f"E{self.insights.index(insight) + 1}"

    def _contradictions(self, written: str) -> str:
        """Those that the model's report does not name with all their sides."""
        left = [one for one in self.conflicts if not all(f"[{self._mark(side)}]" in written for side in one.sides)]
        lines = []
        for one in left:
            sides = "; ".join(f"{side.fact} [{self._mark(side)}]" for side in one.sides)
            lines.append(f"Sources contradict each other ({one.about}): {sides}." + f" {one.believe}".rstrip())
        return "\n\n".join(lines)

    def _open(self) -> list[str]:
        """What was not found."""
        return [] if self.complete else [f"Not found: {one.rstrip('.')}." for one in self.missing]

    def _dead(self) -> list[str]:
        """Engines that gave nothing, and why."""
        failed = {name: why for one in self.queries.asked for name, why in one.engines.items()}
        said = "; ".join(f"{name} {why}" for name, why in sorted(failed.items()))
        return [f"Without an answer: {said}."] if said else []

    def _findings(self) -> str:
        """The findings as they are, where no model could write them up."""
        lines = [f"- {one.fact} [E{number}]" for number, one in enumerate(self.insights, start=1)]
        return "\n".join(["What was found:", "", *lines])

    def _found_so_far(self) -> str:
        """For a run that ends before its report: the findings with their sources."""
        if not self.insights:
            return ""
        made = make_report(self._findings(), [one.citation for one in self.insights], self.session.manifest.files)
        return made.text


__all__ = ["Conflict", "Research"]
