"""Connections to PostgreSQL: where it is, limits so that nothing hangs, and what its errors mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from snapline.config.secret import Secret, SecretLike, without_secrets
from snapline.errors import ConfigurationError, SnaplineError, TransientError, UserCodeError
from snapline.text import explanation

if TYPE_CHECKING:
    import psycopg

    Connection: TypeAlias = psycopg.Connection[Any]

_DEFAULTS: dict[str, Any] = {
    "connect_timeout": 10,
    # Of a machine that is gone without a word, within half a minute.
    "tcp_user_timeout": 30_000,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
}
_SESSION = "SET timezone = 'UTC'; SET datestyle = 'ISO'; SET intervalstyle = 'postgres'; SET bytea_output = 'hex'"

_HEALING = ("08", "40", "53", "57", "58", "55P03", "55006", "25006", "25P03")
"""Classes of errors that end by themselves: connections, deadlocks, full disks, shutdowns, locks, standby servers."""
_SETTINGS = ("28", "3D", "3F", "42", "0A", "0L", "0P")
"""Classes of errors that somebody has to do something about: access, names, syntax, what the server cannot do."""
_REFUSALS = {
    "password authentication failed": "give the right one with password=Secret.env(...), or in the address",
    "no password supplied": "give one with password=Secret.env(...)",
    "fe_sendauth": "give a password with password=Secret.env(...)",
    "pg_hba.conf": "let this user and machine in, in the server's pg_hba.conf, or use another user",
    "does not exist": "create it, or name another one in the address",
    "is not permitted to log in": "ALTER ROLE ... LOGIN, or name another user in the address",
    "permission denied for database": "GRANT CONNECT ON DATABASE ... to this user",
    "certificate": "give sslrootcert=... or another sslmode=... in the address",
    "does not support SSL": "leave out sslmode=require in the address, or switch SSL on in the server",
}
"""Parts of what libpq says when the server lets nobody in, which has no code, and what to do then."""
_LASTING = ("does not exist",)
"""Those of them that new credentials do not change."""
_NO_LIMITS = """
SELECT set_config(name, '0', false) FROM pg_settings
WHERE name IN ('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')
"""


def load_psycopg() -> Any:
    """The module psycopg; `ConfigurationError` that says how to install it if it is not there."""
    try:
        import psycopg
    except ImportError as error:
        raise ConfigurationError(
            f"PostgreSQL needs the package psycopg: pip install 'snapline[postgres]' ({error})"
        ) from error
    return psycopg


class PostgresAddress:
    """Where the database is, and how to log in. Can be pickled; never shows a password."""

    def __init__(self, call: str, dsn: str, password: SecretLike | None = None) -> None:
        psycopg = load_psycopg()
        if not isinstance(dsn, str) or not dsn.strip():
            raise ConfigurationError(f"{call}: the address is empty; give 'postgresql://user@host:5432/database'")
        self._call = call
        self._dsn = Secret.of(dsn, "dsn")
        self._password = None if password is None else Secret.of(password, "password")
        try:
            self._parts = psycopg.conninfo.conninfo_to_dict(dsn)
        except psycopg.ProgrammingError as error:
            # Not as its cause, nor its text: they quote the address.
            del error
            raise ConfigurationError(
                f"{call}: the address is not understood; give 'postgresql://user@host:5432/database' or "
                "'host=... dbname=... user=...'"
            ) from None
        own = self._parts.pop("password", None)
        self._hidden = {own} if isinstance(own, str) else set()

    def __repr__(self) -> str:
        shown = (f"{name}={self._parts[name]}" for name in ("host", "port", "dbname", "user") if name in self._parts)
        return " ".join(shown) or "the default server"

    def connect(self, *, application: str, autocommit: bool = False, is_running: bool = False) -> Connection:
        """Connect. Raises `ConfigurationError` if nobody is let in like this, `TransientError` if nobody answers.

        Once the job `is_running`, credentials that are refused are a `TransientError` too: they are read anew with
        every connection.
        """
        psycopg = load_psycopg()
        settings = {name: value for name, value in _DEFAULTS.items() if name not in self._parts}
        if self._password is not None:
            settings["password"] = value = self._password.resolve()
            self._hidden.add(value)
        try:
            connection: Connection = psycopg.connect(
                self._dsn.resolve(), **settings, application_name=application, autocommit=True
            )
        except psycopg.Error as error:
            raise self._refused(error, is_running) from None
        # Later connections, too: a prepared statement would be one more thing that a pool of connections loses.
        connection.prepare_threshold = None
        with self.errors("connect"):
            connection.execute(_SESSION)
            connection.autocommit = autocommit
        return connection

    def connect_to_copy(self, *, application: str) -> Connection:
        """A connection of a running job for a COPY that stays open, at the pace of the job: without time limits."""
        connection = self.connect(application=application, autocommit=True, is_running=True)
        with self.errors("connect"):
            connection.execute(_NO_LIMITS)
        return connection

    def _refused(self, error: Exception, is_running: bool) -> SnaplineError:
        text = self._clean(str(error).strip().replace("\n", "; "))
        for part, advice in _REFUSALS.items():
            if part in text:
                kind = TransientError if is_running and part not in _LASTING else ConfigurationError
                return kind(f"{self._call}: {self!r} refuses the connection ({text}): {advice}")
        return TransientError(
            f"{self._call}: {self!r} does not answer ({text}): start the server, or correct host and port"
        )

    def _clean(self, text: str) -> str:
        return without_secrets(text, self._hidden)

    def __getstate__(self) -> dict[str, Any]:
        # Passwords that were read here stay here.
        return {**self.__dict__, "_hidden": set()}

    @contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """Errors of the server become ours: what may heal, what needs the user, or what rows are to blame for."""
        try:
            yield
        except load_psycopg().Error as error:
            raise self.explained(error, doing) from error

    def explained(self, error: Any, doing: str) -> SnaplineError:
        """Our error for one of psycopg's."""
        said, _, more = self._clean(explanation(error)).partition("\n")
        kind, advice = _meaning(error, said)
        # One line, and the advice ahead of details: long messages are cut.
        end = f": {advice}" if advice else ""
        details = f" ({' '.join(more.split())})" if more else ""
        return kind(f"{self._call}: {doing} failed at {self!r}: {said}{end}{details}")


def _meaning(error: Any, said: str) -> tuple[type[SnaplineError], str]:
    """The kind of our error for one of psycopg's, and what to do about it."""
    code = error.sqlstate or ""
    if code.startswith("53100"):
        return TransientError, "the disk of the server is full; make room there"
    if code.startswith("25006"):
        return TransientError, "the server is read-only; connect to the primary, or end its read-only mode"
    if code == "55P03":
        return TransientError, "another transaction holds the lock; look at pg_stat_activity and pg_prepared_xacts"
    if code.startswith("53200") and "prepared" in said:
        return TransientError, "set max_prepared_transactions to twice the number of subtasks or more"
    if code.startswith("42501"):
        return ConfigurationError, "GRANT this user what it needs"
    if code.startswith(_SETTINGS):
        return ConfigurationError, ""
    if code.startswith(_HEALING) or is_disconnect(error):
        return TransientError, ""
    return UserCodeError, "the rows do not fit the table; change the one or the other"


def is_disconnect(error: BaseException) -> bool:
    """Whether a psycopg error says that the connection is gone."""
    psycopg = load_psycopg()
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and not getattr(error, "sqlstate", None)
