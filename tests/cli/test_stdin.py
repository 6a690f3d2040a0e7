"""What is piped in: the task, or a file of the task."""

from __future__ import annotations

from tests.cli.support import LEASE, QUESTION, WORKSPACE, Folder


def test_stdin_is_a_file_beside_a_task(folder: Folder) -> None:
    done = folder.call("run", QUESTION, "--json", stdin=LEASE.encode())
    assert (done.code, done.json["sources"][0]["source"]) == (0, "stdin.txt")
    assert "three months" in done.json["answer"]
    again = folder.call("run", QUESTION, "-f", "-", "-f", "lease.txt", "--json", stdin=b"The roof is new.\n")
    assert again.json["sources"][0]["source"] == "lease.txt"


def test_stdin_or_a_file_is_the_task(folder: Folder) -> None:
    assert folder.call("run", "-q", stdin=b"What is 2+2?").out.startswith("4 ")
    folder.write("task.txt", "What is 3+3?")
    quiet = folder.call("run", "--task-file", "task.txt", "-q")
    assert quiet.out.startswith("6 ")
    assert quiet.err == ""


def test_the_same_file_twice_is_one_file(folder: Folder) -> None:
    folder.run("run", QUESTION, "-f", "lease.txt", "-f", "./lease.txt", "-f", str(folder.path / "lease.txt"))
    (run,) = folder.run("runs", "--json").json
    assert run["files"] == ["lease.txt"]


def test_completion_of_commands_runs_and_files(folder: Folder) -> None:
    def completed(words: str) -> list[str]:
        folder.environment = {
            "_AGENTORCHESTRA_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        }
        done = folder.call()
        folder.environment = {}
        return done.out.split()

    assert completed("agentorchestra show ru") == []
    assert not (folder.path / WORKSPACE).exists()
    folder.run("run", "What is 2+2?")
    assert completed("agentorchestra ru") == ["plain,run", "plain,runs"]
    assert completed("agentorchestra show ru") == [f"plain,{folder.ids()[0]}"]
    assert completed("agentorchestra show la") == ["plain,last"]
    assert completed("agentorchestra run x --file l") == ["file,l"]
    for shell in ("zsh", "fish"):
        assert "_AGENTORCHESTRA_COMPLETE" in folder.run("completion", shell).out
