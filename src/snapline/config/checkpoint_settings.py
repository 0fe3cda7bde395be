"""How a job takes, keeps and restores its checkpoints."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from snapline.config.secret import Secret, SecretLike
from snapline.config.setting_checks import Mode, Path, Settings, count, file_mode, flag, member, path, paths, wrong
from snapline.config.storage_options import StorageOptions, StorageOptionsLike
from snapline.config.units import Duration, Size, duration_ms, size_bytes
from snapline.types import ClaimMode, ExternalizedRetention, SavepointFormat

MIN_CHECKPOINT_TIME_MS = 10
"""Least interval and least timeout of a checkpoint."""

MAX_MIN_PAUSE_MS = 365 * 86_400_000
"""A longer pause between checkpoints counts as this one."""

MAX_INLINE_THRESHOLD_BYTES = 1 << 20

MIN_METADATA_LIMIT_BYTES = 1 << 20

_ACE = r"[a-z0-9]+:[^,]*:[cdrwa]+"
_ACL = re.compile(f"{_ACE}(,{_ACE})*")
_HOSTS = re.compile(r"[A-Za-z0-9._\-\[\]:]+:[0-9]{1,5}(,[A-Za-z0-9._\-\[\]:]+:[0-9]{1,5})*")


class CheckpointMode(Enum):
    """How often a record may count in the state after a failure."""

    EXACTLY_ONCE = "EXACTLY_ONCE"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"


@dataclass(frozen=True, slots=True, init=False)
class Checkpoints(Settings):
    """How a job takes, keeps and restores its checkpoints.

    When they are taken
        interval: time between the starts of two periodic checkpoints, at least 10 ms; None disables periodic
            checkpoints, while savepoints and manual checkpoints still work.
        interval_during_backlog: interval while a source reports backlog; under 10 ms (0) disables periodic checkpoints
            during backlog; None uses `interval` for both.
        min_pause: least time from the completion of one to the start of the next periodic one, at most 365 days;
            a shorter interval is raised to the pause.
        max_concurrent: how many may be in progress at once; must be 1 with `unaligned` and with `min_pause`.
        timeout: a checkpoint is aborted if it is not complete this long after its request, a periodic one after its
            start; at least 10 ms.
        pause_sources_until_first: sources wait for the first checkpoint to complete, which then starts early; needs
            `interval`.
        after_tasks_finish: whether checkpoints continue once some tasks have finished. False is refused for a job
            with a sink that commits, which could not commit the rest of its output exactly once.
    How they are taken
        mode: EXACTLY_ONCE, or AT_LEAST_ONCE, which never blocks a channel and cannot be combined with `unaligned`.
        unaligned: barriers may overtake data, which then becomes part of the checkpoint.
        aligned_timeout: with `unaligned`, start aligned, switch after this time; 0 is unaligned at once.
        asynchronous: state is written on other threads while the task goes on; False makes the task wait until it is
            written, which needs no second copy of state that changes meanwhile.
        incremental: reuse files of the last completed checkpoint where the state backend can (RocksDB).
        inline_threshold: state smaller than this is stored within the metadata file; at most 1 MB.
        compress: whether state files are compressed (zstd): smaller, but slower to write.
    What happens when one fails
        tolerable_failures: the job fails over when more than this many fail in a row; None never fails it over, but
            the log warns.
        committer_retries: how often a commit that asks for a retry gets one before the job fails over.
    Where they are kept, and for how long
        storage: directory or URL for checkpoints; None keeps them in the driver, where they are lost with it.
        storage_options: how to reach it, and the other directories here: `sl.S3(...)`, or options by scheme,
            `{"hdfs": {"user": "jobs"}}`. Every process of the job resolves the secrets in it on its own machine.
        memory_limit: largest single state of a subtask that may be kept in the driver.
        zookeeper: servers (`host:port,host:port`) that keep the journal of the job's checkpoints; None keeps it in
            `storage`.
        zookeeper_auth: credential for them, which the driver resolves: `user:password`, or with another scheme than
            digest before it, `scheme credential`.
        zookeeper_acl: who may do what with the journal there, `scheme:id:permissions` separated by commas, with the
            permissions c, d, r, w and a; None is everything for the holders of the same credential, or without one for
            everybody.
        local_directory: directory on each machine for copies of its tasks' snapshots, so that a task restarted there
            need not fetch them; None keeps no copies. Needs `storage`.
        create_subdirectory: whether a job's checkpoints go into a directory of `storage` named after its id.
        retained: how many completed ones to keep, at least 1.
        externalized: what happens to them when the job ends; None is RETAIN_ON_CANCELLATION, which deletes them only
            after a job has finished, or NO_EXTERNALIZED without `storage`.
        directory_mode: mode of directories made on a file system, `"0700"`, and of files without its x; None follows
            the umask of the processes.
        metadata_limit: size above which the metadata of a snapshot is neither written nor read.
        parallel_cleanup: whether the files of a checkpoint are deleted in parallel.
        savepoint_dir: where savepoints without a directory of their own go.
        savepoint_format: format of savepoints that name none.
    What the job starts from
        restore_from: a checkpoint or savepoint: its directory, or its `_metadata` file.
        trusted_directories: where else files of restored snapshots may be, beside `storage`, `savepoint_dir` and the
            directory of `restore_from`.
        claim_mode: who owns that snapshot from then on.
        allow_non_restored: start even if it holds state of operators this job does not have.
        allow_newer_output: start even if a sink has committed output that is newer than `restore_from`: its rows are
            written again.
        ignore_in_flight_of: drop the in-flight data when restoring exactly this checkpoint id.
    Limits
        max_queued_requests: how many checkpoint requests may wait.
        remembered_expired: expired checkpoint ids remembered to recognise late messages.
        history: how many checkpoints `handle.checkpoints()` shows; with monitoring at least `Monitoring(history)`.
    """

    interval_ms: int | None
    interval_during_backlog_ms: int | None
    min_pause_ms: int
    max_concurrent: int
    timeout_ms: int
    pause_sources_until_first: bool
    after_tasks_finish: bool
    mode: CheckpointMode
    unaligned: bool
    aligned_timeout_ms: int
    asynchronous: bool
    incremental: bool
    inline_threshold_bytes: int
    compress: bool
    tolerable_failures: int | None
    committer_retries: int
    storage: str | None
    storage_options: StorageOptions
    memory_limit_bytes: int
    zookeeper: str | None
    zookeeper_auth: Secret | None
    zookeeper_acl: str | None
    local_directory: str | None
    create_subdirectory: bool
    retained: int
    externalized: ExternalizedRetention
    directory_mode: int | None
    metadata_limit_bytes: int
    parallel_cleanup: bool
    savepoint_dir: str | None
    savepoint_format: SavepointFormat
    restore_from: str | None
    trusted_directories: tuple[str, ...]
    claim_mode: ClaimMode
    allow_non_restored: bool
    allow_newer_output: bool
    ignore_in_flight_of: int | None
    max_queued_requests: int
    remembered_expired: int
    history: int

    def __init__(
        self,
        *,
        interval: Duration | None = None,
        interval_during_backlog: Duration | None = None,
        min_pause: Duration = "0ms",
        max_concurrent: int = 1,
        timeout: Duration = "10min",
        pause_sources_until_first: bool = False,
        after_tasks_finish: bool = True,
        mode: CheckpointMode | str = CheckpointMode.EXACTLY_ONCE,
        unaligned: bool = False,
        aligned_timeout: Duration = "0ms",
        asynchronous: bool = True,
        incremental: bool = False,
        inline_threshold: Size = "20kb",
        compress: bool = False,
        tolerable_failures: int | None = None,
        committer_retries: int = 10,
        storage: Path | None = None,
        storage_options: StorageOptionsLike | None = None,
        memory_limit: Size = "5MB",
        zookeeper: str | None = None,
        zookeeper_auth: SecretLike | None = None,
        zookeeper_acl: str | None = None,
        local_directory: Path | None = None,
        create_subdirectory: bool = True,
        retained: int = 1,
        externalized: ExternalizedRetention | str | None = None,
        directory_mode: Mode | None = None,
        metadata_limit: Size = "1GB",
        parallel_cleanup: bool = True,
        savepoint_dir: Path | None = None,
        savepoint_format: SavepointFormat | str = SavepointFormat.CANONICAL,
        restore_from: Path | None = None,
        trusted_directories: Path | Sequence[Path] = (),
        claim_mode: ClaimMode | str = ClaimMode.NO_CLAIM,
        allow_non_restored: bool = False,
        allow_newer_output: bool = False,
        ignore_in_flight_of: int | None = None,
        max_queued_requests: int = 1000,
        remembered_expired: int = 16,
        history: int = 10,
    ) -> None:
        self._fill(
            interval_ms=None if interval is None else _checkpoint_time(interval, "interval"),
            interval_during_backlog_ms=_backlog_interval(interval_during_backlog, interval),
            min_pause_ms=min(duration_ms(min_pause, setting="min_pause"), MAX_MIN_PAUSE_MS),
            max_concurrent=count(max_concurrent, "max_concurrent", least=1),
            timeout_ms=_checkpoint_time(timeout, "timeout"),
            pause_sources_until_first=flag(pause_sources_until_first, "pause_sources_until_first"),
            after_tasks_finish=flag(after_tasks_finish, "after_tasks_finish"),
            mode=member(CheckpointMode, mode, "mode"),
            unaligned=flag(unaligned, "unaligned"),
            aligned_timeout_ms=duration_ms(aligned_timeout, setting="aligned_timeout"),
            asynchronous=flag(asynchronous, "asynchronous"),
            incremental=flag(incremental, "incremental"),
            inline_threshold_bytes=_inline_threshold(inline_threshold),
            compress=flag(compress, "compress"),
            tolerable_failures=None
            if tolerable_failures is None
            else count(tolerable_failures, "tolerable_failures", least=0),
            committer_retries=count(committer_retries, "committer_retries", least=0),
            storage=path(storage, "storage"),
            storage_options=StorageOptions.of(storage_options),
            memory_limit_bytes=size_bytes(memory_limit, setting="memory_limit"),
            zookeeper=None if zookeeper is None else _hosts(zookeeper),
            zookeeper_auth=None if zookeeper_auth is None else Secret.of(zookeeper_auth, "zookeeper_auth"),
            zookeeper_acl=None if zookeeper_acl is None else _acl(zookeeper_acl),
            local_directory=path(local_directory, "local_directory"),
            create_subdirectory=flag(create_subdirectory, "create_subdirectory"),
            retained=count(retained, "retained", least=1),
            externalized=_externalized(externalized, storage),
            directory_mode=file_mode(directory_mode, "directory_mode"),
            metadata_limit_bytes=_metadata_limit(metadata_limit),
            parallel_cleanup=flag(parallel_cleanup, "parallel_cleanup"),
            savepoint_dir=path(savepoint_dir, "savepoint_dir"),
            savepoint_format=member(SavepointFormat, savepoint_format, "savepoint_format"),
            restore_from=path(restore_from, "restore_from"),
            trusted_directories=paths(trusted_directories, "trusted_directories"),
            claim_mode=member(ClaimMode, claim_mode, "claim_mode"),
            allow_non_restored=flag(allow_non_restored, "allow_non_restored"),
            allow_newer_output=flag(allow_newer_output, "allow_newer_output"),
            ignore_in_flight_of=None
            if ignore_in_flight_of is None
            else count(ignore_in_flight_of, "ignore_in_flight_of", least=1, most=None),
            max_queued_requests=count(max_queued_requests, "max_queued_requests", least=1),
            remembered_expired=count(remembered_expired, "remembered_expired", least=0),
            history=count(history, "history", least=0),
        )
        self._check_combinations()

    def _check_combinations(self) -> None:
        if self.unaligned and self.mode is CheckpointMode.AT_LEAST_ONCE:
            raise wrong(
                "unaligned", True, "needs mode EXACTLY_ONCE, not AT_LEAST_ONCE; change `mode` or set unaligned=False"
            )
        if self.unaligned and self.max_concurrent != 1:
            raise wrong(
                "max_concurrent", self.max_concurrent, "must be 1 with unaligned=True; set it to 1 or unaligned=False"
            )
        if self.min_pause_ms > 0 and self.max_concurrent != 1:
            raise wrong(
                "max_concurrent",
                self.max_concurrent,
                "must be 1 with min_pause: no checkpoint starts within the pause after another; leave out one of them",
            )
        if self.pause_sources_until_first and self.interval_ms is None:
            raise wrong(
                "pause_sources_until_first",
                True,
                "sources would wait for a checkpoint that nobody takes, and read nothing; set `interval` too",
            )
        if self.local_directory is not None and self.storage is None:
            raise wrong(
                "local_directory",
                self.local_directory,
                "there is nothing to copy: checkpoints stay in the driver; set `storage` too",
            )
        if self.externalized is not ExternalizedRetention.NO_EXTERNALIZED and self.storage is None:
            raise wrong(
                "externalized",
                self.externalized.value,
                "there is nowhere to keep checkpoints after the job; set `storage` to a directory",
            )
        if self.zookeeper is not None and self.storage is None:
            raise wrong(
                "zookeeper",
                self.zookeeper,
                "it keeps only the journal; the checkpoints would be lost with the driver; set `storage` too",
            )
        for name in ("zookeeper_auth", "zookeeper_acl"):
            if getattr(self, name) is not None and self.zookeeper is None:
                raise wrong(name, getattr(self, name), "has no effect without ZooKeeper; set `zookeeper` too")

    @property
    def is_periodic(self) -> bool:
        """Whether checkpoints are taken without anyone asking."""
        return self.interval_ms is not None

    @property
    def effective_interval_ms(self) -> int | None:
        """Time between the starts of two periodic checkpoints while no source reports backlog; None if there are none.

        A checkpoint cannot start before the pause is over, so an interval below `min_pause_ms` counts as that pause.
        """
        return None if self.interval_ms is None else max(self.interval_ms, self.min_pause_ms)

    @property
    def effective_interval_during_backlog_ms(self) -> int | None:
        """The same while a source reports backlog; None if there are no periodic checkpoints then."""
        if self.interval_during_backlog_ms is None:
            return self.effective_interval_ms
        if self.interval_during_backlog_ms == 0:
            return None
        return max(self.interval_during_backlog_ms, self.min_pause_ms)


def _checkpoint_time(value: Duration, setting: str) -> int:
    milliseconds = duration_ms(value, setting=setting)
    if milliseconds < MIN_CHECKPOINT_TIME_MS:
        hint = "; leave it out for no periodic checkpoints" if setting == "interval" else ""
        raise wrong(setting, value, f"too short; use at least {MIN_CHECKPOINT_TIME_MS}ms{hint}")
    return milliseconds


def _backlog_interval(value: Duration | None, interval: Duration | None) -> int | None:
    if value is None:
        return None
    milliseconds = duration_ms(value, setting="interval_during_backlog")
    if interval is None:
        raise wrong("interval_during_backlog", value, "has no effect without periodic checkpoints; set `interval` too")
    return milliseconds if milliseconds >= MIN_CHECKPOINT_TIME_MS else 0


def _externalized(value: ExternalizedRetention | str | None, storage: Path | None) -> ExternalizedRetention:
    if value is not None:
        return member(ExternalizedRetention, value, "externalized")
    is_kept = storage is not None
    return ExternalizedRetention.RETAIN_ON_CANCELLATION if is_kept else ExternalizedRetention.NO_EXTERNALIZED


def _hosts(value: str) -> str:
    if not isinstance(value, str) or not _HOSTS.fullmatch(value):
        raise wrong("zookeeper", value, 'give its servers as "host:port", several separated by commas')
    return value


def _acl(value: str) -> str:
    if not isinstance(value, str) or not _ACL.fullmatch(value):
        raise wrong("zookeeper_acl", value, 'give "scheme:id:permissions", such as "auth::cdrwa,world:anyone:r"')
    return value


def _metadata_limit(value: Size) -> int:
    size = size_bytes(value, setting="metadata_limit")
    if size < MIN_METADATA_LIMIT_BYTES:
        raise wrong("metadata_limit", value, "the metadata of a job may not fit; use at least 1MB")
    return size


def _inline_threshold(value: Size) -> int:
    size = size_bytes(value, setting="inline_threshold")
    if size > MAX_INLINE_THRESHOLD_BYTES:
        raise wrong("inline_threshold", value, "the metadata file would grow too large; use at most 1MB")
    return size
