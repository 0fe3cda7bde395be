"""What runs: for each part of the comparison the systems, their variants, and the number of events."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.peers.nexmark_events import QUERIES, SQL_QUERIES

DEFAULT_EVENTS = 10_000_000
ALL_QUERIES = {"sql": SQL_QUERIES}
"""The queries of the parts that take `--queries`."""
CHECK_EVENTS = {"a": 40_000, "b": 20_000, "c": 40_000, "sql": 40_000}
CHECK_KEYS = 1000

PARTS = {
    "a": "count and sum by key, 100,000 keys",
    "b": "a Python function of each row with state, 100,000 keys",
    "c": "Nexmark",
    "sql": "Nexmark from SQL texts",
}


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run a system.

    `share` multiplies the number of events: enough for several checkpoints, few enough for a slow variant to finish.
    """

    system: str
    name: str
    arguments: tuple[str, ...]
    share: float = 1.0

    def events(self, events: int) -> int:
        return max(int(events * self.share) // 100 * 100, 100)


@dataclass(frozen=True, slots=True)
class System:
    """A system in one part. Its best variant counts; `check` has the arguments of the run that is compared, if one is.

    `leaves_out` are the queries that it has no text for.
    """

    name: str
    peer: str
    module: str
    modules: tuple[str, ...]
    check: tuple[str, ...] | None
    leaves_out: tuple[str, ...] = ()


SNAPLINE = ("snapline", "benchmarks.peers.snapline_jobs", ("snapline", "pyspark"))
FLINK = ("flink", "benchmarks.peers.flink_sql", ("pyflink",))
PYFLINK = ("flink", "benchmarks.peers.flink_python", ("pyflink",))
SPARK = ("spark", "benchmarks.peers.structured_streaming", ("pyspark",))
SPARK_SQL = ("spark", "benchmarks.peers.structured_sql", ("pyspark",))
STATEFUL_SPARK = (SPARK[0], SPARK[1], ("pyspark", "pandas", "google.protobuf", "grpc"))
BYTEWAX = ("bytewax", "benchmarks.peers.bytewax_state", ("bytewax",))

SYSTEMS: dict[str, tuple[System, ...]] = {
    "a": (
        System("Snapline", *SNAPLINE, ("totals",)),
        System("Flink SQL", *FLINK, ("totals",)),
        System("Structured Streaming", *SPARK, ("--workload", "sql")),
    ),
    "b": (
        System("Snapline, function of a row", *SNAPLINE, ("function",)),
        System("Snapline, function of a batch", *SNAPLINE, ("vectorised",)),
        System("PyFlink, process mode", *PYFLINK, ("--mode", "process")),
        System("PyFlink, thread mode", *PYFLINK, ("--mode", "thread")),
        System("transformWithStateInPandas", *STATEFUL_SPARK, ("--workload", "pandas", "--store", "rocksdb")),
        System("transformWithState", *STATEFUL_SPARK, ("--workload", "rows", "--store", "rocksdb")),
        System("bytewax", *BYTEWAX, ()),
    ),
    "c": (
        System("Snapline", *SNAPLINE, ("nexmark", "--queries", ",".join(QUERIES))),
        System("Flink SQL", *FLINK, ("nexmark", "--queries", ",".join(QUERIES))),
    ),
    "sql": (
        System("Snapline SQL", *SNAPLINE, ("nexmark", "--sql")),
        System("Snapline API", *SNAPLINE, ("nexmark",)),
        System("Flink SQL", *FLINK, ("nexmark",), ("q13",)),
        System("Structured Streaming", *SPARK_SQL, None),
    ),
}
"""The others are compared with the first of each part."""

_STATE = ("--store", "rocksdb")

VARIANTS: dict[str, tuple[Variant, ...]] = {
    "a": (
        Variant("Snapline", "emit_every 1 s", ("totals",), 6.0),
        Variant("Snapline", "by batch", ("totals by batch",), 3.0),
        Variant("Flink SQL", "mini-batch off", ("totals",)),
        Variant("Flink SQL", "mini-batch on", ("totals", "--mini-batch")),
        Variant("Structured Streaming", "HDFS-backed store", ("--workload", "sql", "--store", "hdfs")),
        Variant("Structured Streaming", "RocksDB store", ("--workload", "sql", "--store", "rocksdb")),
    ),
    "b": (
        Variant("Snapline, function of a row", "map_with_state", ("function",), 0.5),
        Variant("Snapline, function of a batch", "update_state", ("vectorised",), 2.0),
        Variant("PyFlink, process mode", "default", ("--mode", "process"), 0.002),
        Variant("PyFlink, process mode", "large cache", ("--mode", "process", "--settings", "large cache"), 0.003),
        Variant("PyFlink, thread mode", "default", ("--mode", "thread"), 0.03),
        Variant("transformWithStateInPandas", "RocksDB store", ("--workload", "pandas", *_STATE), 0.005),
        Variant("transformWithState", "RocksDB store", ("--workload", "rows", *_STATE), 0.01),
        Variant("bytewax", "2 processes", ("--workers", "processes"), 0.3),
        Variant("bytewax", "2 threads", ("--workers", "threads"), 0.3),
    ),
    "c": (
        Variant("Snapline", "default", ("nexmark",)),
        Variant("Flink SQL", "mini-batch off", ("nexmark",), 0.5),
        Variant("Flink SQL", "mini-batch on", ("nexmark", "--mini-batch"), 0.5),
    ),
    "sql": (
        Variant("Snapline SQL", "default", ("nexmark", "--sql")),
        Variant("Snapline API", "default", ("nexmark",)),
        Variant("Flink SQL", "mini-batch off", ("nexmark",), 0.5),
        Variant("Structured Streaming", "HDFS-backed store", ("nexmark",), 0.25),
    ),
}

INSTALL = {
    "snapline": "pip install 'snapline[spark]'",
    "spark": "pip install pyspark 'pandas<3' protobuf grpcio",
    "flink": "pip install apache-flink",
    "bytewax": "pip install bytewax",
}
