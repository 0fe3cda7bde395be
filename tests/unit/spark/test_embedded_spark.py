"""The Java that Spark would use; `tests/spark/test_demo.py` starts and stops an embedded Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapline.errors import ConfigurationError
from snapline.spark.embedded_spark import check_java, java_version


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_291"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25-ea"', 25),
        ("not found", None),
    ],
)
def test_the_version_of_java_is_read(output: str, version: int | None) -> None:
    assert java_version(output) == version


def test_a_missing_or_old_java_is_reported_with_advice(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no `java` in PATH: install Java 17 or newer"):
        check_java({"PATH": str(tmp_path)})
    with pytest.raises(ConfigurationError, match=r"java \(from JAVA_HOME\) does not run"):
        check_java({"JAVA_HOME": str(tmp_path)})
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    for version, complaint in (
        ('version "11.0.2"', "is Java 11: install Java 17"),
        ("", "does not report its version"),
    ):
        program.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
        program.chmod(0o755)
        with pytest.raises(ConfigurationError, match=complaint):
            check_java({"JAVA_HOME": str(tmp_path)})
    program.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    check_java({"JAVA_HOME": str(tmp_path)})
