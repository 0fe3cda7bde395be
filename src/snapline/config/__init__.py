"""Settings of a job: frozen, checked when made, with durations in milliseconds and sizes in bytes.

Constructors take what people write (`"2s"`, `"64MB"`, `timedelta(minutes=5)`, `"exactly_once"`); attributes hold what
code needs, with the unit in the name (`interval_ms`). A wrong value raises `ConfigurationError` at once, and the
message names the setting, the value and what to do.
"""

from snapline.config.checkpoint_settings import CheckpointMode, Checkpoints
from snapline.config.execution_settings import Encryption, Execution, StateBackend
from snapline.config.monitoring_settings import NO_MONITORING, Monitoring
from snapline.config.restart_strategies import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartStrategy,
    default_restart,
)
from snapline.config.secret import Secret, SecretLike
from snapline.config.setting_checks import MAX_COUNT, Mode, Path, Ports, port_range
from snapline.config.storage_options import S3, StorageOptions, StorageOptionsLike
from snapline.config.units import Duration, Size, duration_ms, size_bytes

__all__ = [
    "MAX_COUNT",
    "NO_MONITORING",
    "S3",
    "CheckpointMode",
    "Checkpoints",
    "Duration",
    "Encryption",
    "Execution",
    "ExponentialDelay",
    "FailureRate",
    "FixedDelay",
    "Mode",
    "Monitoring",
    "NoRestart",
    "Path",
    "Ports",
    "RestartStrategy",
    "Secret",
    "SecretLike",
    "Size",
    "StateBackend",
    "StorageOptions",
    "StorageOptionsLike",
    "default_restart",
    "duration_ms",
    "port_range",
    "size_bytes",
]
