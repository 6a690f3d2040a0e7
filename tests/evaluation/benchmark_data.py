"""Three invented questions for each benchmark, written in the format in which it is published."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from PIL import Image

from agentorchestra.evaluation.benchmarks.data import need


def table(path: Path, records: Sequence[dict[str, Any]]) -> Path:
    """Write records as .csv, .jsonl or .parquet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        stream = io.StringIO()
        writer = csv.DictWriter(stream, list(records[0]))
        writer.writeheader()
        writer.writerows(records)
        path.write_text(stream.getvalue(), encoding="utf-8")
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    else:
        need("pyarrow.parquet").write_table(need("pyarrow").Table.from_pylist(list(records)), path)
    return path


def gaia_records() -> list[dict[str, Any]]:
    asked = [
        ("How many jars stand on the shelf in the attached list?", "17", "jars.csv"),
        ("Which colour has the gate of the mill in the tale of Orsolo?", "sea green", ""),
        ("Name the two rivers of Varn, in the order of the alphabet, with a comma between.", "Ammel, Zo", ""),
    ]
    return [
        {
            "task_id": f"0000000{number}-aaaa-4aaa-8aaa-00000000000{number}",
            "Question": question,
            "Level": str(number),
            "Final answer": answer,
            "file_name": f"0000000{number}-aaaa-4aaa-8aaa-00000000000{number}.csv" if file else "",
            "file_path": "",
            "Annotator Metadata": {"Steps": f"1. Look. CANARY-{number}", "Number of steps": "1"},
        }
        for number, (question, answer, file) in enumerate(asked, start=1)
    ]


def gaia(folder: Path, split: str = "validation", suffix: str = ".parquet") -> Path:
    """Write a copy of the dataset; return its top folder."""
    records = gaia_records()
    place = folder / "2023" / split
    for one in records:
        if split == "test":
            one["Final answer"] = "?"
        if one["file_name"]:
            place.mkdir(parents=True, exist_ok=True)
            (place / one["file_name"]).write_text("jar,where\n" + "a,shelf\n" * 17, encoding="utf-8")
    table(place / f"metadata{suffix}", records)
    if suffix == ".parquet":  # the hub has a table for each level besides
        for number, one in enumerate(records, start=1):
            table(place / f"metadata.level{number}{suffix}", [one])
    return folder


def gaia_media(folder: Path) -> Path:
    """Write a copy of the dataset whose questions have a table, a picture and a table."""
    records = gaia_records()
    place = folder / "2023" / "validation"
    place.mkdir(parents=True)
    for one, suffix in zip(records, (".csv", ".png", ".csv"), strict=True):
        one["file_name"] = one["task_id"] + suffix
        if suffix == ".png":
            Image.new("RGB", (4, 4), "seagreen").save(place / one["file_name"])
        else:
            (place / one["file_name"]).write_text("jar,where\n" + "a,shelf\n" * 17, encoding="utf-8")
    table(place / "metadata.jsonl", records)
    return folder


def simpleqa(folder: Path) -> Path:
    notes = {"topic": "Geography", "answer_type": "Place", "urls": ["https://maps.example/varn"]}
    asked = [("What is the capital of Varn?", "Orsolo"), ("Who built it?", "Ida Marl"), ("In which year?", "1204")]
    rows = [{"metadata": str(notes), "problem": question, "answer": answer} for question, answer in asked]
    return table(folder / "simple_qa_test_set.csv", rows)


def encrypted(text: str, password: str) -> str:
    key = cycle(hashlib.sha256(password.encode()).digest())
    return base64.b64encode(bytes(one ^ other for one, other in zip(text.encode(), key, strict=False))).decode()


def browsecomp(folder: Path) -> Path:
    canary = "invented canary 8f2c"
    asked = [
        ("Which painter of Varn signed with a heron and was born after 1640?", "Tilda Öst"),
        ("Which of her paintings was lost in the flood?", "The Ferry"),
        ("Who found its frame?", "Jon Bek"),
    ]
    rows = [
        {
            "problem": encrypted(question, canary),
            "answer": encrypted(answer, canary),
            "problem_topic": "Art",
            "canary": canary,
        }
        for question, answer in asked
    ]
    return table(folder / "browse_comp_test_set.csv", rows)


# One grey pixel.
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="


def hle(folder: Path) -> Path:
    rows = [
        {
            "id": f"66e8{number:020d}",
            "question": question,
            "image": image,
            "image_preview": None,
            "answer": answer,
            "answer_type": "exactMatch",
            "author_name": "nobody",
            "rationale": f"CANARY-{number}",
            "rationale_image": None,
            "raw_subject": "Heraldry",
            "category": "Humanities/Social Science",
            "canary": "invented",
        }
        for number, (question, image, answer) in enumerate(
            [
                ("Which animal is on the shield in the picture?", f"data:image/png;base64,{PICTURE}", "a heron"),
                ("How many points has the star of Varn?", "", "11"),
                ("Whose motto is 'Lente'?", "", "the millers'"),
            ],
            start=1,
        )
    ]
    return table(folder / "data" / "test-00000-of-00001.parquet", rows)


def gpqa(folder: Path) -> Path:
    rows = [
        {
            "Record ID": f"rec{number}",
            "Question": question,
            "Correct Answer": right,
            "Incorrect Answer 1": f"{right} twice",
            "Incorrect Answer 2": f"half of {right}",
            "Incorrect Answer 3": "none of these",
            "High-level domain": domain,
            "Subdomain": "invented",
            "Canary String": "invented",
        }
        for number, (question, right, domain) in enumerate(
            [
                ("How long does a Varn clock fall, {in vacuum}?", "3 s", "Physics"),
                ("What dissolves orsolite?", "water", "Chemistry"),
                ("What does the ferry moth eat?", "wool", "Biology"),
            ],
            start=1,
        )
    ]
    return table(folder / "gpqa_diamond.csv", rows)


def aime_2024(folder: Path) -> Path:
    rows = [
        {
            "ID": f"2024-III-{number}",
            "Problem": f"Find ${{a}} + {number}$ for $a = 40$.",
            "Solution": "CANARY",
            "Answer": 40 + number,
        }
        for number in (1, 2, 3)
    ]
    return table(folder / "aime_2024_problems.parquet", rows)


def aime_2025(folder: Path) -> Path:
    rows = [{"id": str(number), "problem": f"Find $90 + {number}$.", "answer": str(90 + number)} for number in range(3)]
    return table(folder / "test.jsonl", rows)


def terminal_bench(folder: Path) -> Path:
    """Write three tasks: two that run on any machine, and one that lies on an image, as most of the real ones do."""
    tasks = {
        "sort-jars": ("easy", "Sort the lines of jars.txt into sorted.txt.", "sort jars.txt | cmp - sorted.txt"),
        "count-jars": ("medium", "Write the number of lines of jars.txt into count.txt.", "grep -qx 3 count.txt"),
        "rebuild-kernel": ("hard", "Build the kernel in /kernel.", "test -f /kernel/built"),
    }
    for name, (difficulty, instruction, test) in tasks.items():
        lines = ['version = "1.0"', "[metadata]", f'difficulty = "{difficulty}"', "[agent]", "timeout_sec = 90.0"]
        lines += ["[verifier]", "timeout_sec = 60.0", "[environment]", "cpus = 1", 'memory = "2G"']
        machine = "FROM debian:12\nWORKDIR /app\nCOPY jars.txt ./\n"
        if name == "rebuild-kernel":
            lines.append('docker_image = "varn/rebuild-kernel:20251031"')
            machine = "FROM debian:12\nRUN apt-get install make\nWORKDIR /app\n"
        texts = {
            "task.toml": "\n".join(lines) + "\n",
            "instruction.md": f"{instruction}\n",
            "environment/Dockerfile": machine,
            "environment/jars.txt": "plum\napple\nfig\n",
            "solution/solve.sh": "echo CANARY\n",
            "tests/test.sh": f"{test} && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n",
        }
        for path, text in texts.items():
            (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / name / path).write_text(text, encoding="utf-8")
    return folder


BASE = "0" * 40
"""The commit of an issue where no repository is made."""


def swe_bench(folder: Path, base: str = BASE, suffix: str = ".parquet") -> Path:
    """Write the table of three issues; their images are left to the test."""
    issues = [
        ("varn__jars-17", "Jars are counted twice", "<15 min fix"),
        ("varn__jars-18", "An empty shelf is an error", "15 min - 1 hour"),
        ("varn__mill-3", "The gate has no colour", "<15 min fix"),
    ]
    rows = [
        {
            "instance_id": name,
            "repo": name.rpartition("-")[0].replace("__", "/"),
            "base_commit": base,
            "patch": "CANARY",
            "test_patch": "CANARY",
            "problem_statement": f"{issue}\n\n`count()` gives {{n}}.",
            "hints_text": "CANARY",
            "created_at": "2020-01-01T00:00:00Z",
            "version": "1.0",
            "FAIL_TO_PASS": '["test_count"]',
            "PASS_TO_PASS": "[]",
            "environment_setup_commit": base,
            "difficulty": difficulty,
        }
        for name, issue, difficulty in issues
    ]
    table(folder / f"test-00000-of-00001{suffix}", rows)
    return folder


WRITERS = {
    "gaia-validation": gaia,
    "gaia-media": gaia_media,
    "gaia-test": lambda folder: gaia(folder, "test"),
    "simpleqa": simpleqa,
    "browsecomp": browsecomp,
    "hle": hle,
    "gpqa-diamond": gpqa,
    "aime-2024": aime_2024,
    "aime-2025": aime_2025,
    "terminal-bench-2": terminal_bench,
    "swe-bench-verified": swe_bench,
}
"""What writes each set; it returns what `--data` is."""
