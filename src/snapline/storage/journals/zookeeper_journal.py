"""A job's journal in ZooKeeper: one znode per record, where checkpoint storage is too slow for it."""

from __future__ import annotations

import logging
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from snapline.errors import ConfigurationError, StorageError
from snapline.protocol.journal import Journal, Record
from snapline.storage.journals.journal_store import JournalStore, encode_record, is_record_name, read_at_one_moment

DEFAULT_TIMEOUT_MS = 10_000
DEFAULT_PORT = 2181

READ_TRIES = 4
"""Tries of a read or deletion when the connection keeps breaking, all within the timeout."""

PARENT_TRIES = 4
"""Tries to create a record when others keep deleting its empty row."""

PIPELINED = 256
"""Maximum requests in flight."""

DIAL_TIMEOUT_S = 1.0
"""A server that neither accepts nor refuses within this time is left to the client."""

RECONNECT_PAUSE_S = 1.0
"""Longest pause between connection attempts."""

_PERMISSIONS = {"c": "create", "d": "delete", "r": "read", "w": "write", "a": "admin"}
_GROUPS = ("claims", "ids", "rows")
_SECRET_REQUESTS = frozenset({"Auth", "SASL"})

T = TypeVar("T")


class ZooKeeperJournal(JournalStore):
    """Records are the znodes `<path>/<record.name>`, reserved checkpoint ids included.

    Nothing is ephemeral: an expired session is simply replaced. Connects on first use. Each call returns or raises
    within `timeout_ms`; a later call finds a server that has come back.

    Args:
        hosts: `host:port` of the servers, separated by commas.
        path: the job's own znode, such as `/snapline/<job-id>`; created with its parents if missing.
        timeout_ms: time limit of one call, and the session timeout.
        auth: a scheme and its credential, such as `("digest", "user:password")`. Unless `acl` says otherwise, only
            holders of the same credential can access what is created.
        acl: who may do what with it: `scheme:id:permissions` separated by commas, as in `auth::cdrwa,world:anyone:r`.
        sasl: options of a SASL login for kazoo (`mechanism`, `username`, `password`, ...); needs `pure-sasl`.
    """

    outlives_driver = True

    def __init__(
        self,
        hosts: str,
        path: str,
        *,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        auth: tuple[str, str] | None = None,
        acl: str | None = None,
        sasl: Mapping[str, Any] | None = None,
    ) -> None:
        if not path.startswith("/") or path.endswith("/"):
            raise ConfigurationError(f"ZooKeeper path {path!r}: use one like /snapline/<job-id>")
        if timeout_ms < 1:
            raise ConfigurationError(f"a ZooKeeper timeout of {timeout_ms} ms; use at least 1")
        try:
            import kazoo  # noqa: F401
        except ImportError as error:
            raise ConfigurationError(
                "a journal in ZooKeeper needs the package kazoo: pip install 'snapline[zookeeper]'"
            ) from error
        self._hosts = hosts
        self._path = path
        self._timeout_s = timeout_ms / 1000
        self._auth = auth
        self._acl = acl
        self._sasl = None if sasl is None else dict(sasl)
        self._lock = threading.Lock()
        self._client: Any = None
        self._is_connected = threading.Event()
        self._is_closed = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._hosts!r}, {self._path!r})"

    def read(self) -> Journal:
        def read(client: Any, deadline_s: float) -> Journal:
            return read_at_one_moment(
                lambda: self._names(client, deadline_s), lambda names: self._load(client, names, deadline_s), repr(self)
            )

        return self._repeat(read, "read")

    def prepare(self) -> None:
        """Create the job's own znode. Those above it are shared: holders of other credentials may add their jobs."""

        def prepare(client: Any, deadline_s: float) -> None:
            from kazoo import exceptions as ke
            from kazoo.security import make_acl

            own = self._access()
            shared = None if own is None else [*own, make_acl("world", "anyone", read=True, create=True)]
            parts = self._path.split("/")[1:]
            for depth in range(1, len(parts) + 1):
                path, acl = "/" + "/".join(parts[:depth]), own if depth == len(parts) else shared
                if _wait(client.exists_async(path), deadline_s) is None:
                    _unless(ke.NodeExistsError, client.create_async(path, b"", acl=acl), deadline_s, None)
            # It may be there already and belong to somebody else.
            probe = f"{self._path}/probe-{uuid.uuid4().hex}"
            _wait(client.create_async(probe, b"", acl=own), deadline_s)
            _unless(ke.NoNodeError, client.delete_async(probe), deadline_s, None)

        self._repeat(prepare, "write to")

    def create(self, record: Record) -> bool:
        from kazoo import exceptions as ke

        path, data = f"{self._path}/{record.name}", encode_record(record)
        acl = self._access()
        deadline_s = time.monotonic() + self._timeout_s
        client = self._connect(deadline_s)
        for _ in range(PARENT_TRIES):
            try:
                _wait(client.create_async(path, data, acl=acl, makepath=True), deadline_s)
            except ke.NodeExistsError:
                return False
            except ke.NoNodeError:
                continue
            except _broken() as error:
                raise StorageError(
                    f"the connection to ZooKeeper at {self._hosts} broke while creating {path}; it may exist",
                    possibly_inconsistent=True,
                ) from error
            except ke.KazooException as error:
                raise self._refused("create", error) from error
            return True
        raise StorageError(f"could not create {path}: its parent was deleted {PARENT_TRIES} times meanwhile")

    def delete(self, records: Iterable[Record]) -> None:
        names = [record.name for record in records]
        rows = sorted({name.rpartition("/")[0] for name in names if name.startswith("rows/")})

        def delete(client: Any, deadline_s: float) -> None:
            from kazoo import exceptions as ke

            # One connection executes requests in order, and none after a break.
            for batch in _batches([*names, *rows]):
                for answer in [client.delete_async(f"{self._path}/{name}") for name in batch]:
                    _unless((ke.NoNodeError, ke.NotEmptyError), answer, deadline_s, None)

        if names:
            self._repeat(delete, "delete records of")

    def close(self) -> None:
        with self._lock:
            client, self._client, self._is_closed = self._client, None, True
            if client is not None:
                client.stop()
                client.close()

    def _access(self) -> list[Any] | None:
        """Who may access what is created; None is everybody."""
        from kazoo.security import CREATOR_ALL_ACL, make_acl

        if self._acl is None:
            return None if self._auth is None and self._sasl is None else CREATOR_ALL_ACL
        entries = []
        for entry in self._acl.split(","):
            scheme, _, rest = entry.partition(":")
            name, _, permissions = rest.rpartition(":")
            entries.append(make_acl(scheme, name, **{_PERMISSIONS[letter]: True for letter in permissions}))
        return entries

    # Reading.

    def _names(self, client: Any, deadline_s: float) -> list[str]:
        from kazoo import exceptions as ke

        # This server may lag behind the others; after the sync it has caught up.
        client.sync_async(self._path)
        names: list[str] = []
        asked = [(group, client.get_children_async(f"{self._path}/{group}")) for group in _GROUPS]
        for group, answer in asked:
            children = _unless(ke.NoNodeError, answer, deadline_s, [])
            if group != "rows":
                names += [f"{group}/{child}" for child in children]
                continue
            for batch in _batches(children):
                rows = [(row, client.get_children_async(f"{self._path}/rows/{row}")) for row in batch]
                for row, members in rows:
                    names += [f"rows/{row}/{child}" for child in _unless(ke.NoNodeError, members, deadline_s, [])]
        return sorted(name for name in names if is_record_name(name))

    def _load(self, client: Any, names: Sequence[str], deadline_s: float) -> dict[str, bytes]:
        from kazoo import exceptions as ke

        contents = {}
        for batch in _batches(names):
            for name, answer in [(name, client.get_async(f"{self._path}/{name}")) for name in batch]:
                if (found := _unless(ke.NoNodeError, answer, deadline_s, None)) is not None:
                    contents[name] = bytes(found[0])
        return contents

    # The connection.

    def _repeat(self, operation: Callable[[Any, float], T], verb: str) -> T:
        """Run an idempotent operation until it succeeds, the time is up, or the tries are used up."""
        from kazoo import exceptions as ke

        deadline_s = time.monotonic() + self._timeout_s
        broken: Exception | None = None
        for _ in range(READ_TRIES):
            client = self._connect(deadline_s)
            try:
                return operation(client, deadline_s)
            except _broken() as error:
                broken = error
            except ke.KazooException as error:
                raise self._refused(verb, error) from error
        raise StorageError(
            f"could not {verb} {self._path}: the connection to ZooKeeper at {self._hosts} broke {READ_TRIES} times"
        ) from broken

    def _connect(self, deadline_s: float) -> Any:
        """Returns the connected client. A client that lost its server reconnects by itself."""
        with self._lock:
            if self._is_closed:
                raise StorageError(f"{self!r} is closed")
            if self._client is None:
                self._dial()
                self._client = self._start()
            client = self._client
        if not self._is_connected.wait(max(deadline_s - time.monotonic(), 0)):
            raise StorageError(
                f"no ZooKeeper at {self._hosts} after {self._timeout_s:g} s; check the address, that a server runs "
                "there, and that it accepts the credentials, if any"
            )
        return client

    def _dial(self) -> None:
        """Raises at once if no server listens; the client would keep trying until the time is up."""
        problems = []
        for host, port in _addresses(self._hosts):
            try:
                socket.create_connection((host, port), min(DIAL_TIMEOUT_S, self._timeout_s)).close()
                return
            except TimeoutError:
                return  # it may be slow: the client has more patience
            except OSError as error:
                problems.append(f"{host}:{port}: {error.strerror or error}")
        raise StorageError(
            f"no ZooKeeper at {self._hosts} ({'; '.join(problems)}); check the address, and that a server runs there"
        )

    def _start(self) -> Any:
        from kazoo.client import KazooClient, KazooState

        client = KazooClient(
            self._hosts,
            timeout=self._timeout_s,
            auth_data=None if self._auth is None else [self._auth],
            sasl_options=self._sasl,
            connection_retry={"max_tries": -1, "max_delay": RECONNECT_PAUSE_S},
            logger=_discreet_logger(),
        )
        is_connected = self._is_connected

        def changed(state: str) -> None:
            (is_connected.set if state == KazooState.CONNECTED else is_connected.clear)()

        client.add_listener(changed)
        client.start_async()
        return client

    def _refused(self, verb: str, error: Exception) -> StorageError:
        return StorageError(
            f"ZooKeeper at {self._hosts} refused to {verb} {self._path}: {type(error).__name__} {error}; check that "
            "the path is this job's, and was created with the same credentials"
        )


def _addresses(hosts: str) -> Iterator[tuple[str, int]]:
    """The servers in kazoo's notation, which may end with a path."""
    for server in hosts.partition("/")[0].split(","):
        host, _, port = server.strip().rpartition(":")
        yield (host.strip("[]"), int(port)) if host and port.isdigit() else (server.strip("[] "), DEFAULT_PORT)


def _broken() -> tuple[type[Exception], ...]:
    """The errors for a missing or late answer."""
    from kazoo import exceptions as ke
    from kazoo.handlers.threading import KazooTimeoutError

    lost = (ke.ConnectionLoss, ke.ConnectionClosedError, ke.SessionExpiredError)
    return *lost, ke.OperationTimeoutError, KazooTimeoutError


def _wait(answer: Any, deadline_s: float) -> Any:
    return answer.get(timeout=max(deadline_s - time.monotonic(), 0))


def _unless(expected: Any, answer: Any, deadline_s: float, default: Any) -> Any:
    """Returns the answer, or `default` on one of these errors."""
    try:
        return _wait(answer, deadline_s)
    except expected:
        return default


def _batches(items: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(items), PIPELINED):
        yield items[start : start + PIPELINED]


def _is_discreet(record: logging.LogRecord) -> bool:
    arguments = record.args if isinstance(record.args, tuple) else ()
    return all(type(argument).__name__ not in _SECRET_REQUESTS for argument in arguments)


def _discreet_logger() -> logging.Logger:
    """A logger for the client, which logs every request, passwords included."""
    logger = logging.getLogger(f"{__name__}.client")
    if _is_discreet not in logger.filters:
        logger.addFilter(_is_discreet)
    return logger
