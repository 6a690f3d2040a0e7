"""The command line over a workspace whose log is in PostgreSQL."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module

import pytest

from tests.cli.support import APP_SETTINGS, LEASE, QUESTION, Folder, wait_until
from tests.postgres import PASSWORD, USER, Postgres
from tests.s3 import SECRET, Bucket, bucket


@pytest.fixture(autouse=True)
def registered() -> None:
    """Begin without the packaged components: these databases are elsewhere."""


@pytest.fixture
def remote(folder: Folder, server: Postgres, schema: str) -> Folder:
    """The log in a schema of its own; the password comes from the environment."""
    folder.with_app(f'database = "{server.tcp(password=None)}"\ndatabase_schema = "{schema}"\n{APP_SETTINGS}')
    folder.environment["PGPASSWORD"] = PASSWORD
    return folder


def test_from_a_question_to_its_answer(remote: Folder, server: Postgres, schema: str) -> None:
    assert remote.run("runs", "--json").json == []
    asked = remote.run("run", "PLAN ask", "--json")
    assert (asked.code, asked.json["status"]) == (3, "waiting"), asked.err
    run = asked.json["run_id"]
    assert [one["run_id"] for one in remote.run("runs", "--json").json] == [run]
    answered = remote.run("answer", run, "green", "--json")
    assert answered.json["answer"] == "The tools said: green", answered.err
    assert "green" in remote.run("show", "last").out
    assert remote.run("replay", "last").code == 0
    remote.assert_readable(run)
    # The folder keeps files only.
    assert not (remote.workspace / "workspace.db").exists()
    assert remote.workspace.stat().st_mode & 0o777 == 0o700
    assert server.sql(f"select count(*), min(status) from {schema}.runs") == "1|completed"


@pytest.mark.long
def test_tail_is_told_by_another_process(
    remote: Folder, server: Postgres, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads nothing by itself here: the store tells it of all that it prints after the answer."""
    monkeypatch.setattr(import_module("agentorchestra.cli.commands.tail"), "LOOK_S", 1e6)
    run = remote.run("run", "PLAN ask", "--json").json["run_id"]
    assert remote.run("answer", run, "blue", "--no-resume").code == 0
    server.sql(f"update {schema}.runs set status = 'created'")  # so that it is followed before it goes on
    codes: list[int] = []

    def resume() -> None:
        looks = "select count(*) from pg_stat_activity where query like 'SELECT runs.id, runs.next_seq%'"
        wait_until(lambda: server.sql(looks) == "1")
        with remote.start("resume", run) as other:
            codes.append(other.end().code)

    resuming = threading.Thread(target=resume)
    resuming.start()
    followed = remote.run("tail", run)
    resuming.join(60)
    assert (followed.code, codes) == (0, [0]), followed.err
    assert followed.out.splitlines()[-1].startswith(f"completed, {run}, ")


@pytest.mark.long
def test_files_are_read_again_by_the_next_process(remote: Folder) -> None:
    remote.write("lease.txt", LEASE)
    done = remote.run("run", QUESTION, "-f", "lease.txt", "--model", "offline", "--system", "agentorchestra", "--json")
    assert "three months" in done.json["answer"], done.err


def test_the_address_from_the_environment_wins(folder: Folder, server: Postgres, schema: str) -> None:
    folder.write("agentorchestra.toml", 'database = "postgresql://nobody@127.0.0.1:9/nothing"\n')
    folder.environment["AGENTORCHESTRA_DATABASE"] = server.url
    folder.environment["AGENTORCHESTRA_DATABASE_SCHEMA"] = schema
    assert folder.run("run", QUESTION, "-f", "lease.txt").code == 0
    assert server.sql(f"select count(*) from {schema}.runs") == "1"


def test_the_password_is_nowhere_in_the_log(remote: Folder, server: Postgres, schema: str) -> None:
    assert remote.run("run", f"PLAN escape {PASSWORD}", "--json").code == 0
    shown = remote.run("show", "last", "--json").out
    assert PASSWORD not in shown and "secret:database" in shown
    assert server.sql(f"select count(*) from {schema}.runs where manifest like '%staple%'") == "0"
    assert server.sql(f"select count(*) from {schema}.events where body like '%staple%'") == "0"


@pytest.fixture
def bucketed(remote: Folder, schema: str) -> Iterator[tuple[Folder, Bucket]]:
    """Artifacts in a bucket, its keys from the environment; copies of the folder are not looked at."""
    with bucket() as s3:
        remote.environment.update(s3.environ)
        remote.environment["AGENTORCHESTRA_ARTIFACTS"] = f"s3://{s3.name}/{schema}"
        remote.environment["AGENTORCHESTRA_DATABASE_RETRY_S"] = "0"
        yield remote, s3


@pytest.mark.long
def test_doctor_looks_at_the_artifacts(bucketed: tuple[Folder, Bucket], schema: str) -> None:
    folder, s3 = bucketed
    folder.write("lease.txt", LEASE * 1000)
    place = f"s3://{s3.name}/{schema}"

    def check(name: str, *words: str) -> tuple[str, str]:
        done = folder.run("doctor", "--json", *words)
        assert SECRET not in done.out
        (found,) = [one for one in done.json["checks"] if one["name"] == name]
        return found["status"], f"{found['detail']}; {found['hint']}"

    assert check("artifacts") == ("ok", f"{place} answers; ")
    assert s3.objects(schema) == {}, "nothing is written"
    words = ("-f", "lease.txt", "--model", "offline", "--system", "agentorchestra", "--json")
    done = folder.run("run", QUESTION, *words)
    assert "three months" in done.json["answer"], done.err
    assert check("artifacts") == ("ok", f"{place} answers; ")
    assert check("log", "--deep")[0] == "ok"
    given = next(key for key, data in s3.objects(schema).items() if data == (LEASE * 1000).encode())
    s3.put(given, b"something else")
    status, said = check("log", "--deep")
    assert status == "fail" and "was changed after it was written" in said and done.json["run_id"] in said
    folder.environment["AGENTORCHESTRA_ARTIFACTS"] = "s3://elsewhere"
    status, said = check("artifacts")
    assert (status, said) == (
        "fail",
        f"those of the database lie at {place}, and the settings name s3://elsewhere; "
        f'set `artifacts = "{place}"`, or move them as docs/stores.md says',
    )
    refused = folder.run("runs")
    assert refused.code == 2 and f"lie at {place}, and the settings name s3://elsewhere" in refused.error
    folder.environment["AGENTORCHESTRA_ARTIFACTS"] = place
    s3.answer = 403
    assert check("artifacts")[1].startswith(f"the artifacts at {place} cannot be used: the store refuses these keys")
    s3.answer = None


@pytest.mark.long
def test_what_is_copied_and_collected_in_a_bucket(bucketed: tuple[Folder, Bucket], schema: str) -> None:
    folder, s3 = bucketed
    folder.write("lease.txt", LEASE * 1000)
    words = ("-f", "lease.txt", "--model", "offline", "--system", "agentorchestra", "--json")
    run = folder.run("run", QUESTION, *words).json["run_id"]
    refused = folder.run("backup", "copy")
    assert refused.code == 2
    assert f"then the objects below s3://{s3.name}/{schema}, e.g. with `aws s3 sync`" in refused.error
    assert folder.run("gc", "--json").json["blobs"] == 0
    assert folder.run("gc", "--keep", "0", "--older-than", "0d", "--json").json["runs"] == [run]
    assert any(data == (LEASE * 1000).encode() for data in s3.objects(schema).values()), "what is young stays"


@pytest.mark.long
def test_a_bucket_that_cannot_be_used_is_one_sentence(bucketed: tuple[Folder, Bucket]) -> None:
    folder, s3 = bucketed
    folder.write("lease.txt", LEASE * 1000)
    assert folder.run("runs").code == 0  # the place is noted
    s3.answer = 503
    done = folder.run("run", QUESTION, "-f", "lease.txt", "--model", "offline", "--system", "agentorchestra")
    assert done.code == 1 and "have been away for 0 s (said ServiceUnavailable)" in done.error, done.err
    s3.answer = None
    assert folder.run("runs", "--json").json == [], "nothing was begun"
    settings = folder.workspace.parent / "agentorchestra.toml"
    settings.write_text(f'{settings.read_text()}\n[artifacts_options]\nsecret = "{SECRET}"\n')
    done = folder.run("runs")
    assert done.code == 2 and SECRET not in done.err + done.out
    assert done.error.startswith("artifacts_options.secret in")
    assert done.error.endswith(
        "the options are endpoint, region, profile. Keys belong into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    )
    settings.write_text(settings.read_text().partition("[artifacts_options]")[0])
    folder.environment["AGENTORCHESTRA_ARTIFACTS_OPTIONS__SECRET"] = SECRET
    done = folder.run("runs")
    assert done.code == 2 and SECRET not in done.err + done.out and "artifacts_options.secret" in done.error


@pytest.mark.long
def test_doctor_says_which_store(remote: Folder, server: Postgres, schema: str) -> None:
    def checks() -> dict[str, tuple[str, str]]:
        done = remote.run("doctor", "--json")
        assert PASSWORD not in done.out
        return {one["name"]: (one["status"], f"{one['detail']}; {one['hint']}") for one in done.json["checks"]}

    shown = f"postgresql://{USER}@127.0.0.1:{server.port}/agentorchestra, schema {schema}"
    version = f"PostgreSQL {server.sql('show server_version').partition('.')[0]}"
    status, said = checks()["database"]
    assert (status, said) == ("ok", f"{version}, {shown}: empty; the first run makes its tables; ")
    assert server.sql(f"select to_regnamespace('{schema}')") == ""
    remote.run("run", "PLAN escape")
    assert checks()["database"][1].startswith(f"{version}, {shown}: format ")
    assert checks()["database"][1].endswith(", 1 runs; ")
    with closing(sqlite3.connect(remote.workspace / "workspace.db")) as left:
        left.execute("CREATE TABLE runs (id)")
    assert checks()["workspace"] == (
        "warn",
        f"{remote.workspace.name} also has a workspace.db; runs in it are not seen while `database` is set",
    )
    remote.environment["PGPASSWORD"] = "wrong-staple"
    status, said = checks()["database"]
    assert status == "fail" and "does not let this user in" in said and "staple" not in said


@pytest.mark.long
def test_a_role_that_may_only_read(remote: Folder, server: Postgres, schema: str) -> None:
    assert remote.run("run", "PLAN ask").code == 3
    (run,) = [one["run_id"] for one in remote.run("runs", "--json").json]
    role = f"reader_{schema}"
    server.sql(f"create role {role} login password 'reader-pass'; grant usage on schema {schema} to {role}")
    server.sql(f"grant select on all tables in schema {schema} to {role}")
    remote.environment["AGENTORCHESTRA_DATABASE"] = server.tcp(user=role, password="reader-pass")
    before = server.sql(f"select count(*) from {schema}.events")
    for words in (
        ("runs",),
        ("show", run),
        ("replay", run),
        ("compare", run, run),
        ("export", run, "--out", "run.zip"),
        ("cost",),
        ("log",),
    ):
        done = remote.run(*words)
        assert done.code == 0, (words, done.err)
    assert remote.run("tail", run).code == 3  # it waits for an answer
    for words in (("cancel", run), ("answer", run, "blue"), ("run", "PLAN ask"), ("fork", run, "--at", "3")):
        done = remote.run(*words)
        assert done.code == 1, words
        assert done.error.startswith("cannot write to the workspace in "), words
        assert f"GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}" in done.error
    checks = {one["name"]: one for one in remote.run("doctor", "--deep", "--json").json["checks"]}
    assert checks["database"]["status"] == "warn"
    assert checks["database"]["detail"].endswith(", 1 runs; it can only be read")
    assert f"GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}" in checks["database"]["hint"]
    assert checks["log"]["detail"].startswith(f"1 runs, {before} events and ")
    server.sql(f"update {schema}.alembic_version set version_num = '0004'")
    checks = {one["name"]: one for one in remote.run("doctor", "--json").json["checks"]}
    assert checks["database"]["status"] == "fail"
    assert ": format 0004, 1 runs, and it can only be read" in checks["database"]["detail"]


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("postgresql://me:staple@127.0.0.1:9/log", "cannot connect to the database postgresql://me@127.0.0.1:9/log ("),
        ("mysql://me:staple@db/log", "database begins with 'mysql'; give an address of PostgreSQL"),
        ("postgresql://me:sta%ple@db/log", "database is no address that PostgreSQL's driver can read"),
    ],
)
def test_a_database_that_cannot_be_used_is_one_sentence(folder: Folder, address: str, sentence: str) -> None:
    folder.environment["AGENTORCHESTRA_DATABASE"] = address
    for words in (("run", QUESTION, "-f", "lease.txt"), ("runs",), ("show", "last"), ("resume", "last")):
        done = folder.run(*words)
        assert done.code in (1, 2)
        assert done.error.startswith(sentence)
        assert "staple" not in done.err + done.out and "sta%ple" not in done.err + done.out


def test_a_quota_belongs_to_sqlite(remote: Folder) -> None:
    remote.environment["AGENTORCHESTRA_MAX_BYTES"] = "1000000"
    done = remote.run("runs")
    assert done.code == 2
    assert "max_bytes = 1000000 limits the workspace's own database file; with `database` leave it out" in done.error


def test_doctor_without_the_database_still_looks_at_the_rest(folder: Folder) -> None:
    folder.environment["AGENTORCHESTRA_DATABASE"] = "postgresql://me@127.0.0.1:9/log"
    done = folder.run("doctor", "--json")
    assert done.code == 1
    assert {one["name"]: one["status"] for one in json.loads(done.out)["checks"]}["database"] == "fail"
