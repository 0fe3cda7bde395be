// Charts of the latest checkpoints: a bar for each, oldest on the left, so that a trend and an outlier are seen at once.

import { h } from "./dom.js";
import { durationText, isKnown, plural, sizeText, timeText } from "./format.js";
import { link } from "./route.js";
import { swatch } from "./shares.js";
import { space } from "./space.js";
import { changed, momentOf, nowMs, state } from "./state.js";
import { advice, panel, prose } from "./widgets.js";

const HEIGHT = 150;
const STRIP_HEIGHT = 110;
const AXIS = 58;
const BELOW = 20;
const WIDEST_BAR = 22;
const NARROWEST_BAR = 5;

const DURATION = {
  name: "Duration",
  format: durationText,
  steps: [1e3, 2e3, 4e3, 6e3, 1e4, 2e4, 3e4, 6e4, 12e4, 24e4, 6e5, 12e5, 36e5, 72e5, 144e5, 288e5, 864e5],
  of: (row) =>
    row.status === "IN_PROGRESS" ? Math.max(momentOf(state.job) - row.trigger_ms, 0) : row.end_to_end_duration_ms,
};

/** The tone of a checkpoint in charts. */
export function toneOfRow(row) {
  if (row.status === "FAILED") return "failed";
  if (row.status === "IN_PROGRESS") return "in-progress";
  return row.kind === "CHECKPOINT" ? "completed" : "savepoint";
}

/** For the Overview tab: how the latest checkpoints went, and why the last one took its time. */
export function checkpointStrip(job, history) {
  if (history.length === 0) return null;
  const ended = history.find((row) => row.status !== "IN_PROGRESS");
  const explained = ended?.explanation && ended.explanation.cause !== "nothing" ? ended : null;
  return panel(
    "Latest checkpoints",
    { class: "strip" },
    h("a", { class: "more", href: link(job.jid, "checkpoints", "history") }, "history"),
    chart(job, "duration", "Duration", history, STRIP_HEIGHT, [DURATION]),
    explained
      ? h(
          "div",
          { class: "why" },
          h("p", null, h("strong", null, `${nameOf(explained)}: `), prose(explained.explanation.sentence)),
          advice(explained.explanation.advice),
        )
      : null,
  );
}

export function durationChart(job, history) {
  return chart(job, "duration", "End-to-end duration", history, HEIGHT, [DURATION]);
}

export function sizeChart(job, history) {
  return chart(job, "size", "Size", history, HEIGHT, [
    { name: "Full size", class: "full-size", format: sizeText, of: (row) => row.state_bytes },
    { name: "Checkpointed size", class: "new-size", format: sizeText, of: (row) => row.checkpointed_bytes },
  ]);
}

function chart(job, name, title, history, height, measures) {
  const [first] = measures;
  return h(
    "figure",
    { class: "chart", key: name },
    h(
      "figcaption",
      null,
      h("span", { class: "chart-title" }, title),
      h("span", { class: "readout", "aria-hidden": "true" }, readout(history, measures)),
      legend(history, measures),
    ),
    space("chart", null, (width) => bars(job, title, history, height, measures, first, width)),
  );
}

function legend(history, measures) {
  const items = measures.length > 1 ? measures.map((measure) => [measure.class, measure.name]) : tonesOf(history);
  return h(
    "ul",
    { class: "legend" },
    items.map(([tone, text]) => h("li", { key: tone }, swatch(tone), text)),
  );
}

const TONES = { completed: "completed", "in-progress": "in progress", savepoint: "savepoint", failed: "failed" };

function tonesOf(history) {
  const found = new Set(history.map((row) => toneOfRow(row)));
  return Object.entries(TONES).filter(([tone]) => found.has(tone));
}

function readout(history, measures) {
  const row = history.find((item) => item.id === state.hovered);
  return row ? `${describe(row, measures)}` : "";
}

function describe(row, measures) {
  const values = measures.map((measure) =>
    measures.length > 1
      ? `${measure.name.toLowerCase()} ${measure.format(measure.of(row))}`
      : measure.format(measure.of(row)),
  );
  return `${nameOf(row)}, ${timeText(row.trigger_ms, nowMs())}, ${TONES[toneOfRow(row)]}: ${values.join(", ")}`;
}

export function nameOf(row) {
  const kind = row.kind === "CHECKPOINT" ? "Checkpoint" : "Savepoint";
  return row.id < 0 ? `${kind} that did not start` : `${kind} ${row.id}`;
}

function bars(job, title, history, height, measures, first, width) {
  const plot = { x: AXIS, width: width - AXIS, height: height - BELOW };
  const room = Math.max(1, Math.floor(plot.width / NARROWEST_BAR));
  const rows = history.slice(0, room).reverse();
  const most = Math.max(1, ...rows.flatMap((row) => measures.map((measure) => measure.of(row))));
  const top = niceTop(most, first.steps);
  const step = Math.min(WIDEST_BAR, plot.width / Math.max(rows.length, 1));
  const left = plot.x + 1;
  return h(
    "svg",
    {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": spoken(title, rows, first),
      onmouseleave: () => hover(null),
    },
    gridLines(plot, top, first.format),
    rows.map((row, index) => barOf(job, row, left + index * step, step, plot, top, measures)),
    timeLabels(rows, left, step, plot),
  );
}

function gridLines(plot, top, format) {
  const lines = [0, top / 2, top];
  return lines.map((value, index) => {
    const y = plot.height - (value / top) * (plot.height - 8) + 0.5;
    return h(
      "g",
      { key: `line ${index}`, class: "grid" },
      h("line", { x1: plot.x, x2: plot.x + plot.width, y1: y, y2: y }),
      h("text", { x: plot.x - 6, y: y + 4 }, format(value)),
    );
  });
}

function barOf(job, row, x, step, plot, top, measures) {
  const width = Math.max(step - (step > 8 ? 3 : 1), 1);
  const tone = toneOfRow(row);
  return h(
    "g",
    {
      key: `bar ${row.id}`,
      class: `bar ${tone}${state.hovered === row.id ? " hovered" : ""}`,
      onmouseenter: () => hover(row.id),
      onclick: () => open(job, row),
    },
    h("title", null, describe(row, measures)),
    h("rect", { class: "reach", x, y: 0, width: step, height: plot.height }),
    measures.map((measure) => {
      const value = measure.of(row);
      const tall = isKnown(value) ? Math.max((value / top) * (plot.height - 8), 2) : 3;
      return h("rect", {
        class: measure.class ?? tone,
        x: x + (step - width) / 2,
        y: plot.height - tall,
        width,
        height: tall,
        rx: Math.min(2, width / 4),
      });
    }),
  );
}

// As many as fit.
function timeLabels(rows, left, step, plot) {
  const each = Math.max(1, Math.ceil(92 / step));
  const labels = [];
  for (let index = 0; index < rows.length; index += each) {
    const x = left + index * step;
    if (x + 60 > plot.x + plot.width && index > 0) break;
    labels.push(
      h(
        "text",
        { key: `time ${index}`, class: "tick", x, y: plot.height + 15 },
        timeText(rows[index].trigger_ms, nowMs()),
      ),
    );
  }
  return labels;
}

function hover(id) {
  state.hovered = id;
  changed();
}

function open(job, row) {
  if (row.id < 0) return;
  state.opened.add(`checkpoint ${row.id}`);
  location.hash = link(job.jid, "checkpoints", "history", row.id);
}

function spoken(title, rows, measure) {
  const values = rows.map((row) => measure.of(row)).filter(isKnown);
  if (values.length === 0) return `${title} of the latest checkpoints: none yet.`;
  const failed = rows.filter((row) => row.status === "FAILED").length;
  return `${title} of the latest ${plural(rows.length, "checkpoint")}: from ${measure.format(Math.min(...values))} to ${measure.format(Math.max(...values))}, the last ${measure.format(values.at(-1))}; ${failed} failed. The history has them as a table.`;
}

// The top of the axis: a round number whose half is round too.
function niceTop(value, steps) {
  const step = value > 800 && steps?.find((item) => item >= value);
  if (step) return step;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 8, 10].find((item) => item * power >= value) * power;
}
