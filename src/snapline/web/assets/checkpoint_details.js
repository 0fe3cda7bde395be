// One checkpoint, opened: why it took its time, its critical path, the timeline, and tables by operator and subtask.

import { rowFacts } from "./checkpoint_facts.js";
import { h } from "./dom.js";
import { bareTime, countText, duration, size } from "./format.js";
import { nowMs, state, toggle } from "./state.js";
import { summaryTable } from "./summary.js";
import { pathList, timeline } from "./timeline.js";
import { advice, code, facts, firstRows, icon, number, prose, showAll, table, tableOfOpeners } from "./widgets.js";

const AT_FIRST = 100;

export function checkpointDetails(job, row, detail) {
  if (!detail) return h("p", { class: "loading" }, "Loading.");
  if (detail.error) return h("p", { class: "reason" }, detail.error);
  return h(
    "div",
    { class: "checkpoint-details" },
    explanation(detail),
    facts(rowFacts(row), { class: "wide" }),
    timeline(row, detail),
    h("h3", null, "By operator"),
    vertexTable(row, detail),
  );
}

function explanation({ explanation: found, failure, status }) {
  const failed = failure ? h("p", null, code(failure.reason), " ", failure.message) : null;
  if (!found?.sentence && !failed)
    return status === "IN_PROGRESS"
      ? h("p", { class: "muted" }, "In progress: the parts appear as subtasks acknowledge.")
      : null;
  const tone = failure ? "bad" : found.cause === "nothing" ? "good" : "warning";
  return h(
    "div",
    { class: `explanation ${tone}` },
    icon(tone),
    h(
      "div",
      null,
      failed,
      found?.sentence
        ? h(
            "p",
            null,
            h("strong", null, prose(found.sentence)),
            found.cause === "nothing" || found.cause === "failed" ? null : h("span", { class: "badge" }, found.cause),
          )
        : null,
      advice(found?.advice),
      found?.path?.length ? pathList(found.path) : null,
    ),
  );
}

const COLUMNS = [
  "Operator",
  "Acknowledged",
  "Latest acknowledgement",
  { text: "Duration", number: true },
  { text: "Checkpointed", number: true },
  { text: "Full size", number: true },
  { text: "In flight", number: true, title: "In-flight data processed (persisted)" },
];

function vertexTable(row, detail) {
  return tableOfOpeners(
    `Operators of checkpoint ${row.id}. Open one to see its subtasks.`,
    COLUMNS,
    detail.vertices.flatMap((vertex) => vertexRows(row, vertex)),
  );
}

function vertexRows(row, vertex) {
  const key = `operator ${row.id} ${vertex.id}`;
  const isOpen = state.opened.has(key);
  const rows = [
    h(
      "tr",
      { key, class: isOpen ? "is-open" : null },
      h(
        "th",
        { scope: "row" },
        h(
          "button",
          { type: "button", class: "opener", "aria-expanded": isOpen ? "true" : "false", onclick: () => toggle(key) },
          vertex.id,
        ),
      ),
      h("td", null, `${countText(vertex.acknowledged)} of ${countText(vertex.parallelism)}`),
      h("td", null, bareTime(vertex.latest_ack_ms, nowMs())),
      number(duration(vertex.end_to_end_duration_ms)),
      number(size(vertex.checkpointed_bytes)),
      number(size(vertex.state_bytes)),
      number(size(vertex.processed_bytes), " (", size(vertex.persisted_bytes), ")"),
    ),
  ];
  if (isOpen)
    rows.push(
      h("tr", { key: `${key} opened`, class: "opened" }, h("td", { colspan: COLUMNS.length }, opened(row, vertex))),
    );
  return rows;
}

const MEASURES = [
  ["end_to_end_duration_ms", "End-to-end duration", duration],
  ["start_delay_ms", "Start delay", duration],
  ["alignment_ms", "Alignment", duration],
  ["sync_ms", "Synchronous", duration],
  ["async_ms", "Asynchronous", duration],
  ["checkpointed_bytes", "Checkpointed size", size],
  ["state_bytes", "Full size", size],
  ["processed_bytes", "In-flight processed", size],
  ["persisted_bytes", "In-flight persisted", size],
];

function opened(row, vertex) {
  return h(
    "div",
    { class: "operator-details" },
    vertex.summary ? summaryTable(`Summary over the subtasks of ${vertex.id}`, MEASURES, vertex.summary, false) : null,
    subtaskTable(row, vertex),
  );
}

const SUBTASK_COLUMNS = [
  { text: "Subtask", number: true },
  "Acknowledged",
  ...[
    "Duration",
    "Start delay",
    "Alignment",
    "Synchronous",
    "Asynchronous",
    "Commit",
    "Checkpointed",
    "Full size",
    "In flight",
  ].map((text) => ({ text, number: true })),
  "Barriers",
];

function subtaskTable(row, vertex) {
  const key = `subtasks ${row.id} ${vertex.id}`;
  const isAll = state.opened.has(key);
  const shown = firstRows(vertex.subtasks, AT_FIRST, isAll);
  return [
    table(
      `Subtasks of ${vertex.id} in checkpoint ${row.id}`,
      SUBTASK_COLUMNS,
      shown.map((subtask) => subtaskRow(subtask)),
    ),
    showAll(vertex.subtasks.length, AT_FIRST, isAll, () => toggle(key)),
  ];
}

function subtaskRow(subtask) {
  return h(
    "tr",
    { key: subtask.index },
    h("th", { scope: "row", class: "number" }, subtask.index),
    h("td", null, subtask.acknowledged ? bareTime(subtask.ack_ms, nowMs()) : subtask.aborted ? "given up" : "not yet"),
    [
      subtask.end_to_end_duration_ms,
      subtask.start_delay_ms,
      subtask.alignment_ms,
      subtask.sync_ms,
      subtask.async_ms,
      subtask.commit_ms,
    ].map((ms) => number(duration(ms))),
    number(size(subtask.checkpointed_bytes)),
    number(size(subtask.state_bytes)),
    number(size(subtask.processed_bytes), " (", size(subtask.persisted_bytes), ")"),
    h("td", null, subtask.has_metrics ? (subtask.unaligned ? "unaligned" : "aligned") : "–"),
  );
}
