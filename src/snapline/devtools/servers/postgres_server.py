"""PostgreSQL for tests, from the programs of this machine. It can be killed, frozen and restarted."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

from snapline.devtools.kit.processes import descendants
from snapline.devtools.servers.server_process import (
    LOOPBACK,
    POLL_S,
    STOP_TIMEOUT_S,
    ServerProcess,
    free_port,
)
from snapline.errors import ConfigurationError, EngineError

USER = "postgres"
"""The superuser of the database, and the user of this machine that runs it if we are root."""
ANSWER_TIMEOUT_S = 5
INITDB_TIMEOUT_S = 60.0
PROGRAMS = Path("/usr/lib/postgresql")
"""Where Debian keeps the programs, by version; they are not on the path there."""

_SETTINGS = {
    "listen_addresses": LOOPBACK,
    # No socket file: its path may be too long.
    "unix_socket_directories": "",
    "wal_level": "logical",
    # A killed process loses nothing by this, only a machine without power does.
    "fsync": "off",
    "shared_buffers": "32MB",
}


class PostgresServer(ServerProcess):
    """A server on 127.0.0.1. A context manager: leaving it kills all its processes.

    With a `password` the user `postgres` needs it (scram-sha-256), without one nobody is asked. `settings` are those
    of postgresql.conf and win over ours. PostgreSQL refuses to run as root: then it runs as the user `postgres`, with
    its data in a temporary folder of that user, because `directory` may be closed to it. Leaving the context removes
    the data in either case.
    """

    name = "PostgreSQL"
    # "Fast": without waiting for clients to leave.
    stop_signal = signal.SIGINT

    def __init__(
        self,
        directory: Path,
        max_prepared_transactions: int = 64,
        *,
        password: str | None = None,
        **settings: object,
    ) -> None:
        super().__init__(directory)
        self.password = password
        self._settings = {**_SETTINGS, "max_prepared_transactions": max_prepared_transactions, **settings}
        self._port = 0
        self._home: Path | None = None

    def close(self) -> None:
        """Kill the server if it runs, and remove its data."""
        super().close()
        if self._home is not None:
            shutil.rmtree(self._home)
            self._home = None

    @property
    def port(self) -> int:
        """The port; the same after a restart."""
        return self._port

    @property
    def dsn(self) -> str:
        """The address of the database `postgres`, with the password if there is one."""
        return self.dsn_of("postgres")

    def dsn_of(self, database: str, *, user: str = USER, password: str | None = None) -> str:
        """The address of a database, for a user and a password (that of the server, if none is given)."""
        secret = self.password if password is None else password
        login = quote(user, safe="") + (f":{quote(secret, safe='')}" if secret else "")
        return f"postgresql://{login}@{LOOPBACK}:{self._port}/{quote(database, safe='')}"

    def create_database(self, name: str) -> str:
        """Create an empty database, and return its address."""
        import psycopg
        from psycopg import sql

        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.dsn_of(name)

    def _take_ports(self) -> None:
        self._port = free_port()

    def _command(self) -> list[str]:
        try:
            import psycopg  # noqa: F401
        except ImportError as error:
            raise ConfigurationError(
                f"PostgreSQL needs the package psycopg: pip install 'snapline[postgres]' ({error})"
            ) from error
        programs, prefix = postgres_programs(), _prefix()
        if self._home is None:
            self._home = self._initialized(programs, prefix)
        settings = [part for name, value in self._settings.items() for part in ("-c", f"{name}={_text(value)}")]
        return [*prefix, str(programs / "postgres"), "-D", str(self._home / "data"), "-p", str(self._port), *settings]

    def _initialized(self, programs: Path, prefix: list[str]) -> Path:
        """A new folder with an empty database in `data`."""
        home = Path(tempfile.mkdtemp(prefix="snapline-postgres-", dir=None if prefix else self._directory))
        try:
            secret = home / "password"
            secret.write_text(self.password or "", encoding="utf-8")
            secret.chmod(0o600)
            if prefix:
                shutil.chown(home, USER)
                shutil.chown(secret, USER)
            options = ["-U", USER, "--locale=C", "--encoding=UTF8", "--no-sync", "-D", str(home / "data")]
            login = ["-A", "scram-sha-256", f"--pwfile={secret}"] if self.password else ["-A", "trust"]
            made = subprocess.run(  # noqa: S603  # our own
                [*prefix, str(programs / "initdb"), *options, *login],
                cwd=home,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=INITDB_TIMEOUT_S,
                check=False,
            )
            if made.returncode:
                raise EngineError(f"initdb in {home} failed:\n{made.stdout}{made.stderr}")
            secret.unlink()
        except BaseException:
            shutil.rmtree(home)
            raise
        return home

    def _signal(self, process: subprocess.Popen[bytes], number: signal.Signals) -> None:
        """To the first process and all of its children, one per connection among them."""
        if process.poll() is not None:
            return
        if number != signal.SIGCONT:
            # The first process stands still before we look: it can neither start another child nor see one end.
            process.send_signal(signal.SIGSTOP)
        children = descendants(process.pid)
        for child in children:
            with contextlib.suppress(ProcessLookupError):  # it has ended in the meantime
                os.kill(child.pid, number)
        process.send_signal(number)
        if number == signal.SIGKILL:
            deadline_s = time.monotonic() + STOP_TIMEOUT_S
            while any(child.is_running for child in children):
                if time.monotonic() > deadline_s:
                    raise EngineError(f"processes of PostgreSQL survive SIGKILL: {[child.pid for child in children]}")
                time.sleep(POLL_S)

    def _answers(self) -> bool:
        import psycopg

        try:
            with psycopg.connect(self.dsn, connect_timeout=ANSWER_TIMEOUT_S) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True


def postgres_programs() -> Path:
    """The folder with `initdb` and `postgres`: of the path, or Debian's newest. Raises ConfigurationError if none."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    folders = [path.parent for path in PROGRAMS.glob("*/bin/initdb") if (path.parent / "postgres").exists()]
    if not folders:
        raise ConfigurationError(
            f"no PostgreSQL: initdb is neither on the path nor in {PROGRAMS}/*/bin; apt-get install postgresql"
        )
    return max(folders, key=lambda folder: float(folder.parent.name))


def _prefix() -> list[str]:
    """What to put before commands so that they do not run as root."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise ConfigurationError(
            "PostgreSQL refuses to run as root, and there is no setpriv: apt-get install util-linux"
        )
    try:
        pwd.getpwnam(USER)
    except KeyError as error:
        raise ConfigurationError(
            f"PostgreSQL refuses to run as root, and there is no user {USER!r}: apt-get install postgresql"
        ) from error
    return [setpriv, f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
