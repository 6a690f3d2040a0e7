"""One research, round after round: queries, pages, findings, what is still missing, the report (000, app. D.3)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from agentorchestra.agents.forms import Inquiry, Questioner, call_tools, material
from agentorchestra.agents.reporting.pieces import add_to_report
from agentorchestra.agents.reporting.references import make_report
from agentorchestra.agents.research.allowance import ResearchAllowance
from agentorchestra.agents.research.findings import Insight, brief, evidence, top_insights
from agentorchestra.agents.research.questions import PARAGRAPHS, PLAN, check_form, report_form
from agentorchestra.agents.research.reader import PYTHON, ResearchReader
from agentorchestra.agents.research.sourced import ReportPart, join_parts, parts_of
from agentorchestra.agents.search.queries import BETTER, NO_RESULTS, Queries, ResearchQuery, query_from
from agentorchestra.core.settings import ResearchSettings
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.environments.report.marks import evidence_marks
from agentorchestra.runtime.context import BranchContext
from agentorchestra.trust.addresses import pages_named

PLANNED_QUERIES = 3  # of the plan, searched in the first round
MOST_CALCULATIONS = 2  # over the findings, after each round
_MOST = 10  # of questions, gaps, conflicts: what a model lists beyond is left out
_LONGEST = 400  # characters of a question, a gap, a conflict, a reason: what a model says goes into further prompts

_LONGEST_CODE = 200
_LONGEST_RESULT = 600

_GROUPS = {"key": "Key findings", "additional": "Additional", "supplementary": "Supplementary"}


@dataclass(frozen=True)
class Conflict:
    """Findings that cannot all be true, and which of them is to be believed, "" where nothing decides it."""

    about: str
    sides: tuple[Insight, ...]
    believe: str = ""

    def among(self, insights: Sequence[Insight]) -> Conflict | None:
        """Return what is left of it among these findings; None for less than two sides."""
        sides = tuple(side for side in self.sides if side in insights)
        return replace(self, sides=sides) if len(sides) > 1 else None


@dataclass
class Research:
    spec: AgentSpec
    ctx: BranchContext[Any]
    limits: ResearchSettings
    questioner: Questioner
    reading: ResearchReader
    reflect: bool  # whether queries are judged and changed before they are searched, one request a round
    variants: int  # of each query that are searched as well
    queries: Queries = field(init=False)
    questions: list[str] = field(default_factory=list)
    insights: list[Insight] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)  # calculations without a result
    reasons: list[str] = field(default_factory=list)  # why each of them has none
    complete: bool = False
    report_reply: Mapping[str, Any] | None = None  # the report and the answer, once the model wrote them
    rounds: int = 0
    calculation_count: int = 0

    def __post_init__(self) -> None:
        self.queries = Queries(self.limits.depth)

    async def run(self) -> AgentResult:
        """Round after round until the task is answered or a limit is reached, then the report."""
        frontier = await self._begin()
        while frontier:
            queries = await self._better(frontier)
            if self._allowance.ends("not searched", [query.query for query in queries]):
                break
            self.rounds += 1
            self.queries.take(queries, self.rounds)
            await self.reading.search(queries)
            frontier = await self._judge_new(await self.reading.read(queries), queries)
        return await self._report()

    async def _begin(self) -> list[ResearchQuery]:
        """Read the pages that the task names; return the first queries, none where these pages are all that is needed.

        What the pages lack is searched for at once; only where they bring nothing a plan is made.
        """
        pages = [part.source.ref for part in self.spec.context if part.source is not None and part.source.kind == "web"]
        addresses = [*dict.fromkeys([*pages, *pages_named(self.spec.instruction)])]
        if addresses:
            self.reading.values = {"task": self.spec.instruction, "questions": []}
            if insights := await self.reading.read_named(addresses):
                return await self._judge_new(insights, ())
        return await self._plan()

    async def _judge_new(self, insights: Sequence[Insight], queries: Sequence[ResearchQuery]) -> list[ResearchQuery]:
        """Judge what was read; return the queries of the next round, none where no further one begins."""
        before = {insight.mark for insight in self.insights}
        self.insights = top_insights([*self.insights, *insights], self.limits.insights)
        frontier = await self._check(queries)
        await self._document(before)
        partial: dict[str, Any] = {"steps": self.rounds, "report": self._found_so_far()}
        self.ctx.partial = partial | {"distrusted": [*self.reading.distrusted_pages]}
        if frontier and self._allowance.ends("not searched", [query.query for query in frontier]):
            return []
        if reason := self._limit():
            if frontier or self.questioner.limited or not self.complete:
                self.reading.notes.append(reason)
            return []
        return frontier

    def _limit(self) -> str:
        """Return why no further round begins, "" while one may; for time and tokens see `ResearchAllowance`."""
        limits, pages = self.limits, self.reading.pages
        if self.questioner.limited:
            return f"The budget ended the search: {self.questioner.limited}"
        if self.rounds >= limits.rounds:
            return f"The search ended after {limits.rounds} rounds."
        if pages >= limits.pages:
            return f"The search ended after {pages} pages."
        return ""

    @property
    def _allowance(self) -> ResearchAllowance:
        return self.reading.allowance

    # -- queries -----------------------------------------------------------------------------------------------------

    @property
    def _today(self) -> str:
        return self.ctx.now.date().isoformat()

    async def _plan(self) -> list[ResearchQuery]:
        values = {
            "task": self.spec.instruction,
            "today": self._today,
            "queries": PLANNED_QUERIES,
            "variants": self.variants,
        }
        question = Inquiry("research_plan", PLAN, values, tuple(self.spec.context), decides=True)
        reply: Mapping[str, Any] = await self.questioner.one(question) or {}
        self.questions = [brief(str(row), _LONGEST) for row in reply.get("questions", ()) if str(row).strip()][:_MOST]
        self.reading.values = {"task": self.spec.instruction, "questions": self.questions}
        queries = self.queries.new([query_from(row) for row in reply.get("queries", ())])
        if not queries and reply and self.reading.pages:
            return []
        # A model that plans nothing usable: the task itself is a query.
        return queries[:PLANNED_QUERIES] or [query_from({"query": self.spec.instruction})]

    async def _better(self, drafts: Sequence[ResearchQuery]) -> Sequence[ResearchQuery]:
        queries = drafts
        if self.reflect:
            values = {
                **self.reading.values,
                "today": self._today,
                "drafts": [asdict(draft) for draft in drafts],
                "asked": self._query_rows(),
                "variants": self.variants,
                "reflect": True,  # for copies of the prompt from before this was the only use of it
            }
            content = (*self.spec.context, *((evidence(self.insights),) if self.insights else ()))
            reply = await self.questioner.one(Inquiry("research_queries", BETTER, values, content))
            queries = self.queries.revise(drafts, (reply or {}).get("queries", ()))
        return self.queries.spread(queries, self.variants) or drafts

    def _query_rows(self) -> list[dict[str, Any]]:
        """Return the queries so far, without a server's words on why one failed: these are no part of an order."""
        return [
            {"query": row.query, "failed": "nobody answered" if row.failed and row.failed != NO_RESULTS else row.failed}
            for row in self.queries.asked
        ]

    # -- what is missing ---------------------------------------------------------------------------------------------

    async def _check(self, last: Sequence[ResearchQuery]) -> list[ResearchQuery]:
        """Judge the findings: the queries of the next round, or none and the report."""
        left = MOST_CALCULATIONS if PYTHON in self.spec.tools else 0
        rounds = 0 if self._limit() or not self.queries.may_follow else self.limits.rounds - self.rounds
        self.missing = []
        if not self.insights and not rounds:  # nothing can be written about nothing
            return []
        while True:
            reply = await self._judgement(left, rounds)
            if reply is None:
                self._allowance.ends(f"what round {self.rounds} brought not judged")
                return []
            self.complete = bool(reply["complete"]) and bool(self.insights)
            self.missing = [brief(str(gap), _LONGEST) for gap in reply.get("missing", ())][:_MOST]
            self.conflicts = self._conflicts(reply.get("conflicts", ()))
            calculations = reply.get("calculations", ())[:left]
            if not calculations or self._allowance.ends("not calculated", [str(row["what"]) for row in calculations]):
                break
            # What was computed is a finding: it is judged with the others, once.
            await self._calculate(calculations)
            left = 0
        follow_ups = () if self.complete or not rounds else reply.get("follow_ups", ())[: self.limits.follow_ups]
        queries = self.queries.follow_ups(follow_ups, self.limits.branches, last)
        is_answered = self.spec.output_schema is None or reply.get("answer") is not None
        if not queries and is_answered and str(reply.get("report") or "").strip():
            self.report_reply = reply
        return queries

    async def _judgement(self, calculations: int, rounds_left: int) -> dict[str, Any] | None:
        schema = self.spec.output_schema
        values = {
            **self.reading.values,
            "asked": self._query_rows(),
            "most": self.limits.follow_ups,
            "variants": self.variants,
            "rounds_left": rounds_left,
            "calculations": calculations,
            "failed": self.failed[-_MOST:],
        }
        reply = check_form(schema, calculations=bool(calculations), follow_ups=bool(rounds_left))
        # Why calculations failed is material: an interpreter's words, with anybody's figures in them.
        reasons = (material("\n".join(self.reasons[-_MOST:]), PYTHON, "tool"),) if self.reasons else ()
        content = (*self.spec.context, evidence(self.insights), *reasons)
        return await self.questioner.one(Inquiry("research_check", reply, values, content, decides=True))

    async def _calculate(self, calculations: Sequence[Mapping[str, Any]]) -> None:
        outcomes = await call_tools(self.ctx, [(PYTHON, {"code": str(step["code"])}) for step in calculations])
        for calculation, outcome in zip(calculations, outcomes, strict=True):
            subject = brief(str(calculation["what"]), _LONGEST)
            if not outcome.ok:
                self.failed.append(subject)
                self.reasons.append(f"{subject}: {brief(str(outcome.error), _LONGEST)}")
                self.reading.notes.append(f"Not calculated: {self.reasons[-1]}")
                continue
            self.calculation_count += 1
            code = " ".join(str(calculation["code"]).split())[:_LONGEST_CODE]
            result = " ".join(str(outcome.value).split())[:_LONGEST_RESULT]
            place = f"calculation {self.calculation_count}"
            self.insights.append(Insight(subject, f"{code} gives {result}", PYTHON, place, 1.0, 0, "calculation"))
        self.insights = top_insights(self.insights, self.limits.insights)

    def _conflicts(self, rows: Sequence[Mapping[str, Any]]) -> list[Conflict]:
        conflicts = []
        for row in rows[:_MOST]:
            numbers = [int(mark) - 1 for mark in re.findall(r"E(\d{1,4})", " ".join(map(str, row["marks"])))]
            sides = tuple(self.insights[number] for number in numbers if 0 <= number < len(self.insights))
            if len(sides) > 1:
                about, believe = (brief(str(row.get(name) or ""), _LONGEST) for name in ("about", "believe"))
                conflicts.append(Conflict(about, sides, believe))
        return conflicts

    # -- report ------------------------------------------------------------------------------------------------------

    async def _document(self, before: set[str]) -> None:
        """Add the round to the report of the run: its queries, what they gave, how it was judged."""
        new = [insight for insight in self.insights if insight.mark not in before]
        last = [query for query in self.queries.asked if query.round == self.rounds]
        text = round_text(last, new, missing=self.missing, complete=self.complete)
        stage = f"round {self.rounds}" if self.rounds else "the pages of the task"
        title = f"Research, {stage}: {self.spec.instruction[:80]}"
        citations = [insight.citation for insight in new]
        await add_to_report(self.ctx, text, title=title, citations=citations, titles=self.reading.titles)

    async def _report(self) -> AgentResult:
        self.insights = top_insights(self.insights, self.limits.insights)
        self.conflicts = [rest for conflict in self.conflicts if (rest := conflict.among(self.insights)) is not None]
        notes = [*self.reading.notes, *self._dead()]
        if self._allowance.left_out:
            notes.append(f"{self._allowance.used_up} {self._allowance.sentence()}")
        if not self.insights:
            searches = "; ".join(f"{row.query!r}: {row.failed or 'nothing that helps'}" for row in self.queries.asked)
            account = " ".join(["Nothing was found.", *([f"Searched for {searches}."] if searches else []), *notes])
            left_out = tuple(self.reading.distrusted_pages)
            return AgentResult(status=RunStatus.BLOCKED, report=account, steps=self.rounds, distrusted=left_out)
        reply = self.report_reply or await self._write()
        body, struck = await self._mend(str((reply or {}).get("report") or ""))
        notes += [f"Left out, since no finding is named for it: “{sentence}”" for sentence in struck]
        body = body or self._findings()
        open_ = [] if self.complete else [f"Not found: {gap.rstrip('.')}." for gap in self.missing]
        whole = "\n\n".join(part for part in (body, self._contradictions(body), *open_) if part)
        citations = [insight.citation for insight in self.insights]
        report = make_report(whole, citations, self.ctx.manifest.files, self.reading.titles)
        schema = self.spec.output_schema
        answer: Any = (reply or {}).get("answer", "")
        text = evidence_marks(answer, len(citations)) if isinstance(answer, str) else ""
        status = RunStatus.COMPLETED if self.complete and reply is not None else RunStatus.PARTIAL
        key = tuple(insight.citation for insight in self.insights if insight.group == "key")
        return AgentResult(
            status=status,
            answer=re.sub(r"\s*\[E\d+\]", "", text).strip(),
            output=None if schema is None else answer,
            report="\n\n".join(part for part in (report.text, *notes, *report.notes) if part),
            sources=report.sources or key or tuple(citations[:1]),
            steps=self.rounds,
            distrusted=tuple(self.reading.distrusted_pages),
        )

    async def _write(self) -> dict[str, Any] | None:
        """Ask for the report, where the search ended before the check wrote it."""
        schema = self.spec.output_schema
        values = {
            "task": self.spec.instruction,
            "complete": self.complete,
            "missing": [*self.missing],
            "output_schema": schema or "",
            "conflicts": [
                {"about": clash.about, "marks": [self._mark(side) for side in clash.sides], "believe": clash.believe}
                for clash in self.conflicts
            ],
        }
        content = (*self.spec.context, evidence(self.insights))
        return await self.questioner.one(Inquiry("research_report", report_form(schema), values, content, final=True))

    async def _mend(self, report: str) -> tuple[str, list[str]]:
        """Return what of a report names its findings, and the beginnings of what was left out since it names none.

        Its author is asked once for the findings behind the paragraphs that name none.
        """
        count = len(self.insights)
        parts = parts_of(evidence_marks(report, count), count)
        open_ = [part for part in parts if part.lacks_source]
        if not open_:
            return join_parts(parts), []
        paragraphs = "\n\n".join(f"{number}. {part.text}" for number, part in enumerate(open_, start=1))
        report_block = material(paragraphs, "report")
        content = (evidence(self.insights), report_block)
        question = Inquiry("research_marks", PARAGRAPHS, {"task": self.spec.instruction}, content, beside=True)
        reply = await self.questioner.one(question)
        anew = {int(row["number"]): str(row["text"]) for row in (reply or {}).get("paragraphs", ())}
        good_parts: list[ReportPart] = []
        struck: list[str] = []
        for part in parts:
            if part.lacks_source:
                text = anew.get(open_.index(part) + 1, "")
                new_parts = [part for part in parts_of(evidence_marks(text, count), count) if not part.lacks_source]
                good_parts += new_parts
                struck += [] if any(part.holds for part in new_parts) else [part.brief]
            else:
                good_parts.append(part)
        return join_parts(good_parts), struck

    def _mark(self, insight: Insight) -> str:
        return f"E{self.insights.index(insight) + 1}"

    def _contradictions(self, report: str) -> str:
        """Return those that the model's report does not name with all their sides."""
        left = [clash for clash in self.conflicts if not all(f"[{self._mark(side)}]" in report for side in clash.sides)]
        lines = []
        for clash in left:
            sides = "; ".join(f"{side.fact} [{self._mark(side)}]" for side in clash.sides)
            lines.append(f"Sources contradict each other ({clash.about}): {sides}." + f" {clash.believe}".rstrip())
        return "\n\n".join(lines)

    def _dead(self) -> list[str]:
        failed = {name: reason for query in self.queries.asked for name, reason in query.engines.items()}
        sentence = "; ".join(f"{name} {reason}" for name, reason in sorted(failed.items()))
        return [f"Without an answer: {sentence}."] if sentence else []

    def _findings(self) -> str:
        """Return the findings as they are, where no model could write them up."""
        lines = [f"- {insight.fact} [E{number}]" for number, insight in enumerate(self.insights, start=1)]
        return "\n".join(["What was found:", "", *lines])

    def _found_so_far(self) -> str:
        """Return the findings with their sources, for a run that ends before its report."""
        if not self.insights:
            return ""
        return make_report(self._findings(), [fact.citation for fact in self.insights], self.ctx.manifest.files).text


def round_text(
    queries: Sequence[ResearchQuery], new: Sequence[Insight], *, missing: Sequence[str], complete: bool
) -> str:
    """Return a round in Markdown, in which `[1]` is the first of the new findings, the most relevant first."""
    query_lines = [f"- {_one_line(query.query)}{_days(query)}: {_gave(query)}{_reason(query)}" for query in queries]
    lines = ["**Queries**", "", *query_lines] if query_lines else []
    for group, title in _GROUPS.items():
        facts = [(number, insight) for number, insight in enumerate(new, start=1) if insight.group == group]
        if facts:
            lines += ["", f"**{title}**", "", *(f"- {_one_line(insight.fact)} [{number}]" for number, insight in facts)]
    if not new:
        lines += ["", "Nothing new was found."]
    verdict = "The findings answer the task." if complete else "The findings do not answer all of the task yet."
    lines += ["", f"**Evaluation.** {verdict}", *(f"- missing: {_one_line(gap)}" for gap in missing)]
    return "\n".join(lines).strip()


def _days(query: ResearchQuery) -> str:
    return "".join(f", {word} {day}" for word, day in (("since", query.since), ("until", query.until)) if day)


def _gave(query: ResearchQuery) -> str:
    return _one_line(query.failed) if query.failed else f"{len(query.addresses)} results"


def _reason(query: ResearchQuery) -> str:
    reason = "; ".join([*query.problems, *([query.suggestion] if query.suggestion else [])])
    return f" (in place of: {_one_line(query.draft)}; {_one_line(reason)})" if query.draft else ""


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("[", "(").replace("]", ")")
