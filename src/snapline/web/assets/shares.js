// How tasks spend their time: busy, back-pressured (waiting for those behind them) and idle (waiting for rows).

import { h } from "./dom.js";
import { rateText, shareText } from "./format.js";

const OVER = ["FINISHED", "CANCELED"];

/** Whether a task or vertex has ended: its last rates and shares say nothing any more. */
export function isOver(figures) {
  return OVER.includes(figures?.status);
}

/** The rate of `rows_in` or `rows_out`. */
export function rateOf(figures, rows) {
  return isOver(figures) ? "–" : rateText(figures?.[`${rows}_per_second`]);
}

/** The mean over the subtasks of a vertex, whose parts add up to 1, and the busiest; null if none reports. */
export function average(figures) {
  const known = (isOver(figures) ? [] : (figures?.subtasks ?? [])).filter(
    (subtask) => (subtask.busy ?? 0) + (subtask.idle ?? 0) + (subtask.backpressured ?? 0) > 0,
  );
  if (known.length === 0) return null;
  const mean = (name) => known.reduce((sum, subtask) => sum + subtask[name], 0) / known.length;
  return {
    busy: mean("busy"),
    backpressured: mean("backpressured"),
    idle: mean("idle"),
    busiest: Math.max(...known.map((subtask) => subtask.busy)),
  };
}

/** The parts as a bar for a cell of a table. One element: there may be thousands of them. */
export function shareBar(shares) {
  if (!shares) return "–";
  const text = `${shareText(shares.busy)} busy, ${shareText(shares.backpressured)} back-pressured, ${shareText(shares.idle)} idle`;
  const busy = `${(shares.busy * 100).toFixed(1)}%`;
  const working = `${((shares.busy + shares.backpressured) * 100).toFixed(1)}%`;
  const colours = `var(--busy) ${busy}, var(--backpressured) ${busy} ${working}, var(--idle) ${working}`;
  return h("span", {
    class: "share-cell",
    role: "img",
    "aria-label": text,
    title: text,
    style: { background: `linear-gradient(90deg, ${colours})` },
  });
}

export function shareLegend() {
  const items = [
    ["busy", "busy"],
    ["backpressured", "back-pressured: waits for those behind it"],
    ["idle", "idle: waits for rows"],
  ];
  return h(
    "ul",
    { class: "legend" },
    items.map(([name, text]) => h("li", { key: name }, swatch(name), text)),
  );
}

export function swatch(name) {
  return h(
    "svg",
    { class: "swatch", viewBox: "0 0 12 12", "aria-hidden": "true" },
    h("rect", { class: name, width: 12, height: 12, rx: 2 }),
  );
}
