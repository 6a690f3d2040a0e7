"""The distiller: tips and solutions from recorded runs, written down as insights (004, sec. 3.2.1; 000, app. C.4).

It is given what runs did and how they ended, and asks a model once what later tasks can use. What it writes is an
insight of the memory like any other, with the places in the log that it rests on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, JsonValue, ValidationError

from agentorchestra.agents.agent import Agent
from agentorchestra.agents.forms import INTEGER, TEXT, TEXTS, Inquiry, Questioner, form, limit_status, list_of
from agentorchestra.agents.memory import SessionMemory
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Source, TextBlock, Trust
from agentorchestra.core.errors import SettingsError
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.memory.base import Entry, Happening, describe_memory, plain
from agentorchestra.tea.memory.workflow import WorkflowMemory

NAME = "distiller"

MOST_TIPS = 8
LONGEST = 600  # characters of a tip or solution
_MOST_INSIGHTS = 16  # insights that it is shown, of those that fit the runs
_SUCCESS = 0.5


class Line(BaseModel, frozen=True, extra="forbid"):
    """Something that an agent said or called, with the key of its effect."""

    key: str
    text: str


class RunReport(BaseModel, frozen=True, extra="forbid"):
    """A recorded run."""

    run: str  # its id
    task: str  # what was asked
    status: RunStatus  # how it ended
    score: float | None = None  # 0 to 1, None where nobody said
    answer: str = ""  # its answer
    lines: tuple[Line, ...] = ()  # what its main agent said and called
    trust: Trust = Trust.UNTRUSTED  # of the task, the answer and the lines, the lowest

    @property
    def is_success(self) -> bool:
        """Return True for a score of at least a half; without a score for a run that was completed."""
        return self.status is RunStatus.COMPLETED if self.score is None else self.score >= _SUCCESS


class Material(BaseModel, frozen=True, extra="forbid"):
    """The options of a run of the distiller: runs, and what was retired before and is not to be proposed again."""

    runs: tuple[RunReport, ...]
    retired: tuple[str, ...] = ()


class Tip(BaseModel, frozen=True):
    """A tip or solution as it was written down."""

    ref: str  # its name in the memory, `RUN:ENTRY`
    kind: Literal["tip", "solution"]  # a tip says what to do or to avoid, a solution how a task was solved
    text: str  # in words
    evidence: tuple[str, ...]  # where it was learnt, `RUN/1.react#3`


class Distiller:
    """Drives the distiller: one question to a model, then one entry for each tip that rests on something."""

    content_hash = "1"

    def check_options(self, options: Mapping[str, JsonValue], agents: Collection[str], model: str) -> None:
        try:
            material = Material.model_validate(options)
        except ValidationError as exc:
            first = exc.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise SettingsError(
                f"{NAME} reads recorded runs from its options, and {place} is none: {first['msg']}; "
                "`agentorchestra evolve tips` gives it those of the workspace"
            ) from None
        if not material.runs:
            raise SettingsError(f"{NAME} was given no runs to learn from; name some: `agentorchestra evolve tips RUN`")

    async def __call__(self, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
        """Ask for tips, write down those that rest on lines of the runs."""
        material = Material.model_validate(ctx.manifest.options)
        trust = min((run.trust for run in material.runs), key=lambda trust: trust.rank)
        about = "\n".join(dict.fromkeys(run.task for run in material.runs))
        system = describe_memory("workflow", WorkflowMemory)
        memory = SessionMemory(ctx, kit, spec.name, Happening(about, trust), system, leads=True)
        entries = await memory.read(about, kinds=("insight",), scope="workspace", limit=_MOST_INSIGHTS)
        questioner = Questioner(ctx, kit, spec.role, spec.model)
        values = {"most": MOST_TIPS, "known": len(entries), "retired": len(material.retired)}
        content = (*_run_blocks(material), *_entry_blocks(entries))
        reply = await questioner.one(Inquiry("distiller", _FORM, values, content, decides=True))
        if reply is None:
            status = limit_status(questioner.limited) if questioner.limited else RunStatus.FAILED
            reason = questioner.limited or "the model gave no tips in the form that was asked for, asked twice"
            return AgentResult(status=status, report=reason)
        made_of = [Happening(about, trust), *(Happening(entry.text, entry.trust) for entry in entries)]
        tips, refusals = await self._write_down(reply["tips"], material, entries, memory, made_of)
        output: JsonValue = {"tips": [tip.model_dump(mode="json") for tip in tips], "refused": [*refusals]}
        return AgentResult(answer=f"{len(tips)} written down", output=output)

    async def _write_down(
        self,
        written_tips: Sequence[dict[str, Any]],
        material: Material,
        entries: Sequence[Entry],
        memory: SessionMemory,
        made_of: Sequence[Happening],
    ) -> tuple[list[Tip], list[str]]:
        """Write tips down; return them, and why others were not."""
        tips: list[Tip] = []
        refusals: list[str] = []
        done = {plain(text) for text in material.retired}
        for tip in written_tips[:MOST_TIPS]:
            text, kind = " ".join(str(tip["text"]).split())[:LONGEST], tip["kind"]
            runs, evidence = _evidence(tip["evidence"], material)
            if not text or plain(text) in done:
                refusals.append(f"it was retired, or stands there already: {text}")
            elif not evidence:
                refusals.append(f"it rests on no line that was shown: {text}")
            elif kind == "solution" and not any(run.is_success for run in runs):
                refusals.append(f"a solution rests on a run that succeeded, and this one does not: {text}")
            else:
                done.add(plain(text))
                number = tip.get("same") or 0
                rows = enumerate(entries, start=1)
                same = [entry for place, entry in rows if place == number or plain(entry.text) == plain(text)]
                entry = await memory.write("insight", text, of=[*made_of, *same], same=same, evidence=evidence)
                ref = f"{memory.ctx.run.id}:{entry.id}"
                tips.append(Tip(ref=ref, kind=kind, text=text, evidence=evidence))
        return tips, refusals


_KIND = {"type": "string", "enum": ["tip", "solution"]}
_NUMBER = {"type": ["integer", "null"]} | {key: value for key, value in INTEGER.items() if key != "type"}
_FORM = form(
    ("tips",), tips=list_of(form(("kind", "text", "evidence"), kind=_KIND, text=TEXT, evidence=TEXTS, same=_NUMBER))
)


def _run_blocks(material: Material) -> list[TextBlock]:
    """Return runs as the model reads them, a block each, their lines numbered: `2.5` is line 5 of run 2."""
    blocks = []
    for number, run in enumerate(material.runs, start=1):
        score = "" if run.score is None else f", score {run.score:g} of 1"
        lines = [f"Run {number}: it ended {run.status.value}{score}", f"Its task: {run.task}"]
        lines += [f"[{number}.{place}] {line.text}" for place, line in enumerate(run.lines, start=1)]
        lines.append(f"Its answer: {run.answer or 'none'}")
        source = Source(kind="agent", ref=run.run)
        blocks.append(TextBlock(text="\n".join(lines), source=source, trust=run.trust))
    if material.retired:
        text = "\n".join(["Retired, because they were of no use:", *(f"- {text}" for text in material.retired)])
        blocks.append(TextBlock(text=text, source=Source(kind="memory", ref="retired"), trust=Trust.UNTRUSTED))
    return blocks


def _entry_blocks(entries: Sequence[Entry]) -> list[TextBlock]:
    return [
        TextBlock(text=f"[known {number}] {entry.text}", source=Source(kind="memory", ref="insight"), trust=entry.trust)
        for number, entry in enumerate(entries, start=1)
    ]


def _evidence(places: Sequence[Any], material: Material) -> tuple[list[RunReport], tuple[str, ...]]:
    """Return the runs that places such as `2.5` are of, and the keys there; places that there are not count nothing."""
    runs: list[RunReport] = []
    texts: list[str] = []
    for place in places:
        run, _, line = str(place).strip(" []").partition(".")
        if not (run.isdigit() and line.isdigit() and 0 < int(run) <= len(material.runs)):
            continue
        report = material.runs[int(run) - 1]
        if 0 < int(line) <= len(report.lines):
            runs.append(report)
            texts.append(f"{report.run}{report.lines[int(line) - 1].key}")
    return runs, tuple(dict.fromkeys(texts))


def distiller() -> Agent:
    """Return the distiller as an agent; nobody delegates to it."""
    return Agent(
        name=NAME,
        description="Distils tips and solutions for later tasks from recorded runs.",
        prompt="distiller",
        role="summariser",
        max_steps=2,
        drive=Distiller(),
        within=(NAME,),
    )
