"""The rounds of an analysis: the sources first, then round after round until the answer stands (000, app. D.4)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.agents.analysis.strategies import KIND, latest
from agentorchestra.agents.driver import run_agent
from agentorchestra.agents.first_view import VIEW, files_shown, short_files
from agentorchestra.agents.forms import FLAG, TEXT, Inquiry, Questioner, call_tools, form, material
from agentorchestra.agents.outputs import ended_on, figures
from agentorchestra.agents.planning.evidence import SourceCheck, is_last
from agentorchestra.agents.reporting.pieces import add_to_report
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Block, Source, TextBlock
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.settings import AnalysisSettings
from agentorchestra.core.spec import PAGES_ONCE, AgentResult, AgentSpec, FileRef, RunStatus
from agentorchestra.environments.report import REPORT
from agentorchestra.loop import Observe, State
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.prompts.prompt import Prompt
from agentorchestra.tools.files.folders import LIST_SIZE
from agentorchestra.tools.files.read import length_of
from agentorchestra.tools.media_formats import folder_names
from agentorchestra.tools.source_reader import KIND_KNOWN, kind_of, known_by
from agentorchestra.tools.web.fetch import PAGE_CHARS
from agentorchestra.tools.web.pages import read_in_run
from agentorchestra.trust.addresses import pages_named

ROUND = form(("go_on",), reason=TEXT, missing=TEXT, strategy=TEXT, go_on=FLAG)

NAME, REASONING = "deep_analyzer", "reasoning"
DESCRIBE, CHECK, FETCH, READ, PYTHON = "describe_files", "check_quotes", "fetch", "read_file", "python"
BEHIND = (DESCRIBE, VIEW, CHECK, REPORT)  # what the workflow uses itself, and the model is not offered
BEGINNING = 20  # lines of a text that tell what kind it is
MOST_SOURCES = 8  # addresses of the task that are read before the first round
MOST_TRIED = 12_000  # characters of what was tried that are told, the latest

_FILE_NAME = re.compile(r"(?<![\w@.])[\w./-]*[\w-]\.[A-Za-z][A-Za-z0-9]{1,4}\b")
_ENDS = (RunStatus.BUDGET_EXHAUSTED, RunStatus.TIMED_OUT, RunStatus.CANCELLED)


@dataclass(frozen=True)
class AnalysisRound:
    """A round: what it came to, and its calls, a phrase each."""

    result: AgentResult
    calls: tuple[str, ...]

    def summary(self) -> dict[str, Any]:
        calls = latest(self.calls, MOST_TRIED // 2).split("\n") if self.calls else []
        return {"status": self.result.status.value, "answer": self.result.answer, "tried": calls}


@dataclass
class Rounds:
    """One analysis by one model."""

    spec: AgentSpec
    ctx: BranchContext[Any]
    kit: Kit
    limits: AnalysisSettings
    done: list[AnalysisRound] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    remote: bool = False  # whether the task names addresses

    async def run(self) -> AgentResult:
        """Round after round until an answer stands, nothing else can be tried, or the limit is reached."""
        try:
            return await self._rounds()
        except BaseException:
            if self.done:  # a hard end of the budget, in a later round or while its need is judged, takes no answer
                self.ctx.partial = self._result().model_dump(
                    mode="json", include={"answer", "report", "sources", "steps"}
                )
            raise

    async def _rounds(self) -> AgentResult:
        questioner = Questioner(self.ctx, self.kit, self.spec.role, self.spec.model)
        sources = await self._sources(questioner)
        alone = not sources and not _FILE_NAME.search(self._text())
        more: tuple[Block, ...] = ()
        while True:
            began = self.ctx.last_n
            result = await self._round((*sources, *more), alone)
            self.done.append(AnalysisRound(result, self._calls(began)))
            await self._add_to_report(result)
            left = self.limits.rounds - len(self.done)
            if not left or self._stands(result, alone) or result.status in _ENDS:
                break
            values = {"task": self.spec.instruction, "status": result.status.value, "rounds_left": left}
            content = (*self.spec.context, *sources, *self._round_material(result))
            reply = await questioner.one(Inquiry("analysis_round", ROUND, values, content, beside=True))
            if reply is None and questioner.limited:
                self.notes.append(f"Nobody judged whether the answer is complete: {questioner.limited}")
            if reply is None or not reply["go_on"]:
                break
            more = (self._past_rounds(reply),)
        return self._result()

    async def _round(self, sources: tuple[Block, ...], alone: bool) -> AgentResult:
        hidden = BEHIND if self.remote else (*BEHIND, FETCH)
        tools = tuple(name for name in self.spec.tools if name not in hidden)
        own = self.spec.model_copy(update={"context": (*self.spec.context, *sources), "tools": tools})
        observe: tuple[Observe, ...] = (SourceCheck(self.kit.prompts.get("verification")),)
        if alone:
            observe += (SecondLook(self.kit.prompts.get("analysis_second_look"), self.ctx.last_n),)
        prompt = REASONING if alone else NAME
        return await run_agent(own, self.ctx, self.kit, prompt=prompt, observe=observe, checked=True)

    @staticmethod
    def _stands(result: AgentResult, alone: bool) -> bool:
        """Return True if nothing has to be judged: its quotes were looked up, or it was looked at twice."""
        has_answer = bool(result.answer) or result.output is not None
        return result.status is RunStatus.COMPLETED and has_answer and (alone or bool(result.sources))

    # -- sources -----------------------------------------------------------------------------------------------------

    def _text(self) -> str:
        texts = [block.text for block in self.spec.context if isinstance(block, TextBlock)]
        return "\n".join([self.spec.instruction, *texts])

    async def _sources(self, questioner: Questioner) -> tuple[Block, ...]:
        """Describe the sources: files of the task, files in the run's folder that it names, addresses."""
        blocks: list[Block] = []
        files = self.ctx.manifest.files
        if VIEW in self.spec.tools:
            blocks += await short_files(self.ctx, self.spec)
        if DESCRIBE in self.spec.tools and not {ref.name for ref in files} <= files_shown(blocks):
            blocks += (await self.ctx.call_tool(DESCRIBE)).blocks(Source(kind="tool", ref=DESCRIBE))
            blocks += await self._kinds(questioner)
        text = self._text()
        names = await folder_names(self.ctx)
        mentions = [name for name in names if re.search(rf"(?<![\w/.-]){re.escape(name)}(?![\w/-])", text)]
        if mentions:
            listing = "\n".join(f"{name}: in the run's folder" for name in mentions[:LIST_SIZE])
            blocks.append(material(listing, "names", "file"))
        return (*blocks, *await self._addresses(text))

    async def _kinds(self, questioner: Questioner) -> list[Block]:
        """Tell the kind of each file, by its content, else by its name, else as the model says."""
        files = self.ctx.manifest.files
        if len(files) > LIST_SIZE:
            return []
        kinds = {ref.name: (kind_of(ref.media_type), known_by(ref.media_type, ref.name)) for ref in files}
        unclear = [ref for ref in files if not kinds[ref.name][1]]
        for ref, kind in zip(unclear, await self._asked_kinds(questioner, unclear), strict=True):
            kinds[ref.name] = (kind, "what the model made of it") if kind else (kinds[ref.name][0], "")
            if kind:
                self.ctx.vars[f"{KIND_KNOWN}{ref.name}"] = kind
        lines = [
            f"{name} is of the kind {kind}" + (f", by {basis}" if basis else "")
            for name, (kind, basis) in kinds.items()
        ]
        return [material("\n".join(lines), "kinds", "file")]

    async def _asked_kinds(self, questioner: Questioner, files: list[FileRef]) -> list[str]:
        if not files or READ not in self.spec.tools:
            return [""] * len(files)
        read = await call_tools(self.ctx, [(READ, {"name": ref.name, "view_range": [1, BEGINNING]}) for ref in files])
        questions = [
            Inquiry("analysis_kind", KIND, {"name": ref.name}, outcome.blocks(), beside=True)
            for ref, outcome in zip(files, read, strict=True)
        ]
        return [str((reply or {}).get("kind") or "") for reply in await questioner.all(questions)]

    async def _addresses(self, text: str) -> list[Block]:
        """Read the addresses of the task, through the door; each becomes a source of its own, short ones whole."""
        urls = pages_named(text)
        if not urls or FETCH not in self.spec.tools:
            return []
        self.remote = True
        selection = urls[:MOST_SOURCES]
        outcomes = await call_tools(self.ctx, [(FETCH, {"url": url}) for url in selection])
        blocks: list[Block] = []
        left = min(self.ctx.manifest.in_view_chars, PAGE_CHARS)  # what one reading gives is the whole of these
        for url, outcome in zip(selection, outcomes, strict=True):
            if not outcome.ok:
                self.notes.append(f"Not read: {url}: {outcome.error}")
                heading = f"{url} could not be read: {outcome.error}"
                blocks.append(material(heading, url, "web"))
                continue
            head, *content = outcome.blocks()
            kind = kind_of(outcome.artifacts[0].media_type) if outcome.artifacts else "text"
            document = await read_in_run(self.ctx, url)
            length = length_of(document, tables=self.ctx.manifest.checks < PAGES_ONCE) if document is not None else 0
            whole = 0 < length <= left
            heading = f"Source {url}, read already, {'whole below, ' if whole else ''}of the kind {kind}: "
            blocks.append(material(heading + (head.text if isinstance(head, TextBlock) else ""), url, "web"))
            if whole:
                blocks += content
                left -= length
        if len(urls) > len(selection):
            self.notes.append(f"Not read: {len(urls) - len(selection)} further addresses")
        return blocks

    # -- what was tried ----------------------------------------------------------------------------------------------

    def _calls(self, began: int) -> tuple[str, ...]:
        lines = []
        for _, record in ended_on(self.ctx, _CALLS, after=began):
            name = str(record.effect.get("component", "")).rpartition("@")[0]
            if name in (CHECK, REPORT, "done") or record.outcome is None:
                continue
            arguments = json.dumps(record.effect.get("arguments", {}), ensure_ascii=False)[:200]
            failed = "" if record.outcome.ok else f" ({record.outcome.error})"[:200]
            lines.append(f"{name} {arguments}{failed}")
        return tuple(dict.fromkeys(lines))

    def _round_material(self, result: AgentResult) -> tuple[Block, ...]:
        """Return the answer and what was tried, as material: both may be the words of files."""
        calls = latest([f"- {call}" for past_round in self.done for call in past_round.calls], MOST_TRIED)
        return (
            material(f"The answer of the round:\n{result.answer or '(none)'}", "answer"),
            material(f"Tried:\n{calls or '- nothing'}", "tried"),
        )

    def _past_rounds(self, reply: dict[str, Any]) -> Block:
        citations = dict.fromkeys(citation for past_round in self.done for citation in past_round.result.sources)
        text = self.kit.prompts.get("analysis_tried").render(
            rounds=[past_round.summary() for past_round in self.done],
            missing=str(reply.get("missing") or ""),
            strategy=str(reply.get("strategy") or ""),
            findings=[f"{citation.source}, {citation.place}: “{citation.quote}”" for citation in citations],
        )
        return material(text, "rounds")

    async def _add_to_report(self, result: AgentResult) -> None:
        if not result.answer:
            return
        marks = "".join(f" [{number}]" for number in range(1, len(result.sources) + 1))
        title = f"Analysis, round {len(self.done)}: {self.spec.instruction[:80]}"
        await add_to_report(self.ctx, f"{result.answer}{marks}", title=title, citations=list(result.sources))

    def _result(self) -> AgentResult:
        """Return the last round's result, or the latest one that has more to say."""
        results = [past_round.result for past_round in self.done]
        best = max(enumerate(results), key=lambda entry: (_weight(entry[1]), entry[0]))[1]
        notes = [*self.notes]
        if len(results) > 1:
            notes.insert(0, f"Analysed in {len(results)} rounds.")
        report = "\n\n".join(part for part in (best.report, *notes) if part)
        return best.model_copy(update={"steps": sum(result.steps for result in results), "report": report})


_CALLS = (EffectKind.INVOKE_TOOL, EffectKind.INVOKE_ACTION)


def _weight(result: AgentResult) -> int:
    if result.status is RunStatus.COMPLETED:
        return 3 if result.sources else 2
    return 1 if result.answer else 0


@dataclass
class SecondLook:
    """An `observe` part: a result that nothing computed is looked at once more before it is taken."""

    prompt: Prompt
    began: int  # the number of the last effect before the round
    sent_back: bool = field(default=False, init=False)

    async def __call__(self, state: State, ctx: BranchContext[Any]) -> State:
        """Return the state; without its result the first time."""
        result = state.result
        if result is None or self.sent_back or is_last(state) or result.status is not RunStatus.COMPLETED:
            return state
        if self._is_computed(result.answer, ctx):
            return state
        self.sent_back = True
        return state.model_copy(update={"result": None, "problem": self.prompt.render(answer=result.answer)})

    def _is_computed(self, answer: str, ctx: BranchContext[Any]) -> bool:
        """Return True if a program printed what the answer says."""
        numbers = {*figures(answer)} or {answer.strip()}
        outputs = [
            str(record.outcome.value)
            for _, record in ended_on(ctx, [*EffectKind], after=self.began)
            if str(record.effect.get("component", "")).startswith(f"{PYTHON}@")
            and record.outcome is not None
            and record.outcome.ok
        ]
        return any(numbers <= {*figures(text)} or answer.strip() in text for text in outputs)
