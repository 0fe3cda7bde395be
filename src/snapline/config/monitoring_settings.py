"""How people and programs outside reach a running job."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address

from snapline.config.secret import Secret, SecretLike
from snapline.config.setting_checks import Ports, Settings, count, flag, ports, wrong

LOOPBACK = "127.0.0.1"
DEFAULT_PORTS = "4300-4399"


@dataclass(frozen=True, slots=True, init=False)
class Monitoring(Settings):
    """The page of a job, its REST interface and its metrics, served by the driver.

    Jobs of one program that have the same address share a server.

        enabled: whether anything is served.
        host: the address to listen on. Anything but loopback needs a `token`, or one is made up.
        port: the port to listen on, or a range to take the first free one of; None lets the system choose.
        token: what every request must carry, `Authorization: Bearer <token>`; None asks for none on loopback.
        read_only: refuse everything that changes the job: checkpoints, savepoints, stop, cancel, dispose.
        history: how many checkpoints are shown and kept beside the job's checkpoints, served or not, so that a new
            driver and `snapline ui` show the past; 0 keeps nothing.
        traces: report checkpoints and recoveries to OpenTelemetry, as the program has set it up. Needs the extra
            `otel`.
    """

    enabled: bool
    host: str
    port: str | None
    token: Secret | None
    read_only: bool
    history: int
    traces: bool

    def __init__(
        self,
        *,
        enabled: bool = True,
        host: str = LOOPBACK,
        port: Ports | None = DEFAULT_PORTS,
        token: SecretLike | None = None,
        read_only: bool = False,
        history: int = 1000,
        traces: bool = False,
    ) -> None:
        self._fill(
            enabled=flag(enabled, "enabled"),
            host=_host(host),
            port=ports(port, "port"),
            token=None if token is None else Secret.of(token, "token"),
            read_only=flag(read_only, "read_only"),
            history=count(history, "history", least=0, most=100_000),
            traces=flag(traces, "traces"),
        )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host == "localhost" or ip_address(self.host).is_loopback


def _host(value: str) -> str:
    if value == "localhost":
        return value
    try:
        return str(ip_address(value))
    except ValueError:
        raise wrong(
            "host", value, 'not an address of this machine; give "127.0.0.1", its address, or "0.0.0.0" for all of them'
        ) from None


NO_MONITORING = Monitoring(enabled=False, history=0)
