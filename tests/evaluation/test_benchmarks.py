"""Benchmarks are read from their own formats; what is missing, damaged or of another version is refused."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from agentorchestra.core.errors import EvaluationError, MissingExtraError
from agentorchestra.evaluation.benchmarks import gpqa
from agentorchestra.evaluation.benchmarks.data import need, rows
from agentorchestra.evaluation.plan import Arm, make_plan
from agentorchestra.evaluation.questions import SOURCES, QuestionSet, load_set
from tests.evaluation import benchmark_data

pytestmark = pytest.mark.long  # inspect-evals takes seconds to import


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pictures be written here."""
    monkeypatch.setattr("inspect_evals.constants.INSPECT_EVALS_CACHE_PATH", tmp_path / "cache")


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str], QuestionSet]:
    def load(name: str) -> QuestionSet:
        return load_set(name, benchmark_data.WRITERS[name](tmp_path / name))

    return load


def test_every_set_of_a_benchmark_has_its_fixture() -> None:
    assert set(SOURCES) - {"local"} == set(benchmark_data.WRITERS)


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_gaia_in_both_of_its_formats(suffix: str, tmp_path: Path) -> None:
    top = benchmark_data.gaia(tmp_path, suffix=suffix)
    found = load_set("gaia-validation", top)
    first, second, third = found.questions
    assert [one.group for one in found.questions] == ["level 1", "level 2", "level 3"]
    assert [one.truth for one in found.questions] == ["17", "sea green", "Ammel, Zo"]
    assert first.task.endswith("Here is the question:\n\nHow many jars stand on the shelf in the attached list?")
    assert "number, or a short phrase" in first.task and "shared_files" not in first.task
    assert [one.name for one in first.files] == ["00000001-aaaa-4aaa-8aaa-000000000001.csv"]
    assert second.files == third.files == ()
    # The folder of the split will do as well, and is the same set.
    assert load_set("gaia-validation", top / "2023" / "validation").version == found.version


def test_questions_with_media_by_their_kinds(tmp_path: Path) -> None:
    names = ["a.mp3", "b.PNG", "c.jpg", "d.xlsx", "e.csv", "f.pdf", "g.py", ""]
    records = [
        benchmark_data.gaia_records()[0] | {"task_id": f"q{number}", "file_name": name}
        for number, name in enumerate(names)
    ]
    for name in filter(None, names):
        (tmp_path / name).write_bytes(b"x")
    benchmark_data.table(tmp_path / "metadata.jsonl", records)
    found = load_set("gaia-media", tmp_path)
    assert [(one.id, one.group) for one in found.questions] == [
        *(("q0", "audio"), ("q1", "image"), ("q2", "image")),
        *(("q3", "tables"), ("q4", "tables")),
    ]
    assert (found.name, found.scorer) == ("gaia-media", "gaia")


def test_the_test_split_has_no_true_answers(read: Callable[[str], QuestionSet]) -> None:
    assert [one.truth for one in read("gaia-test").questions] == [None] * 3


def test_what_the_annotators_wrote_is_in_no_task(read: Callable[[str], QuestionSet]) -> None:
    for name in benchmark_data.WRITERS:
        for one in read(name).questions:
            assert "CANARY" not in one.task, name


def test_simpleqa_asks_the_bare_question(read: Callable[[str], QuestionSet]) -> None:
    one = read("simpleqa").questions[0]
    assert (one.task, one.truth, one.group) == ("What is the capital of Varn?", "Orsolo", "Geography")


def test_browsecomp_is_decrypted_with_its_canary(read: Callable[[str], QuestionSet], tmp_path: Path) -> None:
    one = read("browsecomp").questions[0]
    assert one.metadata["question"] == "Which painter of Varn signed with a heron and was born after 1640?"
    assert one.truth == "Tilda Öst"
    assert "Exact Answer:" in one.task and str(one.metadata["question"]) in one.task
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and b"heron" in file.read_bytes()]


def test_pictures_of_hle_are_files_of_the_question(read: Callable[[str], QuestionSet]) -> None:
    found = read("hle")
    first, second, _ = found.questions
    assert first.files[0].suffix == ".png" and first.files[0].read_bytes().startswith(b"\x89PNG")
    assert second.files == () and second.truth == "11"
    assert second.task.startswith("How many points has the star of Varn?\n\n") and "Confidence:" in second.task


def test_the_choices_of_gpqa_are_shuffled_and_the_order_recorded(read: Callable[[str], QuestionSet]) -> None:
    found = read("gpqa-diamond")
    again = read("gpqa-diamond")
    assert found.version == again.version
    orders = [one.metadata["order"] for one in found.questions]
    assert any(order != [0, 1, 2, 3] for order in orders)
    for one in found.questions:
        order = one.metadata["order"]
        assert isinstance(order, list) and sorted(map(str, order)) == ["0", "1", "2", "3"]
        assert one.truth == "ABCD"[order.index(0)] and one.metadata["seed"] == gpqa.SEED
    first = found.questions[0]
    assert f"{first.truth}) 3 s\n" in f"{first.task}\n" and "{in vacuum}" in first.task


def test_another_seed_is_another_order_and_another_version(tmp_path: Path) -> None:
    data = benchmark_data.gpqa(tmp_path)
    usual, other = load_set("gpqa-diamond", data), load_set("gpqa-diamond", data, 7)
    assert [one.metadata["seed"] for one in other.questions] == [7] * 3
    assert [one.metadata["order"] for one in other.questions] != [one.metadata["order"] for one in usual.questions]
    assert other.version != usual.version == load_set("gpqa-diamond", data, gpqa.SEED).version
    plan = make_plan(other, [Arm(name="a")], data=str(data), choices_seed=7)
    assert plan.load().version == other.version
    with pytest.raises(
        EvaluationError, match="aime-2024 has no choices to shuffle; leave --choices-seed out, which is"
    ):
        load_set("aime-2024", data, 7)


@pytest.mark.parametrize(("name", "truths"), [("aime-2024", ["41", "42", "43"]), ("aime-2025", ["90", "91", "92"])])
def test_aime(name: str, truths: list[str], read: Callable[[str], QuestionSet]) -> None:
    found = read(name)
    assert [one.truth for one in found.questions] == truths
    assert "ANSWER: $ANSWER" in found.questions[0].task and "{prompt}" not in found.questions[0].task


# --- bad input ----------------------------------------------------------------------------------------


def test_a_missing_attachment_is_named(tmp_path: Path) -> None:
    top = benchmark_data.gaia(tmp_path)
    whole = load_set("gaia-validation", top)
    before = whole.version
    (top / "2023/validation/00000001-aaaa-4aaa-8aaa-000000000001.csv").unlink()
    found = load_set("gaia-validation", top)
    ((name, why),) = found.faults.items()
    assert name == whole.questions[0].id
    assert re.search(r"000000000001\.csv of the question '00000001-.*' is not there, or cannot be read; put it", why)
    assert found.version != before


def test_an_attachment_outside_of_the_folder_is_not_read(tmp_path: Path) -> None:
    records = benchmark_data.gaia_records()
    records[0]["file_name"] = "../secret.csv"
    (tmp_path / "secret.csv").write_text("x", encoding="utf-8")
    benchmark_data.table(tmp_path / "set" / "metadata.jsonl", records)
    (why, *_) = load_set("gaia-validation", tmp_path / "set").faults.values()
    assert "set/secret.csv of the question" in why


def test_metadata_of_another_version_are_refused(tmp_path: Path) -> None:
    records = [{key: value for key, value in one.items() if key != "Level"} for one in benchmark_data.gaia_records()]
    benchmark_data.table(tmp_path / "metadata.jsonl", records)
    with pytest.raises(EvaluationError, match=r"has no column 'Level', so it is another set than gaia-validation, or"):
        load_set("gaia-validation", tmp_path)


def test_a_folder_without_the_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match=r"has neither metadata\.parquet nor metadata\.jsonl; name a copy of the"):
        load_set("gaia-validation", tmp_path)
    with pytest.raises(
        EvaluationError, match=r"holds no table \(\.csv, \.jsonl, \.parquet\); name the one of simpleqa"
    ):
        load_set("simpleqa", tmp_path)
    with pytest.raises(EvaluationError, match=r"there is no .*nowhere; name the file or folder with the data of hle"):
        load_set("hle", tmp_path / "nowhere")


def test_of_questions_with_one_id_the_first_is_asked(tmp_path: Path) -> None:
    records = benchmark_data.gaia_records()
    records[2]["task_id"] = records[1]["task_id"]
    benchmark_data.table(tmp_path / "metadata.jsonl", [{**one, "file_name": ""} for one in records])
    found = load_set("gaia-validation", tmp_path)
    second, third = [one.id for one in found.questions][1:]
    assert third == f"{second}~2"
    assert found.faults == {third: f"the id {second!r} stands in the set before; give each question its own id"}


def test_an_empty_set_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_text("\n", encoding="utf-8")
    with pytest.raises(
        EvaluationError, match="the set aime-2025 holds no question; look whether its data are complete"
    ):
        load_set("aime-2025", tmp_path)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("browsecomp", "problem", "bm90IGVuY3J5cHRlZCB3aXRoIGl0"),  # another canary
        ("simpleqa", "metadata", "[1]"),
        ("aime-2025", "answer", "about 90"),
        ("hle", "image", "data:image/png;base64,%%%"),
    ],
)
def test_a_damaged_row_is_named(name: str, field: str, value: str, tmp_path: Path) -> None:
    written = benchmark_data.WRITERS[name](tmp_path)
    records = rows(written, (), name=name) if written.suffix != ".parquet" else _parquet(written)
    records[1][field] = value
    found = load_set(name, benchmark_data.table(written, records))
    assert found.questions[1].id == "row 2"
    ((_, why),) = found.faults.items()
    assert re.match(rf"row 2 of {name} cannot be read \(.*\); it is damaged, or of another", why)
    for one in records:
        one[field] = value
    with pytest.raises(EvaluationError, match=rf"row 1 of {name} cannot be read \(.*\); it is damaged, or of another"):
        load_set(name, benchmark_data.table(written, records))


def _parquet(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = need("pyarrow.parquet").read_table(path).to_pylist()
    return found


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    for name, content in (("x.parquet", b"no table"), ("x.csv", b"\xff\xfe\xff")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(EvaluationError, match=r"cannot be read \(.*\); load it down again, or name another one"):
            load_set("simpleqa", tmp_path / name)
    with pytest.raises(EvaluationError, match=r"holds 2 tables \(x\.csv, x\.parquet\).*; name the one of simpleqa"):
        load_set("simpleqa", tmp_path)


# --- the hub ------------------------------------------------------------------------------------------


Reply = tuple[int, dict[str, str], bytes]
"""Status, headers and body."""


@contextmanager
def _server(reply: Callable[[str], Reply]) -> Iterator[str]:
    """Give the address of a server whose replies depend on the path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = reply(self.path)
            self.send_response(status)
            for key, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_a_table_comes_from_its_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = benchmark_data.gpqa(tmp_path).read_bytes()
    replies: dict[str, Reply] = {"/there.csv": (200, {}, content)}
    monkeypatch.setattr("inspect_evals.gpqa.gpqa.GPQA_DIAMOND_CACHE_PATH", tmp_path / "cache" / "gpqa.csv")
    with _server(lambda path: replies.get(path, (404, {}, b""))) as address:
        for path, why in (("/gone.csv", "404 Not Found"), ("/there.csv", "Checksum mismatch")):
            monkeypatch.setattr("inspect_evals.gpqa.gpqa.GPQA_DIAMOND_DATASET_URL", address + path)
            with pytest.raises(
                EvaluationError, match=rf"(?s)cannot be loaded down \(.*{why}.*name the file with --data"
            ):
                load_set("gpqa-diamond")
        checksum = hashlib.sha256(content).hexdigest()
        monkeypatch.setattr("inspect_evals.gpqa.gpqa.GPQA_DIAMOND_DATASET_SHA256", checksum)
        assert len(load_set("gpqa-diamond").questions) == 3


def test_without_the_extra_its_command_is_named() -> None:
    with pytest.raises(
        MissingExtraError, match=r"need the extra `eval` \(.*\); install it: pip install 'agentorchestra\["
    ):
        need("inspect_evals.nowhere")


def _from_hub(name: str, reply: Callable[[str], Reply], folder: Path) -> str:
    """Load a set in a process of its own, whose hub is a server here; return what it prints."""
    code = (
        "from agentorchestra.core.errors import EvaluationError\n"
        "from agentorchestra.evaluation.questions import load_set\n"
        f"try: print([one.truth for one in load_set({name!r}).questions])\n"
        "except EvaluationError as exc: print(exc)\n"
    )
    with _server(reply) as address:
        environ = {**os.environ, "HF_ENDPOINT": address, "HF_HOME": str(folder), "HF_TOKEN": ""}
        environ |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}
        done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_gated_set_says_how_to_get_access(tmp_path: Path) -> None:
    said = _from_hub("gaia-validation", lambda _: (403, {"X-Error-Code": "GatedRepo"}, b"{}"), tmp_path)
    assert "the hub does not give gaia-benchmark/GAIA to you" in said
    assert (
        "log in at https://huggingface.co/datasets/gaia-benchmark/GAIA, accept its conditions, and set HF_TOKEN" in said
    )
    assert said.endswith("or name a copy with --data")


def test_a_set_comes_from_the_hub(tmp_path: Path) -> None:
    content = benchmark_data.aime_2025(tmp_path / "there").read_bytes()
    commit = "563bb8404243c5f09de6ec262f2db674fe5bce9b"
    listed = {"id": "math-ai/aime25", "sha": commit, "siblings": [{"rfilename": "test.jsonl", "size": len(content)}]}

    def reply(path: str) -> Reply:
        if path.startswith("/api/datasets/math-ai/aime25/tree"):
            entry = {"type": "file", "path": "test.jsonl", "oid": "0" * 40, "size": len(content)}
            return 200, {"Content-Type": "application/json"}, json.dumps([entry]).encode()
        if path.startswith("/api/datasets/math-ai/aime25"):
            return 200, {"Content-Type": "application/json"}, json.dumps(listed).encode()
        if path.partition("?")[0].endswith(f"/resolve/{commit}/test.jsonl"):
            return 200, {"X-Repo-Commit": commit, "ETag": '"' + "0" * 40 + '"'}, content
        return 404, {}, b""

    assert _from_hub("aime-2025", reply, tmp_path / "cache") == "['90', '91', '92']"


def test_what_the_hub_does_not_have_is_said(tmp_path: Path) -> None:
    said = _from_hub("aime-2024", lambda _: (404, {"X-Error-Code": "RevisionNotFound"}, b""), tmp_path)
    assert said.startswith("Maxwell-Jia/AIME_2024 cannot be loaded from the hub (")
    assert "(revision 8d88b2876a82a080e2f172cc9b25d0d9d2cb4792) and name its folder with --data" in said
