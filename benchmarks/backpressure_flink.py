"""The topology of `benchmarks.backpressure` in PyFlink, run by an interpreter that has apache-flink.

`python backpressure_flink.py SECONDS SLOW PARALLELISM` prints one JSON object. It is not a module of the package: the
interpreter need not have Snapline.
"""

from __future__ import annotations

import json
import socket
import statistics
import sys
import tempfile
import time
import urllib.request
from typing import Any

MODES = ("aligned", "unaligned", "aligned with timeout")


def main() -> None:
    seconds, slow, parallelism = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    print(json.dumps({mode: measure(mode, seconds, slow, parallelism) for mode in MODES}))


def measure(mode: str, seconds: float, slow: float, parallelism: int) -> dict[str, Any]:
    from pyflink.common import Configuration, Types, WatermarkStrategy
    from pyflink.datastream import StreamExecutionEnvironment
    from pyflink.datastream.connectors.number_seq import NumberSequenceSource

    port = _free_port()
    configuration = Configuration()
    for name, value in {
        "rest.port": str(port),
        "rest.bind-port": str(port),
        "execution.checkpointing.interval": "500ms",
        "execution.checkpointing.dir": f"file://{tempfile.mkdtemp(prefix='flink-benchmark-')}",
        "execution.checkpointing.unaligned.enabled": str(mode != "aligned").lower(),
        "execution.checkpointing.aligned-checkpoint-timeout": "100ms" if mode == MODES[2] else "0ms",
        "web.checkpoints.history": "1000",
        "taskmanager.numberOfTaskSlots": str(parallelism),
        "python.executable": sys.executable,
    }.items():
        configuration.set_string(name, value)
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    environment.set_parallelism(parallelism)

    def pause(value: int) -> int:
        time.sleep(slow / 1000)
        return value

    numbers = environment.from_source(
        NumberSequenceSource(0, 1 << 60), WatermarkStrategy.no_watermarks(), "rows", Types.LONG()
    )
    mapped = numbers.rebalance().map(lambda value: value, output_type=Types.LONG()).rebalance()
    slowed = mapped.map(pause, output_type=Types.LONG())
    slowed.filter(lambda value: value < 0).print()
    client = environment.execute_async("backpressure")
    job = str(client.get_job_id())
    while _get(port, f"/jobs/{job}")["state"] != "RUNNING":
        time.sleep(0.1)
    time.sleep(seconds)
    seen = _get(port, f"/jobs/{job}/checkpoints")
    client.cancel().result()
    done = [item for item in seen["history"] if item["status"] == "COMPLETED" and item["id"] > 1]
    durations = sorted(item["end_to_end_duration"] for item in done)
    now_ms = time.time() * 1000
    ages = [now_ms - item["trigger_timestamp"] for item in seen["history"] if item["status"] == "IN_PROGRESS"]
    durations += [age for age in ages if age > max(durations, default=0)]
    persisted = [item.get("persisted_data", 0) for item in done]
    return {
        "completed": seen["counts"]["completed"],
        "failed": seen["counts"]["failed"],
        "p50_ms": statistics.median(durations) if durations else float("nan"),
        "p99_ms": durations[min(int(len(durations) * 0.99), len(durations) - 1)] if durations else float("nan"),
        "max_ms": durations[-1] if durations else float("nan"),
        "persisted_bytes_avg": sum(persisted) / max(len(persisted), 1),
    }


def _get(port: int, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return json.load(answer)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
