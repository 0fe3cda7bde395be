// The tab Checkpoints: its parts Overview, History, Summary and Configuration.

import { durationChart, nameOf, sizeChart } from "./charts.js";
import { rowFacts, why } from "./checkpoint_facts.js";
import { checkpointConfiguration } from "./configuration.js";
import { h } from "./dom.js";
import { countText, moment, NOTHING } from "./format.js";
import { history } from "./history.js";
import { link, PARTS } from "./route.js";
import { nowMs, state } from "./state.js";
import { summary } from "./summary.js";
import { code, facts, panel, path, statusLabel, tabPanel, tabs } from "./widgets.js";

const TITLES = { overview: "Overview", history: "History", summary: "Summary", configuration: "Configuration" };

export function checkpoints(job) {
  const { part } = state.route;
  const items = PARTS.map((name) => ({
    name,
    title: TITLES[name],
    href: link(job.jid, "checkpoints", name),
    isSelected: name === part,
  }));
  return [tabs("Checkpoints", "part", items, { class: "sub-tabs" }), tabPanel("part", part, null, content(job, part))];
}

function content(job, part) {
  if (part === "configuration") return checkpointConfiguration();
  if (!state.checkpoints) return h("p", { class: "loading" }, "Loading.");
  if (part === "history") return history(job);
  return part === "summary" ? summary() : overview(job, state.checkpoints);
}

function overview(job, { counts, latest, restored, not_started: notStarted, history: rows }) {
  return [
    h(
      "dl",
      { class: "figures counts" },
      [
        ["Triggered", counts.total],
        ["In progress", counts.in_progress],
        ["Completed", counts.completed],
        ["Failed", counts.failed],
        ["Restored", counts.restored],
      ].map(([name, value]) =>
        h(
          "div",
          { key: name, class: "figure" },
          h("dt", null, name),
          h("dd", { class: `value ${name === "Failed" && value ? "bad-text" : ""}` }, countText(value)),
        ),
      ),
    ),
    panel(
      "Over time",
      { class: "charts" },
      rows.length
        ? h("div", { class: "chart-pair" }, durationChart(job, rows), sizeChart(job, rows))
        : h("p", { class: "empty" }, "No checkpoint yet."),
    ),
    h(
      "div",
      { class: "latest" },
      latestPanel(job, "Latest completed checkpoint", latest.completed),
      latestPanel(job, "Latest savepoint", latest.savepoint),
      latestPanel(job, "Latest failed checkpoint", latest.failed),
      restorePanel(restored),
      notStarted ? notStartedPanel(notStarted) : null,
    ),
  ];
}

function latestPanel(job, title, row) {
  if (!row) return panel(title, { key: title, class: "empty-panel" }, h("p", { class: "empty" }, "None so far."));
  return panel(
    title,
    { key: title },
    h(
      "p",
      { class: "latest-name" },
      row.id < 0
        ? nameOf(row)
        : h(
            "a",
            {
              href: link(job.jid, "checkpoints", "history", row.id),
              onclick: () => state.opened.add(`checkpoint ${row.id}`),
            },
            nameOf(row),
          ),
      " ",
      statusLabel(row.status),
    ),
    row.failure ? h("p", { class: "reason" }, code(row.failure.reason), " ", row.failure.message) : null,
    why(row.explanation),
    facts(rowFacts(row)),
  );
}

function restorePanel(restored) {
  const title = "Latest restore";
  if (!restored)
    return panel(
      title,
      { key: title, class: "empty-panel" },
      h("p", { class: "empty" }, "None: the job started without a snapshot."),
    );
  return panel(
    title,
    { key: title },
    facts([
      ["Type", restored.is_savepoint ? "from a savepoint" : "from a checkpoint"],
      ["Id", countText(restored.id)],
      ["Restored", moment(restored.restore_ms, nowMs())],
      ["Path", path(restored.external_path)],
      restored.left_behind?.length ? ["State left behind", restored.left_behind.join(", ")] : null,
    ]),
  );
}

function notStartedPanel(failure) {
  return panel(
    "Latest that could not start",
    { key: "not started" },
    facts([
      ["When", moment(failure.failure_ms, nowMs())],
      ["Reason", code(failure.reason)],
      ["What it says", failure.message || NOTHING],
    ]),
  );
}
