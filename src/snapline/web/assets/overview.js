// The tab Overview: the dataflow, the latest checkpoints, and a table of vertices that open into their subtasks.

import { checkpointStrip } from "./charts.js";
import { h } from "./dom.js";
import { count, eventTime, lostRows, plural, shareText, size } from "./format.js";
import { graph } from "./graph.js";
import { link } from "./route.js";
import { average, isOver, rateOf, shareBar, shareLegend } from "./shares.js";
import { space } from "./space.js";
import { momentOf, state } from "./state.js";
import { subtaskTable } from "./subtasks.js";
import { chain, number, numberOver, panel, statusLabel, tableOfOpeners } from "./widgets.js";

export function overview(job) {
  const now = momentOf(job);
  return [
    panel(
      "Dataflow",
      { class: "dataflow" },
      shareLegend(),
      space("graph", { class: "graph-space" }, (width) => graph(job, state.route.vertex, width, now)),
    ),
    checkpointStrip(job, state.checkpoints?.history ?? []),
    panel("Vertices", { class: "vertices" }, vertexTable(job, now)),
  ];
}

const COLUMNS = [
  "Vertex",
  "Status",
  { text: "Rows in", number: true, title: "A second, and in total" },
  { text: "Rows out", number: true, title: "A second, and in total" },
  { text: "Bytes in", number: true },
  { text: "Bytes out", number: true },
  { text: "Time", title: "The mean of its subtasks, and the most of one of them" },
  "Event time",
  { text: "Late", number: true },
  { text: "Bad", number: true },
];

function vertexTable(job, now) {
  return tableOfOpeners(
    "Vertices of the dataflow. Open one to see its subtasks.",
    COLUMNS,
    job.plan.vertices.flatMap((vertex) => vertexRows(job, vertex, now)),
  );
}

function vertexRows(job, vertex, now) {
  const figures = job.vertices[vertex.id];
  const isOpen = state.route.vertex === vertex.hex || state.route.vertex === vertex.id;
  const rows = [vertexRow(job, vertex, figures, isOpen, now)];
  if (isOpen && figures) {
    rows.push(
      h(
        "tr",
        { key: `${vertex.id} opened`, class: "opened" },
        h("td", { colspan: COLUMNS.length }, subtaskTable(vertex, figures, now)),
      ),
    );
  }
  return rows;
}

function vertexRow(job, vertex, figures, isOpen, now) {
  const href = isOpen ? link(job.jid, "overview") : link(job.jid, "overview", vertex.hex);
  return h(
    "tr",
    { key: vertex.id, class: isOpen ? "is-open" : null },
    h(
      "th",
      { scope: "row" },
      h(
        "a",
        { class: "opener", href, role: "button", "aria-expanded": isOpen ? "true" : "false", onkeydown: pressed },
        vertex.id,
      ),
      h("div", { class: "under" }, `${chain(vertex)}, ${plural(vertex.parallelism, "subtask")}`),
    ),
    h("td", null, figures ? statusLabel(figures.status) : "–"),
    numberOver(rateOf(figures, "rows_in"), count(figures?.rows_in)),
    numberOver(rateOf(figures, "rows_out"), count(figures?.rows_out)),
    number(size(figures?.bytes_in)),
    number(size(figures?.bytes_out)),
    h(
      "td",
      null,
      shareBar(average(figures)),
      isOver(figures)
        ? null
        : h(
            "div",
            { class: "under" },
            `most: ${shareText(figures?.busy)} busy, ${shareText(figures?.backpressured)} back-pressured`,
          ),
    ),
    h(
      "td",
      null,
      eventTime(figures?.watermark_ms, now),
      figures?.slowest_split
        ? h("div", { class: "under" }, "held back by ", h("code", null, figures.slowest_split))
        : null,
    ),
    number(lostRows(figures?.late_rows, "late-text")),
    number(lostRows(figures?.bad_rows, "bad-text")),
  );
}

/** A link that acts as a button also follows the space bar. */
function pressed(event) {
  if (event.key !== " ") return;
  event.preventDefault();
  event.currentTarget.click();
}
