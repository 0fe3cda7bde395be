"""`tests/unit` mirrors the package: the test of `snapline/a/b.py` is `tests/unit/a/test_b.py`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import snapline

SOURCE = Path(snapline.__file__).parent
UNIT = Path(__file__).parent
ROOT = UNIT.parents[1]

ABOUT_PACKAGES = frozenset(
    {
        "test_layers.py",
        "test_mirror.py",
        "test_public_names.py",
        "protocol/test_vocabulary.py",
        "testing/test_public_kit.py",
    }
)
"""Tests of whole packages: their imports, the names they export, their vocabulary."""

COVERED_ELSEWHERE: Mapping[str, str] = {
    "cli/demo_command.py": "tests/spark/test_demo.py",
    "cli/operation_wait.py": "tests/unit/cli/test_request_commands.py",
    "cli/snapshot_report.py": "tests/unit/cli/test_inspect_command.py",
    "cli/stored_end.py": "tests/unit/cli/test_request_commands.py",
    "connectors/data_source/offsets.py": "tests/contract/test_sources.py",
    "connectors/data_source/partition_reader.py": "tests/integration/test_data_sources.py",
    "connectors/delta/delta_commit.py": "tests/integration/delta/test_delta_races.py",
    "connectors/delta/delta_log.py": "tests/unit/connectors/delta/test_delta_source.py",
    "connectors/delta/delta_place.py": "tests/integration/delta/test_delta_on_s3.py",
    "connectors/delta/delta_rows.py": "tests/contract/test_delta.py",
    "connectors/delta/delta_table.py": "tests/unit/connectors/delta/test_delta_sink.py",
    "connectors/formats/avro_schemas.py": "tests/unit/connectors/formats/test_avro_format.py",
    "connectors/formats/json_types.py": "tests/unit/connectors/formats/test_json_format.py",
    "spark/own_session.py": "tests/spark/test_command_line.py",
    "spark/driver_sinks.py": "tests/spark/test_data_sources.py",
    "connectors/postgres/postgres_reader.py": "tests/contract/test_postgres_source.py",
    "connectors/postgres/postgres_session.py": "tests/contract/test_postgres_sink.py",
    "connectors/postgres/postgres_table.py": "tests/unit/connectors/postgres/test_postgres_sink.py",
    "connectors/postgres/prepared_writer.py": "tests/contract/test_postgres_sink.py",
    "contracts/master_hook.py": "tests/integration/test_master.py",
    "contracts/operator_coordinator.py": "tests/integration/test_operator_coordinators.py",
    "contracts/sink.py": "tests/contract/test_sinks.py",
    "devtools/servers/kafka_server.py": "tests/integration/servers/test_kafka_server.py",
    "devtools/servers/standalone_cluster.py": "tests/spark/test_exactly_once.py",
    "devtools/servers/zookeeper_server.py": "tests/contract/test_journals.py",
    "devtools/simulator/checkers.py": "tests/sim/test_simulator.py",
    "devtools/simulator/control_network.py": "tests/sim/test_simulator.py",
    "devtools/simulator/data_network.py": "tests/sim/test_simulator.py",
    "devtools/simulator/kernel.py": "tests/sim/test_simulator.py",
    "devtools/simulator/kernel_scheduler.py": "tests/sim/test_simulator.py",
    "devtools/simulator/large_job.py": "tests/sim/test_large_jobs.py",
    "devtools/simulator/ledger.py": "tests/sim/test_simulator.py",
    "devtools/simulator/line_coverage.py": "tests/sim/test_simulator.py",
    "devtools/simulator/mutant.py": "tests/sim/test_simulator.py",
    "devtools/simulator/mutants.py": "tests/sim/test_simulator.py",
    "devtools/simulator/outside.py": "tests/sim/test_simulator.py",
    "devtools/simulator/records.py": "tests/sim/test_simulator.py",
    "devtools/simulator/report.py": "tests/sim/test_simulator.py",
    "devtools/simulator/scenario.py": "tests/sim/test_simulator.py",
    "devtools/simulator/shell_mutants.py": "tests/sim/test_simulator.py",
    "devtools/simulator/sim_driver.py": "tests/sim/test_simulator.py",
    "devtools/simulator/sim_job.py": "tests/sim/test_simulator.py",
    "devtools/simulator/sim_operators.py": "tests/sim/test_simulator.py",
    "devtools/simulator/sim_state.py": "tests/sim/test_simulator.py",
    "devtools/simulator/sim_storage.py": "tests/sim/test_simulator.py",
    "devtools/simulator/simulation.py": "tests/sim/test_simulator.py",
    "devtools/simulator/simulator_command.py": "tests/sim/test_simulator.py",
    "devtools/simulator/slot_farm.py": "tests/sim/test_simulator.py",
    "devtools/simulator/world.py": "tests/sim/test_simulator.py",
    "protocol/job/lifecycle_events.py": "tests/unit/protocol/job/test_lifecycle.py",
    "runtime/master/attempt_start.py": "tests/unit/runtime/master/test_job_master.py",
    "runtime/master/master_handle.py": "tests/integration/test_master.py",
    "runtime/master/master_thread.py": "tests/integration/test_master.py",
    "runtime/master/start_master.py": "tests/integration/test_master.py",
    "runtime/network/exchange.py": "tests/integration/test_exchange.py",
    "runtime/network/region_channels.py": "tests/integration/test_exchange.py",
    "runtime/scheduler/scheduler.py": "tests/unit/runtime/scheduler/test_loop_scheduler.py",
    "runtime/slot/operator_process.py": "tests/integration/test_clusters.py",
    "runtime/slot/process_launcher.py": "tests/unit/runtime/slot/test_supervisor.py",
    "runtime/slot/slot_provider.py": "tests/integration/test_clusters.py",
    "runtime/task/task_environment.py": "tests/unit/runtime/task/test_task.py",
    "api/streaming_queries.py": "tests/spark/test_sql_queries.py",
    "sql/catalyst/catalog_tables.py": "tests/spark/test_sql_writers.py",
    "sql/catalyst/data_sources.py": "tests/spark/test_sql_writers.py",
    "sql/catalyst/plan_reader.py": "tests/spark/test_sql_queries.py",
    "sql/catalyst/plan_table.py": "tests/spark/test_sql_queries.py",
    "sql/catalyst/subquery_values.py": "tests/spark/test_sql_queries.py",
    "sql/job_queries.py": "tests/spark/test_sql_queries.py",
    "sql/lowering/function_streams.py": "tests/spark/test_sql_queries.py",
    "sql/lowering/lowered_stream.py": "tests/unit/sql/lowering/test_lowered_query.py",
    "sql/query_steps.py": "tests/spark/test_sql_steps.py",
    "sql/write_stream.py": "tests/spark/test_sql_queries.py",
    "sql/state_reader.py": "tests/spark/test_sql_steps.py",
    "state/collection_states.py": "tests/contract/test_backends.py",
    "state/keyed_backend.py": "tests/contract/test_backends.py",
    "state/memory_backend.py": "tests/contract/test_backends.py",
    "state/timers.py": "tests/contract/test_backends.py",
    "state/value_states.py": "tests/contract/test_backends.py",
    "storage/objects/object_store.py": "tests/contract/test_object_stores.py",
    "testing/replay.py": "tests/unit/devtools/replay/test_replay_command.py",
    "testing/sim.py": "tests/sim/test_simulator.py",
    "web/flink_checkpoint_types.py": "tests/unit/web/test_rest_app.py",
    "web/flink_handlers.py": "tests/unit/web/test_rest_app.py",
    "web/flink_operation_handlers.py": "tests/unit/web/test_rest_app.py",
    "web/flink_types.py": "tests/unit/web/test_rest_app.py",
    "web/job_requests.py": "tests/unit/web/test_rest_app.py",
    "web/monitored_job.py": "tests/unit/web/test_rest_app.py",
    "web/own_checkpoint_types.py": "tests/unit/web/test_rest_app.py",
    "web/own_handlers.py": "tests/unit/web/test_rest_app.py",
    "web/own_types.py": "tests/unit/web/test_rest_app.py",
}
"""Modules without a unit test of their own, each with the suite that covers it."""


def unit_tests() -> dict[str, Path]:
    """The file each unit test is about, relative to the package or to the root, with the test's path."""
    return {
        path.relative_to(UNIT).with_name(path.name.removeprefix("test_")).as_posix(): path
        for path in sorted(UNIT.rglob("test_*.py"))
        if path.relative_to(UNIT).as_posix() not in ABOUT_PACKAGES
    }


def modules() -> set[str]:
    """All modules of the package that need a test."""
    return {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if path.name not in ("__init__.py", "__main__.py")
    }


def test_every_unit_test_is_that_of_a_module() -> None:
    without = [
        str(path.relative_to(ROOT))
        for module, path in unit_tests().items()
        if not (SOURCE / module).exists() and not (module.startswith("benchmarks/") and (ROOT / module).exists())
    ]
    assert not without, "no module for:\n" + "\n".join(without)


def test_every_module_has_a_test() -> None:
    without = sorted(modules() - unit_tests().keys() - COVERED_ELSEWHERE.keys())
    assert not without, "write a unit test, or enter the suite in COVERED_ELSEWHERE, for:\n" + "\n".join(without)


def test_modules_covered_elsewhere_are() -> None:
    wrong = [
        *(f"{module}: no such module" for module in COVERED_ELSEWHERE.keys() - modules()),
        *(f"{module}: has a unit test" for module in COVERED_ELSEWHERE.keys() & unit_tests().keys()),
        *(f"{module}: no {suite}" for module, suite in COVERED_ELSEWHERE.items() if not (ROOT / suite).exists()),
    ]
    assert not wrong, "\n".join(sorted(wrong))
