"""An archive of the classes that Spark loads: Java maps it instead of loading thousands of them at each start.

Tests start dozens of Sparks. `python -m snapline.devtools.servers` makes the archive once, in the environment of this
interpreter; a Java that cannot use it starts without it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from snapline.errors import ConfigurationError

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""JVMs live for seconds in tests: what makes them fast in the long run nearly doubles what their start costs."""
TIMEOUT_S = 300.0
TAIL_CHARACTERS = 1500

# Parts of Spark that tests use.
_PROGRAM = """
import sys
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.parallelize(range(4), 2).map(lambda number: number + 1).collect()
spark.range(100).withColumn("key", F.col("id") % 3).write.parquet(sys.argv[1] + "/rows")
rows = spark.read.parquet(sys.argv[1] + "/rows")
rows.groupBy("key").agg(F.sum("id"), F.max("id")).orderBy("key").collect()
rows.createOrReplaceTempView("rows")
spark.sql("SELECT a.key, count(*) n FROM rows a JOIN rows b ON a.id = b.id GROUP BY a.key HAVING n > 1").collect()
spark.readStream.format("rate").load().groupBy(F.window("timestamp", "1 second")).count().isStreaming
spark.stop()
"""


def classes_archive() -> Path:
    """Where the archive is, or would be."""
    return Path(sys.prefix) / f"spark-classes-{version('pyspark')}.jsa"


def java_options() -> str:
    """Options for a Java that starts quickly, with the archive if it was made."""
    archive = classes_archive()
    return f"{QUICK_START} -XX:SharedArchiveFile={archive} -Xlog:disable" if archive.exists() else QUICK_START


def ensure_classes_archive() -> Path:
    """Make the archive if it is missing. Raises ConfigurationError if Spark does not run."""
    archive = classes_archive()
    if archive.exists():
        return archive
    print("making an archive of the classes of Spark")
    with tempfile.TemporaryDirectory(prefix="spark-classes-", dir=archive.parent) as folder:
        made = Path(folder) / archive.name
        # Only for the Java that runs Spark, not for the one that works out how to start it.
        options = f"--driver-java-options '-XX:ArchiveClassesAtExit={made} -Xlog:disable' pyspark-shell"
        environment = {**os.environ, "JAVA_TOOL_OPTIONS": QUICK_START, "PYSPARK_SUBMIT_ARGS": options}
        try:
            run = subprocess.run(  # noqa: S603  # our own interpreter
                [sys.executable, "-c", _PROGRAM, folder],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"no archive of the classes of Spark within {TIMEOUT_S:g} s: it starts without")
            return archive
        if run.returncode:
            raise ConfigurationError(f"Spark does not run: {run.stdout.decode(errors='replace')[-TAIL_CHARACTERS:]}")
        if made.exists():  # else this Java makes none
            made.replace(archive)
    return archive
