// The subtasks of a vertex, and the operators that run in it.

import { h } from "./dom.js";
import { bareTime, count, countText, duration, durationText, eventTime, lostRows, shareText, size } from "./format.js";
import { isOver, rateOf, shareBar } from "./shares.js";
import { state, toggle } from "./state.js";
import { code, firstRows, number, numberOver, showAll, statusLabel, table } from "./widgets.js";

const AT_FIRST = 100;

const COLUMNS = [
  { text: "Subtask", number: true },
  "Status",
  "Host",
  { text: "Rows in", number: true, title: "A second, and in total" },
  { text: "Rows out", number: true, title: "A second, and in total" },
  { text: "Bytes in", number: true, title: "In total, and queued now" },
  { text: "Bytes out", number: true, title: "In total, and queued now" },
  "Time",
  "Event time",
  { text: "Latency", number: true, title: "From the sources, the longest of the last interval" },
  { text: "Late", number: true },
  { text: "Bad", number: true },
];

export function subtaskTable(vertex, figures, now) {
  const key = `subtasks ${vertex.id}`;
  const isAll = state.opened.has(key);
  const shown = firstRows(figures.subtasks, AT_FIRST, isAll);
  return h(
    "div",
    { class: "vertex-details" },
    table(
      `Subtasks of ${vertex.id}`,
      COLUMNS,
      shown.map((subtask) => subtaskRow(subtask, now)),
    ),
    showAll(figures.subtasks.length, AT_FIRST, isAll, () => toggle(key)),
    problems(figures),
    operators(vertex),
  );
}

function subtaskRow(subtask, now) {
  const hasFigures = !isOver(subtask) && (subtask.busy ?? 0) + (subtask.idle ?? 0) + (subtask.backpressured ?? 0) > 0;
  return h(
    "tr",
    { key: subtask.index },
    h("th", { scope: "row", class: "number" }, subtask.index),
    h("td", null, statusLabel(subtask.status), h("div", { class: "under" }, "since ", bareTime(subtask.since_ms, now))),
    h("td", null, subtask.host || "–", h("div", { class: "under" }, `attempt ${subtask.attempt}`)),
    numberOver(rateOf(subtask, "rows_in"), count(subtask.rows_in)),
    numberOver(rateOf(subtask, "rows_out"), count(subtask.rows_out)),
    numberOver(size(subtask.bytes_in), [size(subtask.queued_in_bytes), " queued"]),
    numberOver(size(subtask.bytes_out), [size(subtask.queued_out_bytes), " queued"]),
    h(
      "td",
      null,
      shareBar(hasFigures ? subtask : null),
      hasFigures
        ? h(
            "div",
            { class: "under" },
            `${shareText(subtask.busy)} busy, ${shareText(subtask.backpressured)} back-pressured`,
          )
        : null,
    ),
    h("td", null, eventTime(subtask.watermark_ms, now)),
    number(duration(subtask.latency_ms)),
    number(lostRows(subtask.late_rows, "late-text")),
    number(lostRows(subtask.bad_rows, "bad-text")),
  );
}

const STUCK_MS = 5000;
const MOST_PROBLEMS = 20;

// What a table has no room for: rows that failed, commits that wait, calls that do not return.
function problems(figures) {
  const found = [];
  for (const subtask of figures.subtasks) {
    const who = `Subtask ${subtask.index}`;
    if (subtask.stuck_ms >= STUCK_MS) found.push(`${who} has been in one call for ${durationText(subtask.stuck_ms)}.`);
    if (subtask.last_bad_row) found.push(`${who}, last bad row: ${subtask.last_bad_row}`);
    const commit = subtask.commit;
    if (commit?.waiting) {
      const retries = commit.retries ? `, tried ${commit.retries} times before` : "";
      found.push(
        `${who}: output of ${countText(commit.waiting)} checkpoints waits for its commit, the oldest for ${durationText(commit.waiting_ms)}${retries}.`,
      );
    }
    if (commit?.last_problem) found.push(`${who}, last commit that did not succeed: ${commit.last_problem}`);
  }
  if (found.length === 0) return null;
  return h(
    "ul",
    { class: "problems" },
    found.slice(0, MOST_PROBLEMS).map((text, index) => h("li", { key: index }, text)),
  );
}

function operators(vertex) {
  return h(
    "details",
    { class: "folded" },
    h("summary", null, "Operators and their columns"),
    table(
      `Operators of ${vertex.id}`,
      ["Operator", "uid", "Keyed by", "State", "Columns of its output"],
      vertex.operators.map((operator, index) =>
        h(
          "tr",
          { key: index },
          h("th", { scope: "row" }, operator.name),
          h("td", null, code(operator.uid)),
          h("td", null, operator.key_columns?.join(", ") || "–"),
          h("td", null, operator.has_state ? "yes" : "no"),
          h(
            "td",
            { class: "columns" },
            (operator.columns ?? []).map(([name, type]) => `${name} ${type}`).join(", ") || "–",
          ),
        ),
      ),
    ),
  );
}
