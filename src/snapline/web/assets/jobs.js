// All jobs of this server.

import { h } from "./dom.js";
import { moment } from "./format.js";
import { link } from "./route.js";
import { state } from "./state.js";
import { icon, panel, statusLabel, table } from "./widgets.js";

export function jobList() {
  if (!state.jobs) return state.connection.kind === "connecting" ? h("p", { class: "loading" }, "Loading.") : null;
  if (state.jobs.length === 0) return h("p", { class: "empty" }, "No job runs here yet.");
  return panel(
    "Jobs",
    null,
    table(
      "Jobs of this server",
      ["Job", "Status", "Health", "Started", "Ended", { text: "Attempt", number: true }],
      state.jobs.map((job) => jobRow(job)),
    ),
  );
}

function jobRow(job) {
  return h(
    "tr",
    { key: job.jid },
    h(
      "th",
      { scope: "row" },
      h("a", { href: link(job.jid, "overview") }, job.name),
      h("div", { class: "muted" }, h("code", null, job.job_id)),
    ),
    h("td", null, statusLabel(job.status)),
    h("td", { class: "health-cell" }, icon(job.health.level), job.health.line),
    h("td", null, moment(job.started_ms, Date.now())),
    h("td", null, moment(job.ended_ms, Date.now())),
    h("td", { class: "number" }, job.attempt),
  );
}
