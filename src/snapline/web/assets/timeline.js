// A checkpoint drawn to scale: for each subtask when the barrier came, how long it aligned, the synchronous and the
// asynchronous part, and the commit of its output; above them the critical path, which the checkpoint had to wait for.

import { h } from "./dom.js";
import { durationText, isKnown } from "./format.js";
import { swatch } from "./shares.js";
import { space } from "./space.js";
import { nowMs, state, toggle } from "./state.js";
import { showAll } from "./widgets.js";

const ROW = 18;
const BAR = 11;
const AT_FIRST = 16;
const AXIS = 22;
const SHORTEST_VISIBLE = 1.5;

const PARTS = [
  ["start-delay", "start delay: until the first barrier"],
  ["alignment", "alignment: until the last barrier"],
  ["synchronous", "synchronous"],
  ["asynchronous", "asynchronous"],
  ["acknowledgement", "acknowledgement"],
  ["commit", "commit, once complete"],
];

export function timeline(row, detail) {
  const end = endOf(row, detail);
  const scale = {
    end,
    endMs: Math.max(end, 1),
    offset: isKnown(row.completed_ms) ? row.completed_ms - row.trigger_ms : null,
  };
  return h(
    "div",
    { class: "timeline" },
    h(
      "ul",
      { class: "legend" },
      PARTS.map(([name, text]) => h("li", { key: name }, swatch(name), text)),
      h("li", null, tickSwatch(), "acknowledged"),
    ),
    lane("", "axis", (width, left) => axis(scale, width, left)),
    detail.explanation?.path?.length
      ? lane("Critical path", "path", (width, left) => criticalPath(detail.explanation.path, scale, width, left))
      : null,
    detail.vertices.map((vertex) => vertexLane(row, vertex, scale)),
  );
}

// All lanes have the same width, and so the same scale.
function lane(title, key, draw, below) {
  return h(
    "div",
    { key, class: "lane" },
    title ? h("h4", null, title) : null,
    space("timeline", null, (width) => draw(width, width < 480 ? 34 : 46)),
    below,
  );
}

function endOf(row, detail) {
  const ends = [detail.end_to_end_duration_ms, isKnown(row.completed_ms) ? row.completed_ms - row.trigger_ms : 0];
  if (row.status === "IN_PROGRESS") ends.push(nowMs() - row.trigger_ms);
  if (row.failure) ends.push(row.failure.failure_ms - row.trigger_ms);
  for (const vertex of detail.vertices) {
    for (const subtask of vertex.subtasks) {
      ends.push(subtask.end_to_end_duration_ms);
      if (isKnown(subtask.commit_ms) && isKnown(row.completed_ms))
        ends.push(row.completed_ms - row.trigger_ms + subtask.commit_ms);
    }
  }
  for (const step of detail.explanation?.path ?? []) ends.push(step.to_ms);
  return ends.reduce((most, end) => Math.max(most, end ?? 0), 1);
}

function at(ms, scale, width, left) {
  return left + (Math.min(ms, scale.endMs) / scale.endMs) * (width - left - 8);
}

function axis(scale, width, left) {
  const step = stepOf(scale.endMs, Math.max(4, Math.floor((width - left) / 90)));
  const marks = [];
  for (let ms = 0; ms <= scale.endMs; ms += step) marks.push(ms);
  return h(
    "svg",
    { width, height: AXIS, viewBox: `0 0 ${width} ${AXIS}`, "aria-hidden": "true", class: "axis" },
    marks.map((ms) => {
      const x = at(ms, scale, width, left);
      return h(
        "g",
        { key: ms },
        h("line", { x1: x, x2: x, y1: 15, y2: AXIS }),
        h("text", { x, y: 11 }, ms === 0 ? "trigger" : durationText(ms)),
      );
    }),
  );
}

function stepOf(total, most) {
  const least = total / most;
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].find((step) => step * power >= least) * power;
}

function criticalPath(steps, scale, width, left) {
  const text = steps.map((step) => stepText(step)).join("; ");
  return h(
    "svg",
    { width, height: 40, viewBox: `0 0 ${width} 40`, role: "img", "aria-label": `Critical path: ${text}` },
    steps.map((step, index) => {
      const x = at(step.from_ms, scale, width, left);
      const wide = Math.max(at(step.to_ms, scale, width, left) - x, SHORTEST_VISIBLE);
      const name = `${step.part} ${who(step)}`;
      return h(
        "g",
        { key: index },
        h("title", null, stepText(step)),
        h("rect", { class: step.part.replace(" ", "-"), x, y: 4, width: wide, height: 14 }),
        wide > name.length * 6 + 8 ? h("text", { class: "step", x: x + 3, y: 32 }, name) : null,
      );
    }),
  );
}

function who(step) {
  if (!step.vertex) return "on the driver";
  return step.subtask === null || step.subtask === undefined ? step.vertex : `${step.vertex}/${step.subtask}`;
}

function stepText(step) {
  return `${step.part}, ${who(step)}: ${durationText(step.to_ms - step.from_ms)}, from ${durationText(step.from_ms)} on`;
}

/** The critical path in words. */
export function pathList(steps) {
  return h(
    "ol",
    { class: "path-list" },
    steps.map((step, index) =>
      h(
        "li",
        { key: index },
        swatch(step.part.replace(" ", "-")),
        h("span", null, `${step.part} `),
        step.vertex ? h("code", null, who(step)) : who(step),
        ` ${durationText(step.to_ms - step.from_ms)}`,
      ),
    ),
  );
}

function vertexLane(row, vertex, scale) {
  const key = `timeline ${row.id} ${vertex.id}`;
  const isAll = state.opened.has(key);
  const shown = chosen(vertex.subtasks, isAll);
  const isPart = shown.length < vertex.subtasks.length;
  return lane(
    [vertex.id, isPart ? h("span", { class: "muted" }, `, the slowest ${AT_FIRST}`) : null],
    vertex.id,
    (width, left) =>
      h(
        "svg",
        {
          width,
          height: shown.length * ROW + 2,
          viewBox: `0 0 ${width} ${shown.length * ROW + 2}`,
          role: "img",
          "aria-label": spoken(vertex, shown),
        },
        shown.map((subtask, index) => subtaskBar(row, vertex, subtask, index * ROW, scale, width, left)),
      ),
    showAll(vertex.subtasks.length, AT_FIRST, isAll, () => toggle(key)),
  );
}

// Those that took longest, in the order of their indexes; one that has not acknowledged takes longest of all.
function chosen(subtasks, isAll) {
  if (isAll || subtasks.length <= AT_FIRST) return subtasks;
  const took = (subtask) => (subtask.acknowledged ? subtask.end_to_end_duration_ms : Infinity);
  return [...subtasks]
    .sort((a, b) => took(b) - took(a) || a.index - b.index)
    .slice(0, AT_FIRST)
    .sort((a, b) => a.index - b.index);
}

/** The parts of a subtask's work as [class, from, to, isThin], in milliseconds after the trigger. */
export function partsOf(subtask, offset) {
  const known = (ms) => Math.max(ms ?? 0, 0);
  const start = known(subtask.start_delay_ms);
  const parts = [["start-delay", 0, start, false]];
  // Unaligned barriers overtake rows: the snapshot is taken at the first one, while the others are still on their way.
  const snapshot = subtask.unaligned ? start : start + known(subtask.alignment_ms);
  parts.push(["alignment", start, start + known(subtask.alignment_ms), subtask.unaligned]);
  parts.push(["synchronous", snapshot, snapshot + known(subtask.sync_ms), false]);
  const written = snapshot + known(subtask.sync_ms) + known(subtask.async_ms);
  parts.push(["asynchronous", snapshot + known(subtask.sync_ms), written, false]);
  if (subtask.acknowledged) parts.push(["acknowledgement", written, subtask.end_to_end_duration_ms, true]);
  if (isKnown(subtask.commit_ms) && offset !== null) parts.push(["commit", offset, offset + subtask.commit_ms, false]);
  return parts.filter(([, from, to]) => to > from);
}

function subtaskBar(row, vertex, subtask, y, scale, width, left) {
  const x = (ms) => at(ms, scale, width, left);
  const parts = subtask.has_metrics ? partsOf(subtask, scale.offset) : [];
  const last = Math.max(0, ...parts.filter(([name]) => name !== "commit").map(([, , to]) => to));
  const isOpenEnded = !subtask.acknowledged && (row.status === "IN_PROGRESS" || row.status === "FAILED");
  return h(
    "g",
    { key: subtask.index, class: subtask.aborted ? "aborted" : null },
    h("title", null, subtaskText(subtask)),
    h("text", { class: "index", x: left - 8, y: y + 12 }, subtask.index),
    h("line", { class: "track", x1: left, x2: width - 8, y1: y + ROW / 2, y2: y + ROW / 2 }),
    isOpenEnded
      ? h("line", { class: "waiting", x1: x(last), x2: x(scale.endMs), y1: y + ROW / 2, y2: y + ROW / 2 })
      : null,
    parts.map(([name, from, to, isThin]) =>
      h("rect", {
        key: name,
        class: name,
        x: x(from),
        y: y + 3 + (isThin ? BAR - 3 : 0),
        width: Math.max(x(to) - x(from), SHORTEST_VISIBLE),
        height: isThin ? 3 : BAR,
      }),
    ),
    subtask.acknowledged
      ? h("line", {
          class: "acknowledged-at",
          x1: x(subtask.end_to_end_duration_ms),
          x2: x(subtask.end_to_end_duration_ms),
          y1: y + 1,
          y2: y + ROW - 2,
        })
      : null,
  );
}

function subtaskText(subtask) {
  if (!subtask.has_metrics) return `Subtask ${subtask.index}: the barrier has not arrived, or nothing was reported`;
  const parts = partsOf(subtask, 0).map(([name, from, to]) => `${name.replace("-", " ")} ${durationText(to - from)}`);
  const end = subtask.acknowledged
    ? `acknowledged after ${durationText(subtask.end_to_end_duration_ms)}`
    : subtask.aborted
      ? "given up"
      : "not acknowledged yet";
  return `Subtask ${subtask.index}: ${[...parts, end].join(", ")}`;
}

const MOST_SPOKEN = 8;

function spoken(vertex, shown) {
  const texts = shown.slice(0, MOST_SPOKEN).map((subtask) => subtaskText(subtask));
  if (shown.length > MOST_SPOKEN) texts.push("The table below has them all");
  return `${vertex.id}. ${texts.join(". ")}.`;
}

function tickSwatch() {
  return h(
    "svg",
    { class: "swatch", viewBox: "0 0 12 12", "aria-hidden": "true" },
    h("line", { class: "acknowledged-at", x1: 6, x2: 6, y1: 0, y2: 12 }),
  );
}
