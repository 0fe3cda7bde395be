"""Heartbeats of data connections, and what the kernel is asked to watch."""

from __future__ import annotations

import socket

from snapline.runtime.network.heartbeat import Heartbeat, HeartbeatSettings, keep_alive

SETTINGS = HeartbeatSettings(interval_ms=1000, timeout_ms=5000)


class Connection:
    def __init__(self) -> None:
        self.is_ending = False
        self.is_heard = False
        self.sent = 0
        self.reasons: list[str] = []

    def take_heard(self) -> bool:
        is_heard, self.is_heard = self.is_heard, False
        return is_heard

    def send_heartbeat(self) -> None:
        self.sent += 1

    def give_up(self, reason: str) -> None:
        self.is_ending = True
        self.reasons.append(reason)


def beat(heartbeat: Heartbeat, *times: float) -> list[float | None]:
    return [heartbeat.flush_if_due(now) for now in times]


def look(heartbeat: Heartbeat, start: float, end: float) -> None:
    """Looks every quarter of a second, as the thread does that has time for it; the last at `end`."""
    beat(heartbeat, *(start + quarter / 4 for quarter in range(1, round((end - start) * 4) + 1)))


def test_it_beats_at_its_interval_as_long_as_something_comes() -> None:
    connection = Connection()
    heartbeat = Heartbeat(connection, SETTINGS, 100.0, has_begun=True)
    for now in range(100, 120):
        connection.is_heard = True
        assert beat(heartbeat, now, now + 0.25, now + 0.5, now + 0.75)[-1] == now + 1
    assert (connection.sent, connection.reasons) == (20, [])


def test_a_connection_that_is_silent_for_the_timeout_is_given_up_once() -> None:
    connection = Connection()
    heartbeat = Heartbeat(connection, SETTINGS, 100.0, has_begun=True)
    look(heartbeat, 100, 104.5)
    assert beat(heartbeat, 104.75, 105, 105.25) == [105, None, None]
    assert connection.reasons == ["nothing has come from it for 5 s (heartbeat_timeout)"]


def test_silence_before_the_first_word_of_whoever_dialled_does_not_count() -> None:
    connection = Connection()
    heartbeat = Heartbeat(connection, SETTINGS, 100.0, has_begun=False)
    look(heartbeat, 100, 124.75)
    assert connection.reasons == []
    connection.is_heard = True
    look(heartbeat, 124.75, 129.75)
    assert connection.reasons == []
    beat(heartbeat, 130)
    assert len(connection.reasons) == 1


def test_the_time_in_which_this_process_stood_still_does_not_count() -> None:
    connection = Connection()
    heartbeat = Heartbeat(connection, SETTINGS, 100.0, has_begun=True)
    look(heartbeat, 100, 101)
    assert beat(heartbeat, 130) == [130.25]  # silent for 1.25 s that count
    look(heartbeat, 130, 133.5)
    assert connection.reasons == []
    beat(heartbeat, 133.75)
    assert len(connection.reasons) == 1


def test_many_short_standstills_do_not_add_up_to_silence() -> None:
    connection = Connection()
    heartbeat = Heartbeat(connection, SETTINGS, 100.0, has_begun=True)
    beat(heartbeat, *(100 + 2 * times for times in range(1, 20)))  # 4.75 s that count
    assert connection.reasons == []
    beat(heartbeat, 140)
    assert len(connection.reasons) == 1


def test_a_connection_that_ends_has_no_heartbeat() -> None:
    connection = Connection()
    connection.is_ending = True
    assert beat(Heartbeat(connection, SETTINGS, 0.0, has_begun=True), 1) == [None]
    assert connection.sent == 0


def test_the_kernel_ends_a_connection_whose_other_end_does_not_answer() -> None:
    with socket.socket() as sock:
        keep_alive(sock, 20_000)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)
        assert [sock.getsockopt(socket.IPPROTO_TCP, option) for option in options] == [5, 5, 3, 20_000]
        keep_alive(sock, 100)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 1
