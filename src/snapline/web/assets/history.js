// The part History: the latest checkpoints and savepoints, newest first. Each opens into its details.

import { checkpointDetails } from "./checkpoint_details.js";
import { typeText } from "./checkpoint_facts.js";
import { h } from "./dom.js";
import { bareTime, countText, duration, moment, size } from "./format.js";
import { loadOlder, pollNow } from "./poll.js";
import { link } from "./route.js";
import { changed, nowMs, state } from "./state.js";
import { code, icon, number, statusLabel, tableOfOpeners } from "./widgets.js";

const COLUMNS = [
  "Checkpoint",
  "Status",
  "Type",
  "Acknowledged",
  "Triggered",
  "Latest acknowledgement",
  { text: "Duration", number: true, title: "End to end: from the trigger to the last acknowledgement" },
  { text: "Checkpointed", number: true, title: "Written for this checkpoint" },
  { text: "Full size", number: true, title: "With files of older checkpoints that it reuses" },
  { text: "In flight", number: true, title: "In-flight data processed (persisted) during alignment" },
  { text: "Commit", number: true, title: "From its completion until all output was committed" },
];

export function history(job) {
  const rows = allRows();
  return h(
    "section",
    { class: "panel history", "aria-label": "History" },
    notStarted(state.checkpoints.not_started, rows),
    unknownDetails(),
    rows.length === 0
      ? h("p", { class: "empty" }, "No checkpoint yet.")
      : tableOfOpeners(
          "Checkpoints and savepoints, newest first. Open one to see its operators and subtasks.",
          COLUMNS,
          withRestore(rows).flatMap((row) =>
            row.restore_ms === undefined ? historyRows(job, row) : [restoreRow(row)],
          ),
        ),
    state.hasOlder ? h("button", { type: "button", class: "small", onclick: older }, "Show older") : null,
  );
}

// Links lead to checkpoints that are no longer in the list, such as the latest savepoint.
function allRows() {
  const rows = [...state.checkpoints.history, ...state.olderCheckpoints];
  const known = new Set(rows.map((row) => row.id));
  const linked = [...state.details.values()].filter((detail) => !detail.error && !known.has(detail.id));
  return linked.length ? [...rows, ...linked].sort((a, b) => b.id - a.id) : rows;
}

function unknownDetails() {
  const unknown = [...state.details].filter(([, detail]) => detail.error);
  return unknown.map(([id, detail]) =>
    h("p", { key: `unknown ${id}`, class: "banner warning" }, icon("warning"), h("span", null, detail.error)),
  );
}

function older(event) {
  const button = event.currentTarget;
  button.disabled = true;
  loadOlder().finally(() => {
    button.disabled = false;
  });
}

// Of the requests that became no checkpoint the latest is known, unless a checkpoint has started since.
function notStarted(failure, rows) {
  if (!failure || (rows[0]?.trigger_ms ?? 0) > failure.failure_ms) return null;
  return h(
    "p",
    { class: "banner warning" },
    icon("warning"),
    h(
      "span",
      null,
      h("strong", null, "A checkpoint could not start"),
      ", ",
      moment(failure.failure_ms, nowMs()),
      ": ",
      code(failure.reason),
      " ",
      failure.message,
    ),
  );
}

function withRestore(rows) {
  const restored = state.checkpoints.restored;
  if (!restored) return rows;
  const place = rows.findIndex((row) => row.trigger_ms < restored.restore_ms);
  if (place < 0 && state.hasOlder) return rows;
  return place < 0 ? [...rows, restored] : [...rows.slice(0, place), restored, ...rows.slice(place)];
}

function restoreRow(restored) {
  const from = `${restored.is_savepoint ? "savepoint" : "checkpoint"} ${restored.id}`;
  return h(
    "tr",
    { key: `restore ${restored.restore_ms}`, class: "restore" },
    h("th", { scope: "row" }, "Restore"),
    h(
      "td",
      { colspan: COLUMNS.length - 1 },
      `The job was restored from ${from}, `,
      moment(restored.restore_ms, nowMs()),
      restored.external_path ? [": ", code(restored.external_path)] : null,
    ),
  );
}

function historyRows(job, row) {
  const key = `checkpoint ${row.id}`;
  const isOpen = state.opened.has(key);
  const rows = [historyRow(job, row, key, isOpen)];
  if (isOpen) {
    rows.push(
      h(
        "tr",
        { key: `${key} opened`, class: "opened" },
        h("td", { colspan: COLUMNS.length }, checkpointDetails(job, row, state.details.get(row.id))),
      ),
    );
  }
  return rows;
}

function historyRow(job, row, key, isOpen) {
  const now = nowMs();
  const took = row.status === "IN_PROGRESS" ? Math.max(now - row.trigger_ms, 0) : row.end_to_end_duration_ms;
  return h(
    "tr",
    { key, class: `${row.status === "IN_PROGRESS" ? "in-progress" : ""} ${isOpen ? "is-open" : ""}`.trim() || null },
    h(
      "th",
      { scope: "row" },
      h(
        "button",
        {
          type: "button",
          class: "opener",
          "aria-expanded": isOpen ? "true" : "false",
          onclick: () => turn(job, row, key, isOpen),
        },
        `${row.id}`,
      ),
    ),
    h(
      "td",
      null,
      statusLabel(row.status),
      row.failure
        ? h(
            "div",
            { class: "reason", title: row.failure.message },
            row.failure.reason.replaceAll("_", " ").toLowerCase(),
          )
        : null,
    ),
    h("td", null, typeText(row)),
    h("td", null, acknowledged(row)),
    h("td", null, moment(row.trigger_ms, now)),
    h("td", null, bareTime(row.latest_ack_ms, now)),
    number(duration(took)),
    number(size(row.checkpointed_bytes)),
    number(size(row.state_bytes)),
    number(size(row.processed_bytes), " (", size(row.persisted_bytes), ")"),
    number(duration(row.commit_ms)),
  );
}

function acknowledged(row) {
  if (row.subtasks === 0) return "–";
  const share = row.subtasks ? row.acknowledged / row.subtasks : 0;
  return h(
    "span",
    { class: "acknowledged" },
    h(
      "svg",
      { class: "progress", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
      h("rect", { class: "rest", width: 100, height: 8 }),
      h("rect", { class: row.status === "FAILED" ? "failed" : "done", width: share * 100, height: 8 }),
    ),
    `${countText(row.acknowledged)}/${countText(row.subtasks)}`,
  );
}

function turn(job, row, key, isOpen) {
  if (isOpen) state.opened.delete(key);
  else state.opened.add(key);
  // The address names the one opened last, without an entry in the browser's history for each.
  window.history.replaceState(null, "", link(job.jid, "checkpoints", "history", isOpen ? null : row.id));
  pollNow();
  changed();
}
