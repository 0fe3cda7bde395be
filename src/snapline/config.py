"""Settings: frozen, checked when made, with durations in milliseconds and sizes in bytes behind their friendly forms.

Constructors take what people write (`"2s"`, `"64MB"`, `timedelta(minutes=5)`, `"exactly_once"`); the attributes hold
what code needs, with the unit in the name (`interval_ms`). Whatever is wrong raises `ConfigurationError` at once, and
the message names the setting, the value that was given and what to do.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from os import PathLike, fspath
from typing import TypeAlias, TypeVar

from snapline.errors import ConfigurationError
from snapline.types import ClaimMode, ExternalizedRetention, SavepointFormat

Duration: TypeAlias = "str | timedelta | int"
"""A number with a unit (`"2s"`), or a `timedelta`. Of the bare numbers only 0 is accepted: it is 0 in every unit."""

Size: TypeAlias = "str | int"
"""A number with a unit (`"64MB"`), or a number of bytes."""

Path: TypeAlias = "str | PathLike[str]"

MIN_CHECKPOINT_TIME_MS = 10
"""Least interval and least timeout of a checkpoint."""

MAX_MIN_PAUSE_MS = 365 * 86_400_000
"""A longer pause between checkpoints counts as this one."""

MAX_DURATION_MS = 100 * 365 * 86_400_000
MAX_SIZE_BYTES = 1 << 60
MAX_COUNT = 1_000_000
"""Upper limit of every setting that counts something, so that no limit can be set to «none» by a slip."""

MAX_INLINE_THRESHOLD_BYTES = 1 << 20

_MILLISECONDS = {
    unit: factor
    for factor, units in (
        (1, ("ms", "milli", "millis", "millisecond", "milliseconds")),
        (1_000, ("s", "sec", "secs", "second", "seconds")),
        (60_000, ("m", "min", "mins", "minute", "minutes")),
        (3_600_000, ("h", "hour", "hours")),
        (86_400_000, ("d", "day", "days")),
    )
    for unit in units
}
_BYTES = {
    unit: factor
    for factor, units in (
        (1, ("b", "byte", "bytes")),
        (1 << 10, ("k", "kb", "kib")),
        (1 << 20, ("m", "mb", "mib")),
        (1 << 30, ("g", "gb", "gib")),
        (1 << 40, ("t", "tb", "tib")),
    )
    for unit in units
}
_HOSTS = re.compile(r"[A-Za-z0-9._\-\[\]:]+:[0-9]{1,5}(,[A-Za-z0-9._\-\[\]:]+:[0-9]{1,5})*")
_QUANTITY = re.compile(r"\s*(?P<number>[0-9]{1,20}(?:\.[0-9]{1,20})?)\s*(?P<unit>[A-Za-z]*)\s*")

E = TypeVar("E", bound=Enum)


class CheckpointMode(Enum):
    """How often a record may count in the state after a failure."""

    EXACTLY_ONCE = "EXACTLY_ONCE"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"


def duration_ms(value: Duration, *, setting: str = "duration") -> int:
    """Milliseconds of `value`; `setting` is the name an error message uses.

    Units are ms, s, min, h and d, also in words and in any case. A part of a millisecond counts as a whole one, so
    that a small duration never turns into 0, which often means «off».
    """
    if isinstance(value, timedelta):
        milliseconds = -(-value // timedelta(milliseconds=1))
    elif isinstance(value, str):
        milliseconds = _quantity(value, setting, _MILLISECONDS, kind="duration", example="2s")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if value != 0:
            raise _wrong(setting, value, f'a bare number has no unit; add one, for example "{value}ms" or "{value}s"')
        milliseconds = 0
    else:
        raise _wrong(setting, value, 'not a duration; write a number with a unit such as "2s", or a timedelta')
    if milliseconds < 0:
        raise _wrong(setting, value, "a duration cannot be negative; use 0 or more")
    if milliseconds > MAX_DURATION_MS:
        raise _wrong(setting, value, f"too long; use at most {MAX_DURATION_MS // 86_400_000}d")
    return milliseconds


def size_bytes(value: Size, *, setting: str = "size") -> int:
    """Bytes of `value`; `setting` is the name an error message uses.

    A bare whole number is a number of bytes. Units are B, KB, MB, GB and TB in any case, each 1024 times the one
    before; a part of a byte counts as a whole one.
    """
    if isinstance(value, str):
        size = _quantity(value, setting, _BYTES, kind="size", example="64MB", bare_factor=1)
    elif isinstance(value, int) and not isinstance(value, bool):
        size = value
    else:
        raise _wrong(setting, value, 'not a size; write a number with a unit such as "64MB", or a number of bytes')
    if size < 0:
        raise _wrong(setting, value, "a size cannot be negative; use 0 or more")
    if size > MAX_SIZE_BYTES:
        raise _wrong(setting, value, f"too large; use at most {MAX_SIZE_BYTES >> 40}TB")
    return size


class _Settings:
    """Base of the settings objects: lets a constructor that takes friendly values fill a frozen dataclass."""

    __slots__ = ()

    def _fill(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True, init=False)
class Checkpoints(_Settings):
    """How a job takes, keeps and restores its checkpoints.

    When they are taken
        interval: time between the starts of two periodic checkpoints, at least 10 ms; None takes none by itself,
            savepoints and manual checkpoints still work.
        interval_during_backlog: used instead while a source reports backlog; under 10 ms (0) takes none during
            backlog; None makes no difference between the two.
        min_pause: least time from the completion of one to the start of the next periodic one, at most 365 days;
            an interval shorter than the pause counts as long as the pause.
        max_concurrent: how many may be under way at once; must be 1 with `unaligned`.
        timeout: a checkpoint that takes longer is given up; at least 10 ms.
        pause_sources_until_first: sources hold back until the first checkpoint has completed, which then starts early.
        after_tasks_finish: whether checkpoints go on once some tasks have finished.
    How they are taken
        mode: EXACTLY_ONCE, or AT_LEAST_ONCE, which never blocks a channel and cannot be combined with `unaligned`.
        unaligned: barriers may overtake data, which then becomes part of the checkpoint.
        aligned_timeout: with `unaligned`, start aligned and change over after this time; 0 is unaligned at once.
        incremental: reuse files of the last completed checkpoint where the state backend can.
        inline_threshold: state smaller than this is stored within the metadata file; at most 1 MB.
        compress: whether state files are compressed (zstd): smaller, and slower to write.
    What happens when one fails
        tolerable_failures: the job fails when more than this many fail in a row; None never fails it.
        committer_retries: how often a commit that asks for a retry gets one before the job fails over.
    Where they are kept, and for how long
        storage: directory or URL for checkpoints; None keeps them in the driver, where they are lost with it.
        memory_limit: largest single state of a subtask that may be kept in the driver.
        zookeeper: servers (`host:port,host:port`) that keep the journal of the job's checkpoints; None keeps it in
            `storage`.
        local_directory: directory on each machine for copies of a task's own snapshots, so that a task that comes back
            to the machine need not fetch them; None keeps no copies.
        create_subdirectory: whether a job's checkpoints go into a directory of `storage` named after its id.
        retained: how many completed ones to keep, at least 1.
        externalized: what becomes of them when the job ends.
        parallel_cleanup: whether the files of a checkpoint are deleted in parallel.
        savepoint_dir: where savepoints go that name no directory of their own.
        savepoint_format: format of savepoints that name none of their own.
    Where the job starts from
        restore_from: a checkpoint or savepoint: its directory, or its `_metadata` file.
        claim_mode: who owns that snapshot from then on.
        allow_non_restored: start even if it holds state of operators this job does not have.
        ignore_in_flight_of: drop the in-flight data when restoring exactly this checkpoint id.
    Limits
        max_queued_requests: requests for a checkpoint that may wait.
        remembered_expired: expired ids that are remembered to recognise late messages.
        history: checkpoints shown by the monitoring page and the REST interface.
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
    incremental: bool
    inline_threshold_bytes: int
    compress: bool
    tolerable_failures: int | None
    committer_retries: int
    storage: str | None
    memory_limit_bytes: int
    zookeeper: str | None
    local_directory: str | None
    create_subdirectory: bool
    retained: int
    externalized: ExternalizedRetention
    parallel_cleanup: bool
    savepoint_dir: str | None
    savepoint_format: SavepointFormat
    restore_from: str | None
    claim_mode: ClaimMode
    allow_non_restored: bool
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
        incremental: bool = False,
        inline_threshold: Size = "20kb",
        compress: bool = False,
        tolerable_failures: int | None = None,
        committer_retries: int = 10,
        storage: Path | None = None,
        memory_limit: Size = "5MB",
        zookeeper: str | None = None,
        local_directory: Path | None = None,
        create_subdirectory: bool = True,
        retained: int = 1,
        externalized: ExternalizedRetention | str = ExternalizedRetention.NO_EXTERNALIZED,
        parallel_cleanup: bool = True,
        savepoint_dir: Path | None = None,
        savepoint_format: SavepointFormat | str = SavepointFormat.CANONICAL,
        restore_from: Path | None = None,
        claim_mode: ClaimMode | str = ClaimMode.NO_CLAIM,
        allow_non_restored: bool = False,
        ignore_in_flight_of: int | None = None,
        max_queued_requests: int = 1000,
        remembered_expired: int = 16,
        history: int = 10,
    ) -> None:
        self._fill(
            interval_ms=None if interval is None else _checkpoint_time(interval, "interval"),
            interval_during_backlog_ms=_backlog_interval(interval_during_backlog, interval),
            min_pause_ms=min(duration_ms(min_pause, setting="min_pause"), MAX_MIN_PAUSE_MS),
            max_concurrent=_count(max_concurrent, "max_concurrent", least=1),
            timeout_ms=_checkpoint_time(timeout, "timeout"),
            pause_sources_until_first=_flag(pause_sources_until_first, "pause_sources_until_first"),
            after_tasks_finish=_flag(after_tasks_finish, "after_tasks_finish"),
            mode=_member(CheckpointMode, mode, "mode"),
            unaligned=_flag(unaligned, "unaligned"),
            aligned_timeout_ms=duration_ms(aligned_timeout, setting="aligned_timeout"),
            incremental=_flag(incremental, "incremental"),
            inline_threshold_bytes=_inline_threshold(inline_threshold),
            compress=_flag(compress, "compress"),
            tolerable_failures=None
            if tolerable_failures is None
            else _count(tolerable_failures, "tolerable_failures", least=0),
            committer_retries=_count(committer_retries, "committer_retries", least=0),
            storage=_path(storage, "storage"),
            memory_limit_bytes=size_bytes(memory_limit, setting="memory_limit"),
            zookeeper=None if zookeeper is None else _hosts(zookeeper),
            local_directory=_path(local_directory, "local_directory"),
            create_subdirectory=_flag(create_subdirectory, "create_subdirectory"),
            retained=_count(retained, "retained", least=1),
            externalized=_member(ExternalizedRetention, externalized, "externalized"),
            parallel_cleanup=_flag(parallel_cleanup, "parallel_cleanup"),
            savepoint_dir=_path(savepoint_dir, "savepoint_dir"),
            savepoint_format=_member(SavepointFormat, savepoint_format, "savepoint_format"),
            restore_from=_path(restore_from, "restore_from"),
            claim_mode=_member(ClaimMode, claim_mode, "claim_mode"),
            allow_non_restored=_flag(allow_non_restored, "allow_non_restored"),
            ignore_in_flight_of=None
            if ignore_in_flight_of is None
            else _count(ignore_in_flight_of, "ignore_in_flight_of", least=1, most=None),
            max_queued_requests=_count(max_queued_requests, "max_queued_requests", least=1),
            remembered_expired=_count(remembered_expired, "remembered_expired", least=0),
            history=_count(history, "history", least=0),
        )
        self._check_combinations()

    def _check_combinations(self) -> None:
        if self.unaligned and self.mode is CheckpointMode.AT_LEAST_ONCE:
            raise _wrong(
                "unaligned", True, "needs mode EXACTLY_ONCE, not AT_LEAST_ONCE; change `mode` or set unaligned=False"
            )
        if self.unaligned and self.max_concurrent != 1:
            raise _wrong(
                "max_concurrent", self.max_concurrent, "must be 1 with unaligned=True; set it to 1 or unaligned=False"
            )
        if self.externalized is not ExternalizedRetention.NO_EXTERNALIZED and self.storage is None:
            raise _wrong(
                "externalized",
                self.externalized.value,
                "there is nowhere to keep checkpoints after the job; set `storage` to a directory",
            )
        if self.zookeeper is not None and self.storage is None:
            raise _wrong(
                "zookeeper",
                self.zookeeper,
                "it keeps only the journal, and the checkpoints would be lost with the driver; set `storage` too",
            )

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


@dataclass(frozen=True, slots=True)
class NoRestart:
    """The first failure of a task fails the job."""


@dataclass(frozen=True, slots=True, init=False)
class FixedDelay(_Settings):
    """Restart up to `attempts` times in the life of the job, `delay` after each failure."""

    attempts: int
    delay_ms: int

    def __init__(self, *, attempts: int = 1, delay: Duration = "1s") -> None:
        self._fill(attempts=_count(attempts, "attempts", least=0), delay_ms=duration_ms(delay, setting="delay"))


@dataclass(frozen=True, slots=True, init=False)
class FailureRate(_Settings):
    """Restart `delay` after a failure, unless there were more than `max_failures_per_interval` within `interval`."""

    max_failures_per_interval: int
    interval_ms: int
    delay_ms: int

    def __init__(
        self, *, max_failures_per_interval: int = 1, interval: Duration = "1min", delay: Duration = "1s"
    ) -> None:
        self._fill(
            max_failures_per_interval=_count(max_failures_per_interval, "max_failures_per_interval", least=1),
            interval_ms=_positive_duration(interval, "interval"),
            delay_ms=duration_ms(delay, setting="delay"),
        )


@dataclass(frozen=True, slots=True, init=False)
class ExponentialDelay(_Settings):
    """Restart after a delay that grows with every failure and starts anew once the job has been stable.

    initial_backoff: the first delay, and the least.
    max_backoff: the greatest delay.
    multiplier: growth from one delay to the next, above 1.
    jitter: part of the delay (0 to 1) by which chance may shorten or lengthen it.
    reset_threshold: a job that runs this long after a restart starts again from `initial_backoff`.
    attempts_before_reset: restarts without such a stable time before the job fails; None is no limit.
    """

    initial_backoff_ms: int
    max_backoff_ms: int
    multiplier: float
    jitter: float
    reset_threshold_ms: int
    attempts_before_reset: int | None

    def __init__(
        self,
        *,
        initial_backoff: Duration = "1s",
        max_backoff: Duration = "1min",
        multiplier: float = 1.5,
        jitter: float = 0.1,
        reset_threshold: Duration = "1h",
        attempts_before_reset: int | None = None,
    ) -> None:
        self._fill(
            initial_backoff_ms=_positive_duration(initial_backoff, "initial_backoff"),
            max_backoff_ms=_positive_duration(max_backoff, "max_backoff"),
            multiplier=_number(multiplier, "multiplier"),
            jitter=_number(jitter, "jitter"),
            reset_threshold_ms=_positive_duration(reset_threshold, "reset_threshold"),
            attempts_before_reset=None
            if attempts_before_reset is None
            else _count(attempts_before_reset, "attempts_before_reset", least=1),
        )
        if self.initial_backoff_ms > self.max_backoff_ms:
            raise _wrong(
                "initial_backoff",
                initial_backoff,
                f"longer than max_backoff ({self.max_backoff_ms}ms); lower it or raise max_backoff",
            )
        if self.multiplier <= 1:
            raise _wrong("multiplier", multiplier, "the delay would not grow; use more than 1, or FixedDelay")
        if not 0 <= self.jitter <= 1:
            raise _wrong("jitter", jitter, "is a part of the delay; use 0 to 1")


RestartStrategy: TypeAlias = NoRestart | FixedDelay | FailureRate | ExponentialDelay


def default_restart(checkpointing_on: bool) -> RestartStrategy:
    """The strategy of a job that names none: there is none without checkpoints, as a restart would repeat all work.

    The first restart comes soon, since most are in place and take a fraction of a second themselves.
    """
    return ExponentialDelay(initial_backoff="100ms") if checkpointing_on else NoRestart()


def _wrong(setting: str, given: object, what_to_do: str) -> ConfigurationError:
    return ConfigurationError(f"{setting}={given!r}: {what_to_do}")


def _quantity(
    text: str, setting: str, factors: dict[str, int], *, kind: str, example: str, bare_factor: int | None = None
) -> int:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise _wrong(setting, text, f'not a {kind}; write a number of 0 or more with a unit, for example "{example}"')
    number, unit = Decimal(match["number"]), match["unit"].lower()
    if unit:
        factor = factors.get(unit)
        if factor is None:
            raise _wrong(setting, text, f"unknown unit {match['unit']!r}; use one of {', '.join(factors)}")
    elif bare_factor is not None:
        factor = bare_factor
    elif number == 0:
        factor = 1
    else:
        raise _wrong(setting, text, f'a bare number has no unit; add one, for example "{example}"')
    return math.ceil(number * factor)


def _checkpoint_time(value: Duration, setting: str) -> int:
    milliseconds = duration_ms(value, setting=setting)
    if milliseconds < MIN_CHECKPOINT_TIME_MS:
        hint = "; leave it out for no periodic checkpoints" if setting == "interval" else ""
        raise _wrong(setting, value, f"too short; use at least {MIN_CHECKPOINT_TIME_MS}ms{hint}")
    return milliseconds


def _backlog_interval(value: Duration | None, interval: Duration | None) -> int | None:
    if value is None:
        return None
    milliseconds = duration_ms(value, setting="interval_during_backlog")
    if interval is None:
        raise _wrong("interval_during_backlog", value, "has no effect without periodic checkpoints; set `interval` too")
    return milliseconds if milliseconds >= MIN_CHECKPOINT_TIME_MS else 0


def _positive_duration(value: Duration, setting: str) -> int:
    milliseconds = duration_ms(value, setting=setting)
    if milliseconds == 0:
        raise _wrong(setting, value, "must be longer than nothing; use at least 1ms")
    return milliseconds


def _hosts(value: str) -> str:
    if not isinstance(value, str) or not _HOSTS.fullmatch(value):
        raise _wrong("zookeeper", value, 'give its servers as "host:port", several separated by commas')
    return value


def _inline_threshold(value: Size) -> int:
    size = size_bytes(value, setting="inline_threshold")
    if size > MAX_INLINE_THRESHOLD_BYTES:
        raise _wrong("inline_threshold", value, "the metadata file would grow too large; use at most 1MB")
    return size


def _count(value: object, setting: str, *, least: int, most: int | None = MAX_COUNT) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(setting, value, "not a whole number; give an int")
    if value < least:
        raise _wrong(setting, value, f"too small; use at least {least}")
    if most is not None and value > most:
        raise _wrong(setting, value, f"too large; use at most {most}")
    return value


def _number(value: object, setting: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise _wrong(setting, value, "not a finite number; give a float")
    return float(value)


def _flag(value: object, setting: str) -> bool:
    # "false" is true in Python, so a text that slipped in from a configuration file must not pass
    if not isinstance(value, bool):
        raise _wrong(setting, value, "neither True nor False; give one of them")
    return value


def _member(kind: type[E], value: E | str, setting: str) -> E:
    if isinstance(value, kind):
        return value
    name = value.strip().upper().replace("-", "_") if isinstance(value, str) else ""
    if name not in kind.__members__:
        raise _wrong(setting, value, f"unknown; use one of {', '.join(kind.__members__)}")
    return kind[name]


def _path(value: Path | None, setting: str) -> str | None:
    if value is None:
        return None
    try:
        path = fspath(value)
    except TypeError:
        path = None
    if not isinstance(path, str):
        raise _wrong(setting, value, "not a path; give a directory or URL as text, or a pathlib.Path")
    if not path.strip():
        raise _wrong(setting, value, "empty; give a directory or URL, or leave it out")
    return path
