from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from tests import sql_kit as kit

import snapline as sl
from snapline.errors import ConfigurationError
from snapline.sql.lowering.lowered_stream import Context
from snapline.sql.lowering.relation_streams import lowered_relation
from snapline.sql.plans.fingerprints import Uids
from snapline.sql.plans.trees import Attribute, Plan
from snapline.testing import ThreadCluster

RATE = (Attribute(1, "timestamp", kit.TIME), Attribute(2, "value", pa.int64()))


def relation(name: str, output: tuple[Attribute, ...] = RATE, **options: str) -> Plan:
    arguments = {"sourceName": name, "extraOptions": options, "source": "Provider"}
    return Plan("StreamingRelationV2", output, (), {}, arguments, True, f"source {name}")


def files(kind: str, path: Path, **options: str) -> Plan:
    source = {"className": kind, "options": {"path": str(path), **options}, "paths": ()}
    return Plan("StreamingRelation", (Attribute(1, "id", pa.int64()),), (), {}, {"dataSource": source}, True, kind)


def context(*, is_bounded: bool = False) -> Context:
    return Context(sl.Job("sources"), Uids(), is_bounded=is_bounded)


def test_files_are_read_to_their_end(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2], "more": ["a", "b"]}), tmp_path / "rows.parquet")
    made = lowered_relation(files("parquet", tmp_path), context(is_bounded=True))
    assert sorted(made.stream.collect(ThreadCluster())["id"].to_pylist()) == [1, 2]


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, [1, None]), ({"pathglobfilter": "*.json"}, [1]), ({"recursivefilelookup": "true"}, [1, None, 3])],
)
def test_options_say_which_files_are_read(tmp_path: Path, options: dict[str, str], expected: list[Any]) -> None:
    (tmp_path / "below").mkdir()
    for name, text in (("a.json", '{"id": 1}'), ("b.txt", '{"id": "none"}'), ("below/c.txt", '{"id": 3}')):
        (tmp_path / name).write_text(f"{text}\n")
    made = lowered_relation(files("json", tmp_path, **options), context(is_bounded=True))
    found = made.stream.collect(ThreadCluster())["id"].to_pylist()
    assert Counter(found) == Counter(expected)


@pytest.mark.parametrize("name", ["rate", "rate-micro-batch", "socket"])
def test_sources_have_the_columns_of_the_query(name: str) -> None:
    output = (Attribute(1, "value", pa.string()),) if name == "socket" else RATE
    options: dict[str, Any] = {"rowsperbatch": "5", "host": "localhost", "port": "1"}
    made = lowered_relation(relation(name, output, **options), context())
    assert made.stream.schema.names == [each.name for each in output]


def test_a_watermark_is_made_at_the_source() -> None:
    made = lowered_relation(relation("rate"), context(), sl.Watermarks("timestamp", delay="1s"))
    assert made.stream._event_time == frozenset({"timestamp"})


@pytest.mark.parametrize(
    "plan",
    [
        relation("memory"),
        relation("rate-micro-batch"),
        files("csv", Path("x"), comment="#"),
        files("text", Path("x"), wholetext="true"),
        files("parquet", Path("x"), pathglobfilter="*.{a,b}"),
    ],
)
def test_what_cannot_be_read_is_refused(plan: Plan) -> None:
    with pytest.raises(ConfigurationError, match="What to do"):
        lowered_relation(plan, context())


def test_a_source_that_never_ends_cannot_be_read_to_its_end() -> None:
    with pytest.raises(ConfigurationError, match="never ends"):
        lowered_relation(relation("rate"), context(is_bounded=True))


def test_files_of_other_formats_and_partitions_are_read(tmp_path: Path) -> None:
    pyarrow.orc.write_table(pa.table({"id": [1, 2]}), tmp_path / "rows.orc")
    made = lowered_relation(files("orc", tmp_path), context(is_bounded=True))
    assert sorted(made.stream.collect(ThreadCluster())["id"].to_pylist()) == [1, 2]
    directory = tmp_path / "parts" / "id=7"
    directory.mkdir(parents=True)
    (directory / "rows.csv").write_text("x\n")
    given = files("csv", tmp_path / "parts")
    given = replace(given, output=(Attribute(2, "s", pa.string()), *given.output))
    made = lowered_relation(given, context(is_bounded=True))
    assert made.stream.collect(ThreadCluster()).to_pylist() == [{"s": "x", "id": 7}]
