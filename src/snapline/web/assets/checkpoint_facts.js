// What is known of one checkpoint, in words: its type, its fields, and why it took its time.

import { h } from "./dom.js";
import { countText, duration, moment, NOTHING, size } from "./format.js";
import { nowMs } from "./state.js";
import { advice, path, prose } from "./widgets.js";

/** Why a checkpoint took its time, and what to change. */
export function why(explanation) {
  if (!explanation?.sentence) return null;
  return h(
    "div",
    { class: `why ${explanation.cause === "nothing" ? "nothing" : ""}` },
    h("p", null, prose(explanation.sentence)),
    advice(explanation.advice),
  );
}

const TYPES = {
  CHECKPOINT: "aligned",
  UNALIGNED_CHECKPOINT: "unaligned",
  SAVEPOINT: "savepoint",
  SYNC_SAVEPOINT: "savepoint to stop",
};

export function typeText(row) {
  const format = row.savepoint_format ? `, ${row.savepoint_format.toLowerCase()}` : "";
  return `${TYPES[row.type] ?? row.type}${format}`;
}

/** All fields of a checkpoint that are known. */
export function rowFacts(row) {
  const now = nowMs();
  return [
    ["Type", typeText(row)],
    ["Acknowledged", `${countText(row.acknowledged)} of ${countText(row.subtasks)} subtasks`],
    ["Triggered", moment(row.trigger_ms, now)],
    ["Latest acknowledgement", moment(row.latest_ack_ms, now)],
    row.completed_ms !== null && row.completed_ms !== undefined && row.completed_ms >= 0
      ? ["Completed", moment(row.completed_ms, now)]
      : null,
    row.failure ? ["Failed", moment(row.failure.failure_ms, now)] : null,
    ["End-to-end duration", duration(row.end_to_end_duration_ms)],
    ["Commit of the output", row.commit_ms >= 0 ? duration(row.commit_ms) : NOTHING],
    ["Checkpointed size", size(row.checkpointed_bytes)],
    ["Full size", size(row.state_bytes)],
    ["In-flight data processed", size(row.processed_bytes)],
    ["In-flight data persisted", size(row.persisted_bytes)],
    row.status === "COMPLETED"
      ? ["Path", row.discarded ? ["deleted: ", row.external_path ?? ""] : path(row.external_path)]
      : null,
  ];
}
