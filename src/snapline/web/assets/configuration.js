// The part Configuration: what the job really runs with, the most important settings first.

import { h } from "./dom.js";
import { durationText, sizeText } from "./format.js";
import { changed, state } from "./state.js";
import { code, facts, panel, table } from "./widgets.js";

const TITLES = { checkpoints: "Checkpoints", execution: "Execution", restart: "Restart", monitoring: "Monitoring" };

export function checkpointConfiguration() {
  if (!state.configuration) return h("p", { class: "loading" }, "Loading.");
  const { sections } = state.configuration;
  return [
    panel("Checkpointing", null, facts(important(sections.checkpoints ?? {}, sections), { class: "wide" })),
    h(
      "label",
      { class: "filter" },
      "Find a setting ",
      h("input", {
        type: "search",
        value: state.filters.settings ?? "",
        oninput: (event) => filter(event.currentTarget.value),
      }),
    ),
    h(
      "div",
      { class: "settings" },
      Object.entries(sections).map(([name, settings]) => section(name, settings)),
    ),
  ];
}

function filter(text) {
  state.filters.settings = text;
  changed();
}

const EXTERNAL = {
  NO_EXTERNALIZED: "no: deleted when the job ends",
  RETAIN_ON_CANCELLATION: "yes; kept if the job is cancelled or fails",
  DELETE_ON_CANCELLATION: "yes; deleted if the job is cancelled",
};

function important(settings, sections) {
  const mode = settings.mode ? settings.mode.replaceAll("_", " ").toLowerCase() : null;
  return [
    ["Mode", mode],
    ["Interval", settings.interval_ms === null ? "off: no periodic checkpoints" : durationText(settings.interval_ms)],
    ["Timeout", durationText(settings.timeout_ms)],
    ["Minimum pause", durationText(settings.min_pause_ms)],
    ["Most at once", settings.max_concurrent],
    ["Unaligned", settings.unaligned ? `yes, after ${durationText(settings.aligned_timeout_ms)} of alignment` : "no"],
    ["Kept externally", EXTERNAL[settings.externalized] ?? settings.externalized],
    ["Storage", settings.storage ? code(settings.storage) : "the driver's memory: lost with it"],
    ["State backend", sections.execution?.state_backend ?? null],
    ["Incremental", settings.incremental ? "yes" : "no"],
    ["Tolerable failures in a row", settings.tolerable_failures === null ? "any number" : settings.tolerable_failures],
    ["Checkpoints after tasks finish", settings.after_tasks_finish ? "yes" : "no"],
  ].map((pair) => (pair[1] === undefined ? null : pair));
}

function section(name, settings) {
  const wanted = (state.filters.settings ?? "").trim().toLowerCase();
  const rows = Object.entries(settings ?? {}).filter(([setting, value]) =>
    `${setting} ${JSON.stringify(value)}`.toLowerCase().includes(wanted),
  );
  if (rows.length === 0) return null;
  return panel(
    TITLES[name] ?? name,
    { key: name },
    table(
      `Settings: ${TITLES[name] ?? name}`,
      ["Setting", "Value"],
      rows.map(([setting, value]) =>
        h(
          "tr",
          { key: setting },
          h("th", { scope: "row" }, code(plainName(setting))),
          h("td", { class: "setting", title: `${setting} = ${JSON.stringify(value)}` }, valueText(setting, value)),
        ),
      ),
    ),
  );
}

// The unit is part of the value that is shown.
function plainName(setting) {
  return setting.replace(/_(ms|bytes)$/, "");
}

function valueText(setting, value) {
  if (value === null || value === undefined) return h("span", { class: "muted" }, "none");
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number" && setting.endsWith("_ms")) return durationText(value);
  if (typeof value === "number" && setting.endsWith("_bytes")) return sizeText(value);
  if (typeof value === "number") return value.toLocaleString("en");
  if (Array.isArray(value))
    return value.length
      ? value.map((item) => (typeof item === "object" ? JSON.stringify(item) : String(item))).join(", ")
      : h("span", { class: "muted" }, "none");
  if (typeof value !== "object") return String(value);
  return Object.keys(value).length ? JSON.stringify(value) : h("span", { class: "muted" }, "none");
}
