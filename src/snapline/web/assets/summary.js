// The part Summary: the five measures over all completed checkpoints.

import { h } from "./dom.js";
import { countText, duration, durationText, size, sizeText } from "./format.js";
import { space } from "./space.js";
import { state } from "./state.js";
import { number, panel, table } from "./widgets.js";

const MEASURES = [
  ["end_to_end_duration_ms", "End-to-end duration", duration, durationText],
  ["checkpointed_bytes", "Checkpointed size", size, sizeText],
  ["state_bytes", "Full size", size, sizeText],
  ["processed_bytes", "In-flight data processed", size, sizeText],
  ["persisted_bytes", "In-flight data persisted", size, sizeText],
];
export const STATISTICS = [
  ["min", "Minimum"],
  ["avg", "Average"],
  ["max", "Maximum"],
  ["p50", "Median"],
  ["p90", "90 %"],
  ["p95", "95 %"],
  ["p99", "99 %"],
  ["p999", "99.9 %"],
];

export function summary() {
  const figures = state.checkpoints.summary;
  const counted = figures.end_to_end_duration_ms?.count;
  return panel(
    "Summary of completed checkpoints",
    null,
    counted === 0
      ? h("p", { class: "empty" }, "No checkpoint has completed yet.")
      : [
          h(
            "p",
            { class: "muted" },
            counted === undefined
              ? null
              : `Over ${countText(counted)} completed checkpoints and savepoints; percentiles over the latest of them.`,
          ),
          summaryTable("Summary of completed checkpoints", MEASURES, figures, true),
        ],
  );
}

/** Measures as rows: [field, title, cell]. */
export function summaryTable(label, measures, figures, hasRange) {
  const columns = [
    "",
    ...STATISTICS.map(([, text]) => ({ text, number: true })),
    ...(hasRange ? ["From minimum to maximum"] : []),
  ];
  const rows = measures
    .filter(([field]) => figures[field])
    .map(([field, title, cell, text]) =>
      h(
        "tr",
        { key: field },
        h("th", { scope: "row" }, title),
        STATISTICS.map(([name]) => number(cell(figures[field][name]))),
        hasRange ? h("td", { class: "range" }, range(title, figures[field], text)) : null,
      ),
    );
  return table(label, columns, rows);
}

// The box reaches from the median to 95 %: what is long on its right are rare, slow checkpoints.
function range(title, values, text) {
  return space("range", { class: "range-space" }, (width) => {
    const at = (value) => (values.max ? (value / values.max) * (width - 4) + 2 : 2);
    const label = `${title}: median ${text(values.p50)}, 95 % below ${text(values.p95)}, at most ${text(values.max)}`;
    return h(
      "svg",
      { width, height: 16, viewBox: `0 0 ${width} 16`, role: "img", "aria-label": label },
      h("title", null, label),
      h("line", { class: "whisker", x1: at(values.min), x2: at(values.max), y1: 8, y2: 8 }),
      h("rect", {
        class: "box",
        x: at(values.p50),
        y: 3,
        width: Math.max(at(values.p95) - at(values.p50), 2),
        height: 10,
      }),
      h("line", { class: "median", x1: at(values.p50), x2: at(values.p50), y1: 1, y2: 15 }),
      h("line", { class: "whisker", x1: at(values.max), x2: at(values.max), y1: 4, y2: 12 }),
    );
  });
}
