"""PostgreSQL: one database for many machines, a schema in it for each workspace.

Transactions of several processes run at the same time here. What draws sequences locks the job's row, so that nobody
can take the run over before the commit; who takes over waits for that row. A process that stops inside a transaction
loses it after `stopped_s`, by the server's own clock.
"""

from __future__ import annotations

import logging
import os
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, Double, Engine, Table, create_engine, literal_column, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, QueuePool

from agentorchestra.core.errors import (
    AgentOrchestraError,
    OtherArtifactsError,
    StoreError,
    StoreFullError,
    StoreRefusedError,
    StoreUnavailableError,
    WorkspaceNotWritableError,
)
from agentorchestra.log.store.address import Address, check_schema, load_driver
from agentorchestra.log.store.blobs import FULL_ERRNOS
from agentorchestra.log.store.database import READERS, Draw, closed_on_error
from agentorchestra.log.store.patience import Patience
from agentorchestra.log.store.schema import REVISIONS, artifacts, events, metadata
from agentorchestra.log.store.sql import SqlStore

if TYPE_CHECKING:
    from agentorchestra.log.store.artifacts import Artifacts

SCHEMA = "agentorchestra"

RETRY_S = 120.0  # how long writes and reads wait for a database that is away

LOOK_S = 0.2
"""Time between looks at the log of followed runs, all of them by one query."""

_LOCKED_S = 30  # how long a write waits for another process's transaction (they take milliseconds)
_OLDEST = 130000  # PostgreSQL 13: pg_current_xact_id_if_assigned

_CONNECTION = {
    # Without these a machine that vanished would be noticed after hours.
    "connect_timeout": "10",
    "keepalives_idle": "5",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
    "application_name": "agentorchestra",
    "client_encoding": "UTF8",
}

# One row per run. The lock in `locked` waits for whoever changes the row and then reads what they wrote, which a plain
# read in the same statement would not; it holds until the commit. How far this writer came is noted on the way.
_DRAW = """
WITH wanted AS MATERIALIZED (
    SELECT * FROM unnest(%b::text[], %b::bigint[], %b::bigint[], %b::text[]) AS w (run, epoch, k, status)
), marked AS (
    UPDATE writers SET last = %s, touched = extract(epoch FROM clock_timestamp()) WHERE id = %s
), locked AS MATERIALIZED (
    SELECT j.run, j.epoch FROM jobs j
    WHERE j.run IN (SELECT w.run FROM wanted w WHERE w.epoch IS NOT NULL) ORDER BY j.run FOR SHARE
)
UPDATE runs SET next_seq = runs.next_seq + w.k, status = coalesce(w.status, runs.status)
FROM wanted w LEFT JOIN locked l ON l.run = w.run
WHERE runs.id = w.run AND (w.epoch IS NULL OR w.epoch = l.epoch)
RETURNING runs.id, runs.next_seq
"""

# Of a transaction that drew nothing; one that wrote nothing needs no mark, and stays one that writes nothing.
_MARK = """
UPDATE writers SET last = %s, touched = extract(epoch FROM clock_timestamp())
WHERE id = %s AND pg_current_xact_id_if_assigned() IS NOT NULL
"""

_GONE_S = 30 * 86_400.0  # after how long the rows of processes that ended without closing are removed

_COPY = f"COPY events ({', '.join(column.name for column in events.c)}) FROM STDIN"

# The connection's own setting lies over the one that the role or the database has.
_RIGHTS = """
SELECT pg_is_in_recovery(),
       (SELECT reset_val = 'on' FROM pg_settings WHERE name = 'default_transaction_read_only'),
       quote_ident(current_user),
       ARRAY(SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE c.relkind = 'r' AND c.relname = ANY(%s) AND n.nspname = %s
                   AND NOT has_table_privilege(c.oid, 'INSERT') ORDER BY 1)
"""

_LOSSES = ("08", "57P01", "57P02", "57P03", "57P05", "25P03", "53300")
"""SQLSTATEs: the connection, a shutdown, a start, an idle session, a transaction that took too long, too many."""

_UNKNOWN_HOST = (socket.EAI_NONAME, socket.EAI_NODATA)
"""What is said of a host's name that there is not; where the servers of names are away it is another one."""

_log = logging.getLogger("agentorchestra.store")


@dataclass(frozen=True)
class Examined:
    """The state of a database."""

    version: int  # of the server
    revision: str | None  # the workspace's format, None where there is none yet
    runs: int  # how many
    durable: bool  # whether the server syncs what it acknowledges
    artifacts: tuple[str, str] | None  # where its artifacts lie, and its name there; None for its table
    sealed: str  # why it can be read and not written


class PostgresStore(SqlStore):
    """The store in a schema of a PostgreSQL database; any number of processes and machines may use it at once.

    Args:
        url: `postgresql://user@host:5432/name`. A password is better in PGPASSWORD or in .pgpass than here; wherever
            the address is shown, it is left out.
        schema: the workspace's own; created where it is missing.
        retry_s: how long writes and reads wait for a database that is away, in seconds.
        artifacts: where large blobs are kept, None for the table `blobs`; one place for all who use this database.
        lease_s: for how long a process that stops may hold runs: inside a transaction, which keeps others from taking
            them, it is given no longer.

    Attributes:
        stopped_s: after how long without a word inside a transaction the server ends it, in seconds.

    Raises:
        SettingsError, MissingExtraError.
    """

    stopped_s: float = 15
    look_s = LOOK_S

    def __init__(
        self,
        url: str,
        *,
        schema: str = SCHEMA,
        retry_s: float = RETRY_S,
        artifacts: Artifacts | None = None,
        lease_s: float | None = None,
    ) -> None:
        self.address = Address(url)
        self.schema = check_schema(schema)
        self.retry_s = retry_s
        if lease_s is not None:
            self.stopped_s = min(self.stopped_s, lease_s)
        place = f"{self.address.shown}, schema {self.schema}"
        super().__init__(place, workspace=f"in {place}", file=place, option="database_schema")
        self._artifacts = artifacts
        if artifacts is not None:
            self.secrets = artifacts.secrets  # one dictionary: which keys are used is seen at the first request
        self._driver = load_driver()
        self._backend = 0
        self._news = False
        self._id = uuid.uuid4().hex
        self._last = 0
        self._marked = False
        self._opened = False

    # --- connections -----------------------------------------------------------------------------

    def connect(self) -> Any:
        """Return a new connection (psycopg), with this store's time limits; whoever asks for it closes it."""
        arguments = self._driver.conninfo.conninfo_to_dict(self.address.url)
        added = {name: value for name, value in _CONNECTION.items() if name not in arguments}
        if str(arguments.get("host", "")).startswith("/"):
            del added["tcp_user_timeout"]
        connection = self._driver.connect(self.address.url, **added)
        with closed_on_error(connection):
            # The server ends what this process cannot: a lock that is not given, a transaction it was stopped in.
            connection.execute(f"SET search_path TO {self.schema}")
            connection.execute(f"SET lock_timeout TO '{_LOCKED_S}s'")
            connection.execute(f"SET idle_in_transaction_session_timeout TO '{self.stopped_s * 1000:.0f}ms'")
            connection.commit()
        return connection

    def _connect_writer(self) -> Any:
        connection = self.connect()
        with closed_on_error(connection):
            # What `off` acknowledges may be lost; what is stronger than `on` is the server's choice.
            if connection.execute("SHOW synchronous_commit").fetchone()[0] == "off":
                connection.execute("SET synchronous_commit TO on")
            connection.execute(f"LISTEN {self._channel}")
            connection.commit()
        connection.add_notify_handler(self._hear)
        self._backend = connection.info.backend_pid
        self._news = self._opened  # what came while nobody listened is news
        return connection

    def _connect_reader(self) -> Any:
        connection = self.connect()
        with closed_on_error(connection):
            connection.execute("SET default_transaction_read_only TO on")
            connection.commit()
        return connection

    def _make_write_engine(self) -> Engine:
        return create_engine(
            "postgresql+psycopg://", creator=self._connect_writer, poolclass=NullPool, use_native_hstore=False
        )

    def _make_read_engine(self) -> Engine:
        return create_engine(
            "postgresql+psycopg://",
            creator=self._connect_reader,
            poolclass=QueuePool,
            pool_size=READERS + 1,  # and the watcher
            max_overflow=0,
            isolation_level="AUTOCOMMIT",  # every statement sees what is committed when it begins
            use_native_hstore=False,
        )

    # --- opening ---------------------------------------------------------------------------------

    def _prepare(self) -> None:
        assert self._write_engine is not None
        assert self._read_engine is not None
        with self._read_engine.connect() as reader:
            self._check_server(reader)
            revision = self._readable_revision(reader)
            self._sealed = self._seal_reason(reader)
        if self._sealed:
            if revision is None:
                raise self._not_writable(f"there is no workspace yet, and {self._sealed}")
            if revision != REVISIONS[-1]:
                raise self._not_writable(f"its format {revision} has to be brought up to date, and {self._sealed}")
            with self._read_engine.connect() as reader:
                self._agree(reader)
            return
        connection = self._connection = self._write_engine.connect()
        if revision != REVISIONS[-1]:
            with connection.begin():
                # One process at a time, in this schema.
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (self._channel,))
                connection.exec_driver_sql("SET LOCAL lock_timeout TO '300s'")
                if connection.exec_driver_sql("SELECT to_regnamespace(%s)", (self.schema,)).scalar() is None:
                    connection.exec_driver_sql(f"CREATE SCHEMA {self.schema}")
                self._bring_up(connection, self._revision(connection))
        self._agree(connection)
        with connection.begin():
            now = "extract(epoch FROM clock_timestamp())"
            connection.exec_driver_sql(f"DELETE FROM writers WHERE touched < {now} - %s", (_GONE_S,))
            connection.exec_driver_sql(f"INSERT INTO writers VALUES (%s, 0, {now})", (self._id,))
        self._opened = True

    def _check_server(self, connection: Connection) -> None:
        raw: Any = connection.connection.driver_connection
        if raw.info.password:  # also from PGPASSWORD or .pgpass
            self.secrets["database"] = raw.info.password
        if raw.info.server_version < _OLDEST:
            raise StoreError(
                f"{self.address.shown} is PostgreSQL {raw.info.server_version // 10000}, which is too old; "
                "use 13 or later"
            )
        if raw.info.encoding != "utf-8" or raw.info.parameter_status("server_encoding") != "UTF8":
            raise StoreError(
                f"the database {self.address.shown} has the encoding {raw.info.parameter_status('server_encoding')}; "
                "make one with the encoding UTF8 (createdb -E UTF8)"
            )

    def _readable_revision(self, connection: Connection) -> str | None:
        # Without this right PostgreSQL says of each table that it is not there.
        usable = "SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = %s"
        if connection.exec_driver_sql(usable, (self.schema,)).scalar() is False:
            raise self._no_right(f"permission denied for schema {self.schema}")
        return self._revision(connection)

    def _seal_reason(self, connection: Connection) -> str:
        """Return why what is there can only be read, and what changes it; "" where it can be written."""
        standby, read_only, role, closed = connection.exec_driver_sql(
            _RIGHTS, (list(metadata.tables), self.schema)
        ).one()
        if standby:
            return "the server is a standby, which only gives reads; name the primary server in `database`"
        if read_only:
            return (
                f"transactions of the role {role} only read; to write, run as the owner: "
                f"ALTER ROLE {role} SET default_transaction_read_only TO off"
            )
        if closed:
            return (
                f"the role {role} may not insert into {', '.join(closed)}; to write, run as the owner: "
                f"GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {self.schema} TO {role}"
            )
        return ""

    def _agree(self, connection: Connection) -> None:
        """Note where this database's artifacts lie, the first time; OtherArtifactsError if the settings differ."""
        with connection.begin():
            record = self._noted_artifacts(connection)
        if self._artifacts is None and record is None:
            return
        if record is None:
            assert self._artifacts is not None
            if self._sealed:
                raise self._not_writable(f"the place of its artifacts is not noted yet, and {self._sealed}")
            self._artifacts.check()  # what cannot be used is not noted
            with connection.begin():
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (self._channel,))
                artifacts.create(connection, checkfirst=True)
                record = self._noted_artifacts(connection)
                if record is None:
                    record = (self._artifacts.address, uuid.uuid4().hex)
                    connection.execute(artifacts.insert(), {"address": record[0], "owner": record[1]})
        address, owner = record
        here = None if self._artifacts is None else self._artifacts.address
        if self._artifacts is None or here != address:
            raise OtherArtifactsError(
                f"the artifacts of {self.place} lie at {address}, and the settings name {here or 'none'}; set "
                f'`artifacts = "{address}"`, or move them as docs/stores.md says'
            )
        self._artifacts.owner = owner

    def _noted_artifacts(self, connection: Connection) -> tuple[str, str] | None:
        if artifacts.name not in self._tables(connection):
            return None
        row = connection.execute(select(artifacts.c.address, artifacts.c.owner)).first()
        return None if row is None else (row.address, row.owner)

    def _leave(self, connection: Connection) -> None:
        with connection.begin():
            connection.exec_driver_sql("DELETE FROM writers WHERE id = %s", (self._id,))

    def _tables(self, connection: Connection) -> set[str]:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = %s"
        return set(connection.exec_driver_sql(query, (self.schema,)).scalars())

    def examine(self) -> Examined:
        """Return what is there, without changing anything; for `doctor`. StoreError as `open`."""
        try:
            engine = self._make_read_engine()
            try:
                with engine.connect() as connection:
                    raw: Any = connection.connection.driver_connection
                    revision = self._readable_revision(connection)
                    count = connection.exec_driver_sql("SELECT count(*) FROM runs").scalar() if revision else 0
                    fsync = connection.exec_driver_sql("SHOW fsync").scalar()
                    version, seal = raw.info.server_version // 10000, self._seal_reason(connection)
                    record = self._noted_artifacts(connection)
                    return Examined(version, revision, int(count or 0), fsync == "on", record, seal)
            finally:
                engine.dispose()
        except Exception as exc:
            raise self._translate(exc) from exc

    # --- the hot path ----------------------------------------------------------------------------

    def _draw(self, connection: Connection, draws: list[Draw]) -> None:
        raw: Any = connection.connection.driver_connection
        by_run = {draw.run: draw for draw in draws}
        columns = [[draw.run for draw in draws], [draw.epoch for draw in draws], [draw.k for draw in draws]]
        columns.append([draw.status for draw in draws])
        self._last += 1
        self._marked = True
        values = [*columns, self._last, self._id]
        for run, next_seq in raw.execute(_DRAW, values):
            by_run[run].next_seq = next_seq
        if any(draw.epoch is None and draw.next_seq is not None for draw in draws):
            raw.execute(f"NOTIFY {self._channel}")

    def _insert_events(self, connection: Connection, values: list[tuple[Any, ...]]) -> None:
        raw: Any = connection.connection.driver_connection
        with raw.cursor() as cursor, cursor.copy(_COPY) as copy:
            write = copy.write_row
            for row in values:
                write(row)

    # --- the dialect -----------------------------------------------------------------------------

    @property
    def _channel(self) -> str:
        return f"agentorchestra_{self.schema}"

    def _changes(self, connection: Connection) -> Callable[[], bool]:
        return lambda: True

    def _hear(self, notify: Any) -> None:
        if notify.pid != self._backend:
            self._news = True

    def _changed(self, connection: Connection) -> bool:
        raw: Any = connection.connection.driver_connection
        raw.execute("SELECT 1")  # what was sent meanwhile comes with the answer
        news, self._news = self._news, False
        return news

    def _now(self) -> ColumnElement[float]:
        return literal_column("extract(epoch FROM clock_timestamp())", Double)

    def _insert(self, table: Table) -> postgresql.Insert:
        return postgresql.insert(table)

    # --- a database that is away -----------------------------------------------------------------

    def _one_at_a_time(self, connection: Connection, subject: str) -> None:
        name = f"{self._channel} {subject}"
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (name,))

    def _begin(self) -> None:
        self._marked = False

    def _token(self, connection: Connection) -> str | None:
        has_mark, self._marked = self._marked, False
        if not has_mark:
            self._last += 1
            if connection.exec_driver_sql(_MARK, (self._last, self._id)).rowcount == 0:
                return None
        return str(self._last)

    def _was_committed(self, token: str) -> bool:
        connection = self._writer_connection()
        with connection.begin():
            # The old connection's transaction may still be under way: whoever wrote the row holds it until it ends.
            query = "SELECT last FROM writers WHERE id = %s FOR UPDATE"
            last = connection.exec_driver_sql(query, (self._id,)).scalar()
        return last is not None and last >= int(token)

    def _is_lost(self, exc: BaseException) -> bool:
        cause = exc.orig if isinstance(exc, DBAPIError) else exc
        if not isinstance(cause, self._driver.OperationalError | self._driver.InterfaceError):
            return False
        # Without a code the connection broke, or could not be made.
        return cause.sqlstate is None or cause.sqlstate.startswith(_LOSSES)

    def away(self, exc: BaseException) -> AgentOrchestraError | None:
        """Return the error for a database that cannot be reached now, None if an exception says something else."""
        return self._translate(exc) if self._is_lost(exc) else None

    def _is_conflict(self, exc: BaseException) -> bool:
        cause = exc.orig if isinstance(exc, DBAPIError) else exc
        return getattr(cause, "sqlstate", None) in ("40P01", "40001")

    def _away_error(self, exc: BaseException) -> AgentOrchestraError:
        return StoreUnavailableError(
            f"the database {self.address.shown} has been away for {self.retry_s:g} s ({_cause(exc)}); "
            "what was recorded before is safe. When it is back, resume the run"
        )

    def _say_away(self, exc: BaseException) -> None:
        _log.warning(
            "the database %s does not answer (%s); trying again for %g s", self.address.shown, _cause(exc), self.retry_s
        )

    def _say_back(self, patience: Patience) -> None:
        delay = "" if patience.began is None else f" after {time.monotonic() - patience.began:.1f} s"
        _log.warning("the database %s answers again%s", self.address.shown, delay)

    # --- errors ----------------------------------------------------------------------------------

    def _meaning(self, exc: BaseException) -> AgentOrchestraError:
        cause: BaseException | None = exc.orig if isinstance(exc, DBAPIError) else exc
        reason = _cause(exc)
        code = getattr(cause, "sqlstate", None) or ""
        # PostgreSQL has a code for a full disk, not for a quota or the limit of a file's size.
        messages = {os.strerror(number) for number in FULL_ERRNOS}
        if code.startswith(("58", "XX")) and any(reason.endswith(words) for words in messages):
            return self._full(reason)
        if isinstance(cause, self._driver.OperationalError) and not code:
            return self._connection_error(reason)
        match code:
            case "53100":
                return self._full(reason)
            case "42501" | "25006":
                return self._no_right(reason)
            case "42P01" | "42703":
                return self._corrupt(reason)
            case "55P03":
                return StoreError(
                    f"another process has kept rows of {self.place} locked for {_LOCKED_S} s; nothing was recorded. "
                    "Stop that process and resume the run"
                )
            case "XX001" | "XX002":
                return self._corrupt(reason)
        if code.startswith(_LOSSES):
            return self._unavailable(reason)
        return StoreError(f"the database {self.place} refused a write or a read: {type(cause).__name__}: {reason}")

    def _no_right(self, reason: str) -> WorkspaceNotWritableError:
        return WorkspaceNotWritableError(
            f"the user of {self.address.shown} lacks a right in the schema {self.schema} ({reason}); grant it USAGE on "
            "that schema and SELECT on its tables to read; to write also INSERT, UPDATE and DELETE; CREATE to make it"
        )

    def _not_writable(self, reason: str) -> WorkspaceNotWritableError:
        return WorkspaceNotWritableError(f"cannot write to the workspace in {self.place}: {reason}")

    def _connection_error(self, reason: str) -> StoreUnavailableError:
        place = self.address.shown
        if "password" in reason or "authentication" in reason or "no pg_hba.conf entry" in reason:
            return StoreRefusedError(
                f"the database {place} does not let this user in ({reason}); correct user and password in `database`, "
                "PGPASSWORD or .pgpass"
            )
        if 'role "' in reason and "does not exist" in reason:
            return StoreRefusedError(
                f"the database {place} does not know this user ({reason}); correct the user in `database`"
            )
        if any(f"[Errno {number}]" in reason for number in _UNKNOWN_HOST):
            return StoreRefusedError(f"the host of the database {place} is not known ({reason}); correct `database`")
        if f'database "{self.address.name}" does not exist' in reason:
            return StoreRefusedError(
                f"there is no database {self.address.name!r} at {place}; "
                f"make it (createdb -E UTF8 {self.address.name}), or correct `database`"
            )
        return self._unavailable(reason)

    def _unavailable(self, reason: str) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"cannot connect to the database {self.address.shown} ({reason}); "
            "check that it runs and that `database` is right"
        )

    def _full(self, reason: str) -> StoreFullError:
        return StoreFullError(
            f"no space left for the log in the database {self.address.shown} ({reason}); nothing of this step was "
            "recorded. Free space there, then resume the run"
        )


def _cause(exc: BaseException) -> str:
    """Return what the server or the driver said, in one line."""
    cause = exc.orig if isinstance(exc, DBAPIError) and exc.orig is not None else exc
    diag = getattr(cause, "diag", None)
    message = getattr(diag, "message_primary", None) or str(cause)
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    # Several addresses of one host fail with a line each, and advice below; the last one is as good as any.
    failed = [line for line in lines if "failed:" in line]
    text = failed[-1] if failed else lines[0] if lines else type(cause).__name__
    return text.removeprefix("- ").removeprefix("connection failed: ")[:300]
