"""A model that answers from what stands in each request, words, pixels and samples, and sources that hold facts."""

from __future__ import annotations

import io
import json
import re
import subprocess
import tempfile
import wave
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageOps

from agentorchestra.core.messages import Message, ModelRequest, ModelResponse
from agentorchestra.core.settings import ModelProfile, Price
from agentorchestra.testing import ScriptedModel, call, decide, say
from tests.files import makers

PALETTE = [
    *((230, 25, 75), (60, 180, 75), (255, 225, 25), (0, 90, 200), (245, 130, 48)),
    *((145, 30, 180), (0, 0, 0), (128, 128, 0), (128, 128, 128), (250, 120, 230)),
]
"""The colour of each digit."""

ACUTE = 8
"""Pixels that a digit's square must have to be told by its colour."""


class Reader(ScriptedModel):
    """Knows nothing: the code of a town is what the request shows of it.

    Args:
        profile: what it takes besides words.

    Attributes:
        asked: for each request the first words of its system prompt.
        given: the media types it was given, a list for each request that held any.
    """

    def __init__(self, name: str = "reader", **profile: Any) -> None:
        said = ModelProfile(model=name, price=Price(input=0, output=0), **{"vision": False, "audio": False, **profile})
        super().__init__(self.reply, name=name, profile=said)
        self.asked: list[str] = []
        self.given: list[list[str]] = []
        self._bytes: list[tuple[str, bytes]] = []

    async def request(self, request: ModelRequest, *, media: Any = None, on_delta: Any = None) -> ModelResponse:
        blocks = [block for message in request.messages for block in message.media]
        said = self.profile
        takes = {"image": said.vision, "audio": said.audio, "video": said.video, "application": said.document}
        assert all(takes[block.media_type.partition("/")[0]] for block in blocks)
        self._bytes = [(block.media_type, await media(block.sha256)) for block in blocks]
        if blocks:
            self.given.append([block.media_type for block in blocks])
        return await super().request(request, media=media, on_delta=on_delta)

    def reply(self, request: ModelRequest) -> ModelResponse:
        system, material = request.messages[0].text, request.messages[-1].text
        self.asked.append(" ".join(re.sub(r"<\w+>", "", system).split()[:6]))
        if request.tools:
            return self.act(request)
        asked = {
            "Say whether a file holds a table": self.kind,
            "You read one part": self.chunk,
            "You read a file": self.chunk,
            "You answer a question about tables": self.program,
            "You look at pictures": self.look,
            "You say what follows": self.conclusion,
            "You judge for an analyst": self.round,
        }
        name = next(one for start, one in asked.items() if start in system)
        # The question stands in the user's message, before the material.
        return say(json.dumps(name(f"{system}\n{material}", material)))

    # -- the agent ---------------------------------------------------------------------------------------------------

    def act(self, request: ModelRequest) -> ModelResponse:
        """Asks the source that its metadata name, and answers with what it is told."""
        results = [message for message in request.messages if message.role == "tool"]
        told = request.messages[1].text
        task = section(told, "task")
        if results:
            return self.done(results[-1])
        names = re.findall(r"^(\S+) is of the kind", told, re.MULTILINE)
        names += re.findall(r"^Source (\S+), read already", told, re.MULTILINE)
        names += re.findall(r"^- (\S+) \([^()]*\), whole below", told, re.MULTILINE)
        assert names, "nothing says what there is"
        return decide(calls=[call("analyze_file", file=names[0], question=task)])

    def done(self, result: Message) -> ModelResponse:
        first, *others = [block for block in result.content if block.source is not None and block.source.ref]
        cited: list[Any] = [
            {"source": one.source.ref, "place": one.source.place, "quote": one.text}
            for one in others
            if one.source is not None and one.source.place and hasattr(one, "text")
        ]
        said = getattr(first, "text", "")
        if not re.fullmatch(r"\d{4}", said):
            return decide(calls=[call("done", answer="It is not there.", status="blocked")])
        quoted = [one for one in cited if said in one["quote"]]
        return decide(calls=[call("done", answer=said, sources=quoted[:1])])

    # -- questions ---------------------------------------------------------------------------------------------------

    def kind(self, system: str, material: str) -> Any:
        return {"kind": "table" if len(re.findall(r"^(?:\d+\t)?\S+\|\S+$", material, re.MULTILINE)) > 1 else "text"}

    def chunk(self, system: str, material: str) -> Any:
        """The sentence with the town's code, or with its id; of a row the cells."""
        town = town_of(system)
        for number, text in re.findall(r"\[(\d+)\] (.*?)(?=\n\[\d+\] |\Z)", material, re.DOTALL):
            stated = re.search(rf"code of {town} is (\d{{4}})", text) or re.search(
                rf"town: {town}; \w+ code: (\d{{4}})", text
            )
            if stated:
                found = {"fact": stated[0], "quote": stated[0], "piece": int(number)}
                return {"findings": [found], "answers": True, "answer": stated[1]}
            named = re.search(rf'<town id="(\w+)"><name>{town}</name></town>', text)
            if named:
                fact = f"{town} has the id {named[1]}"
                return {"findings": [{"fact": fact, "quote": named[0], "piece": int(number)}], "answers": False}
        return {"findings": [], "answers": False}

    def program(self, system: str, material: str) -> Any:
        """Looks the town up, by its id where that is known; it must have seen which column holds the codes."""
        heads = [json.loads(one) for one in re.findall(r"^(?:\[\d+\] )?(\[.*\])$", material, re.MULTILINE)]
        columns = [row.index("code") for row in heads if "code" in row]
        if not columns:
            return {"code": ""}
        known = re.search(r"has the id (\w+)", material)
        key = known[1] if known else town_of(system)
        lines = [
            "for rows in tables.values():",
            "    for row in rows:",
            f"        if {key!r} in row:",
            f"            print('the code is', row[{columns[0]}])",
        ]
        return {"code": "\n".join(lines)}

    def look(self, system: str, material: str) -> Any:
        """The digits that the pixels and samples hold."""
        heard = re.search(r"code is (\d{4})", material)
        if heard:
            return {"found": True, "answer": heard[1], "seen": heard[0]}
        for media_type, data in self._bytes:
            if media_type == "application/pdf":
                stated = re.search(rf"code of {town_of(system)} is (\d{{4}})", text_of_pdf(data))
                digits: Any = stated[1] if stated else next(filter(None, map(digits_seen, pictures_in(data))), None)
            elif media_type.startswith("audio/"):
                digits = digits_heard(data)
            elif media_type.startswith("video/"):
                digits = digits_seen(first_frame(data))
            else:
                digits = digits_seen(data)
            if isinstance(digits, str):
                return {"found": True, "answer": digits, "seen": f"the digits {digits}"}
            if isinstance(digits, list):
                return {
                    "found": False,
                    "seen": "something coloured, too small to tell",
                    "regions": self.regions(digits),
                }
        return {"found": False, "seen": ""}

    def regions(self, box: list[float]) -> list[list[float]]:
        """Where it wants to look closer: around what it saw."""
        return [[max(0, box[0] - 0.02), max(0, box[1] - 0.02), min(1, box[2] + 0.02), min(1, box[3] + 0.02)]]

    def conclusion(self, system: str, material: str) -> Any:
        printed = re.search(r"printed: the code is (\d{4})", material)
        return {"complete": bool(printed), "answer": printed[1] if printed else "", "missing": "the code"}

    def round(self, system: str, material: str) -> Any:
        """An answer that was read out of a source is one."""
        answer = re.search(r"answer of the round:\n(\d{4})\n", material)
        return {"go_on": not (answer and "analyze_file" in tried(material))}


def section(text: str, name: str) -> str:
    found = re.search(rf"<{name}>\n(.*?)\n</{name}>", text, re.DOTALL)
    return found[1] if found else ""


def tried(material: str) -> str:
    """What the judge is told was tried."""
    return material.partition("Tried:\n")[2]


def town_of(system: str) -> str:
    found = re.search(r"code of (\w+)\?", section(system, "question"))
    assert found, "the question is not there"
    return found[1]


# -- media ------------------------------------------------------------------------------------------------------------


def drawn(code: str, *, size: tuple[int, int] = (640, 400), square: int = 30, at: tuple[int, int] = (60, 60)) -> bytes:
    """Digits as coloured squares on white."""
    picture = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(picture)
    for index, digit in enumerate(code):
        left = at[0] + 2 * index * square
        pen.rectangle((left, at[1], left + square - 1, at[1] + square - 1), fill=PALETTE[int(digit)])
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


def digits_seen(data: bytes) -> str | list[float] | None:
    """The digits, or where they are if they are too small, or None where there are none."""
    picture = Image.open(io.BytesIO(data)).convert("RGB")
    box = ImageOps.invert(picture.convert("L")).point(lambda value: 255 if value > 25 else 0).getbbox()
    if box is None:
        return None
    left, top, right, bottom = box
    if bottom - top < ACUTE:
        return [left / picture.width, top / picture.height, right / picture.width, bottom / picture.height]
    found = ""
    for index in range(4):
        pixel: Any = picture.getpixel((int(left + (right - left) * (2 * index + 0.5) / 7), (top + bottom) // 2))
        distances = [sum((a - b) ** 2 for a, b in zip(pixel, one, strict=True)) for one in PALETTE]
        found += str(distances.index(min(distances)))
    return found


def spoken(code: str) -> bytes:
    """Digits as levels, a quarter of a second each."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        for digit in code:
            file.writeframes((1000 + 1000 * int(digit)).to_bytes(2, "little") * 2000)
    return out.getvalue()


def digits_heard(data: bytes) -> str:
    with wave.open(io.BytesIO(data)) as file:
        frames = file.readframes(8000)
    at = [int.from_bytes(frames[4000 * index + 2000 : 4000 * index + 2002], "little") for index in range(4)]
    return "".join(str((one - 1000) // 1000) for one in at)


def filmed(code: str) -> bytes:
    """Two seconds of the digits."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "one.png").write_bytes(drawn(code))
        made = ["-loop", "1", "-i", "one.png", "-t", "2", "-r", "5", "-pix_fmt", "yuv420p", "film.mp4"]
        subprocess.run(["ffmpeg", "-v", "error", "-y", *made], check=True, cwd=folder, stdin=subprocess.DEVNULL)
        return (Path(folder) / "film.mp4").read_bytes()


def first_frame(data: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "film.mp4").write_bytes(data)
        made = ["-i", "film.mp4", "-frames:v", "1", "one.png"]
        subprocess.run(["ffmpeg", "-v", "error", "-y", *made], check=True, cwd=folder, stdin=subprocess.DEVNULL)
        return (Path(folder) / "one.png").read_bytes()


def printed(*pages: str, picture: bytes = b"") -> bytes:
    from fpdf import FPDF

    document = FPDF()
    for text in pages or ("",):
        document.add_page()
        document.set_font("helvetica", size=12)
        if text:
            document.multi_cell(0, 8, text)
        if picture:
            document.image(io.BytesIO(picture), w=160)
    return bytes(document.output())


def text_of_pdf(data: bytes) -> str:
    from pypdf import PdfReader

    return "\n".join(page.extract_text() for page in PdfReader(io.BytesIO(data)).pages)


def pictures_in(data: bytes) -> list[bytes]:
    from pypdf import PdfReader

    return [one.data for page in PdfReader(io.BytesIO(data)).pages for one in page.images]


# -- sources ----------------------------------------------------------------------------------------------------------


def source_of(kind: str, town: str, code: str) -> bytes:
    """A source of a type that holds the code of a town among others."""
    others = [(f"Town{number}", str(1000 + number)) for number in range(12)]
    rows = [["town", "people", "code"], *([name, "900", said] for name, said in [*others, (town, code)])]
    said = [f"The code of {name} is {value}." for name, value in [*others, (town, code)]]
    text = "\n\n".join(said)
    if kind in ("txt", "md"):
        return text.encode()
    if kind == "csv":
        return "\n".join(",".join(row) for row in rows).encode()
    if kind == "xlsx":
        return makers.xlsx({"Notes": [["nothing"], ["here"]], "Codes": rows})
    if kind == "docx":
        return makers.docx(said)
    if kind == "pptx":
        return makers.pptx([(f"Slide {number}", one) for number, one in enumerate(said)])
    if kind == "pdf":
        return printed(*said)
    if kind == "html":
        return f"<html><body><h1>Codes</h1>{''.join(f'<p>{one}</p>' for one in said)}</body></html>".encode()
    if kind == "xml":
        return f"<?xml version='1.0'?><codes>{''.join(f'<p>{one}</p>' for one in said)}</codes>".encode()
    if kind == "json":
        return json.dumps({"notes": said}, indent=1).encode()
    if kind == "zip":
        return makers.zipped({"a/readme.md": "# Codes", "a/codes.txt": text})
    if kind == "joined":
        towns = [(f"T{number:02}", name) for number, (name, _) in enumerate([*others, (town, code)])]
        xml = "\n".join(f'<town id="{one}"><name>{name}</name></town>' for one, name in towns)
        codes = [
            ["id", "code"],
            *([one, value] for (one, _), (_, value) in zip(towns, [*others, (town, code)], strict=True)),
        ]
        return makers.zipped(
            {
                "towns.xml": f"<?xml version='1.0'?>\n<towns>\n{xml}\n</towns>",
                "codes.xlsx": makers.xlsx({"Codes": codes}),
            }
        )
    raise ValueError(kind)
