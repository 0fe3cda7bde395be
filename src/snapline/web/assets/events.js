// The tab Events: what happened to the job, newest first.

import { h } from "./dom.js";
import { countText, moment } from "./format.js";
import { changed, nowMs, state, toggle } from "./state.js";
import { firstRows, panel, showAll, table } from "./widgets.js";

const AT_FIRST = 200;

export function events() {
  const wanted = (state.filters.events ?? "").trim().toLowerCase();
  const found = state.events.filter((event) => event.text.toLowerCase().includes(wanted)).reverse();
  const isAll = state.opened.has("events");
  return panel(
    "Events",
    null,
    h(
      "label",
      { class: "filter" },
      "Find ",
      h("input", {
        type: "search",
        value: state.filters.events ?? "",
        oninput: (event) => filter(event.currentTarget.value),
      }),
      h("span", { class: "muted" }, ` ${countText(found.length)} of ${countText(state.events.length)}`),
    ),
    found.length === 0
      ? h("p", { class: "empty" }, state.events.length ? "No event has this text." : "No events yet.")
      : table(
          "Events, newest first",
          ["Time", "What happened"],
          firstRows(found, AT_FIRST, isAll).map((event) => eventRow(event)),
        ),
    showAll(found.length, AT_FIRST, isAll, () => toggle("events")),
  );
}

function filter(text) {
  state.filters.events = text;
  changed();
}

function eventRow(event) {
  return h(
    "tr",
    { key: `${event.at_ms} ${event.text}` },
    h("td", { class: "event-time" }, moment(event.at_ms, nowMs())),
    h("td", { class: "event-text" }, event.text),
  );
}
