// The dataflow as a picture: a card for each vertex, lines for the edges. From left to right, on narrow pages downwards.

import { h } from "./dom.js";
import { isTime, lagText, rateText, shareText, shortCount } from "./format.js";
import { link } from "./route.js";
import { average, isOver } from "./shares.js";
import { chain } from "./widgets.js";

const HEIGHT = 136;
const NARROWEST_CARD = 236;
const WIDEST_CARD = 320;
const ACROSS = { between: 96, beside: 26 };
const DOWN = { between: 50, beside: 20 };
const MARGIN = 6;
const SMALLEST_SCALE = 0.72;
const NARROW_PX = 640;
const INSET = 14;
const PORT = 16;
const SLOW = 0.5;
const OVERWORKED = 0.85;

/** `width` is that of the space on the page. */
export function graph(job, selected, width, now) {
  const isDown = width < NARROW_PX;
  const card = { width: cardWidth(job.plan.vertices, width, isDown), height: HEIGHT };
  const places = layout(job.plan.vertices, card, isDown);
  const size = { width: extent(places, "x", card.width), height: extent(places, "y", card.height) };
  const scale = Math.min(1, Math.max(width / size.width, isDown ? 0.9 : SMALLEST_SCALE));
  return h(
    "svg",
    {
      class: "graph",
      viewBox: `0 0 ${size.width} ${size.height}`,
      width: Math.round(size.width * scale),
      height: Math.round(size.height * scale),
      role: "group",
      "aria-label": `Dataflow: ${job.plan.vertices.map((vertex) => vertex.id).join(", ")}. The table of vertices below has the same figures.`,
    },
    h("defs", null, arrow("arrow"), arrow("arrow-slow")),
    job.plan.edges.map((edge) => edgeLine(job, edge, places, card, isDown)),
    job.plan.vertices.map((vertex) =>
      vertexCard(job, vertex, places.get(vertex.id), card, vertex.hex === selected, now),
    ),
  );
}

// Names are long: cards take the room there is.
function cardWidth(vertices, width, isDown) {
  const side = isDown ? "position" : "layer";
  const many = Math.max(...vertices.map((vertex) => vertex[side])) + 1;
  const gap = isDown ? DOWN.beside : ACROSS.between;
  return Math.min(WIDEST_CARD, Math.max(NARROWEST_CARD, Math.floor((width - 2 * MARGIN - gap * (many - 1)) / many)));
}

function layout(vertices, card, isDown) {
  const gaps = isDown ? DOWN : ACROSS;
  const along = (isDown ? card.height : card.width) + gaps.between;
  const beside = (isDown ? card.width : card.height) + gaps.beside;
  const places = new Map();
  for (const vertex of vertices) {
    const [first, second] = [MARGIN + vertex.layer * along, MARGIN + vertex.position * beside];
    places.set(vertex.id, isDown ? { x: second, y: first } : { x: first, y: second });
  }
  return places;
}

function extent(places, axis, size) {
  return Math.max(0, ...[...places.values()].map((place) => place[axis])) + size + MARGIN;
}

function arrow(id) {
  return h(
    "marker",
    {
      id,
      viewBox: "0 0 8 8",
      refX: "7",
      refY: "4",
      markerWidth: "9",
      markerHeight: "9",
      markerUnits: "userSpaceOnUse",
      orient: "auto",
    },
    h("path", { d: "M0 0 8 4 0 8Z" }),
  );
}

function edgeLine(job, edge, places, card, isDown) {
  const isSlow = isHeldUp(job, edge);
  const across = isDown ? "x" : "y";
  const from = { ...places.get(edge.source) };
  const to = { ...places.get(edge.target) };
  // Edges that share a side of a card start and end beside each other, in the order of their other ends.
  from[across] += port(
    job.plan.edges.filter((other) => other.source === edge.source),
    edge,
    (other) => places.get(other.target)[across],
  );
  to[across] += port(
    job.plan.edges.filter((other) => other.target === edge.target),
    edge,
    (other) => places.get(other.source)[across],
  );
  const start = isDown
    ? { x: from.x + card.width / 2, y: from.y + card.height }
    : { x: from.x + card.width, y: from.y + card.height / 2 };
  const end = isDown ? { x: to.x + card.width / 2, y: to.y - 2 } : { x: to.x - 2, y: to.y + card.height / 2 };
  const bend = isDown ? { x: 0, y: (end.y - start.y) / 2 } : { x: (end.x - start.x) / 2, y: 0 };
  const d = `M${start.x} ${start.y}C${start.x + bend.x} ${start.y + bend.y} ${end.x - bend.x} ${end.y - bend.y} ${end.x} ${end.y}`;
  const text = edgeText(edge);
  const label = { x: (start.x + end.x) / 2, y: (start.y + end.y) / 2 };
  const isStraight = Math.abs(start.y - end.y) < 4;
  return h(
    "g",
    { key: `${edge.source} ${edge.target} ${edge.output}`, class: isSlow ? "edge slow" : "edge" },
    h("title", null, `${edge.source} to ${edge.target}: ${text.join(" ")}${isSlow ? ", back-pressured" : ""}`),
    h("path", { d, "marker-end": `url(#${isSlow ? "arrow-slow" : "arrow"})` }),
    isDown
      ? h("text", { x: label.x + 8, y: label.y + 4, class: "edge-text down" }, text.join(" "))
      : text.map((line, index) =>
          h(
            "text",
            { x: label.x, y: label.y + (index ? 16 : isStraight ? -8 : 4), class: "edge-text" },
            fit(line, ACROSS.between - 10, 11),
          ),
        ),
  );
}

// The rows of an edge are held up if those before it wait, and those behind it are the reason.
function isHeldUp(job, edge) {
  const [source, target] = [job.vertices[edge.source], job.vertices[edge.target]];
  return (
    (source?.backpressured ?? 0) >= SLOW && ((target?.busy ?? 0) >= OVERWORKED || (target?.backpressured ?? 0) >= SLOW)
  );
}

function port(edges, edge, otherEnd) {
  const ordered = [...edges].sort((a, b) => otherEnd(a) - otherEnd(b));
  return (ordered.indexOf(edge) - (ordered.length - 1) / 2) * PORT;
}

function edgeText(edge) {
  const kind = edge.partitioning.toLowerCase();
  const lines = [edge.output ? `${edge.output}: ${kind}` : kind];
  if (edge.key_columns?.length) lines.push(edge.key_columns.join(", "));
  return lines;
}

function vertexCard(job, vertex, place, card, isSelected, now) {
  const figures = job.vertices[vertex.id];
  const note = job.health.notes.find((item) => item.vertex === vertex.id);
  const x = place.x + INSET;
  const right = place.x + card.width - INSET;
  const shares = average(figures);
  return h(
    "a",
    {
      key: vertex.id,
      class: `vertex ${note ? note.level : ""} ${isSelected ? "selected" : ""}`,
      href: isSelected ? link(job.jid, "overview") : link(job.jid, "overview", vertex.hex),
      "aria-label": spoken(vertex, figures, now),
    },
    h("title", null, `${vertex.id}: ${kindText(vertex)}`),
    h("rect", { class: "card", x: place.x, y: place.y, width: card.width, height: card.height, rx: 8 }),
    h("circle", { class: `status-dot ${figures?.status ?? ""}`, cx: x + 4, cy: place.y + 21, r: 4 }),
    h("text", { class: "name", x: x + 15, y: place.y + 26 }, fit(vertex.id, card.width - 2 * INSET - 52, 14, 600)),
    h("text", { class: "parallel", x: right, y: place.y + 26 }, `×${vertex.parallelism}`),
    h("text", { class: "kind", x, y: place.y + 44 }, fit(kindText(vertex), card.width - 2 * INSET, 11.5)),
    rates(vertex, figures, x, right, place.y + 66),
    bar(shares, x, place.y + 77, right - x),
    h("text", { class: "shares", x, y: place.y + 103 }, sharesText(shares, figures)),
    h("text", { class: "time", x, y: place.y + 122 }, timeText(figures, now)),
    lostRows(figures, right, place.y + 122),
  );
}

function kindText(vertex) {
  const keys = vertex.operators.flatMap((operator) => operator.key_columns ?? []);
  return keys.length ? `${chain(vertex)} · keyed by ${[...new Set(keys)].join(", ")}` : chain(vertex);
}

function rates(vertex, figures, x, right, y) {
  const texts = [];
  if (!vertex.is_source || figures?.rows_in) texts.push([vertex.is_source ? "read " : "in ", flow(figures, "rows_in")]);
  if (!vertex.is_sink) texts.push(["out ", flow(figures, "rows_out")]);
  return texts.map(([name, text], index) =>
    h(
      "text",
      { class: "rate", x: index === 1 ? right : x, y, "text-anchor": index === 1 ? "end" : "start" },
      h("tspan", { class: "rate-name" }, name),
      text,
    ),
  );
}

// The rate, or in the end the total.
function flow(figures, rows) {
  return isOver(figures) ? shortCount(figures[rows]) : rateText(figures?.[`${rows}_per_second`]);
}

function bar(shares, x, y, width) {
  let at = x;
  return h(
    "g",
    { class: "share-bar" },
    h("rect", { class: "idle", x, y, width, height: 9 }),
    ["busy", "backpressured"].map((name) => {
      const part = (shares?.[name] ?? 0) * width;
      const rect = h("rect", { class: name, x: at, y, width: Math.max(part, 0), height: 9 });
      at += part;
      return rect;
    }),
  );
}

function sharesText(shares, figures) {
  if (!shares) return isOver(figures) ? figures.status.toLowerCase() : "no figures yet";
  const texts = [`${shareText(shares.busy)} busy`];
  if (shares.backpressured >= 0.005) texts.push(`${shareText(shares.backpressured)} back-pressured`);
  else texts.push(`${shareText(shares.idle)} idle`);
  const isUneven = shares.busiest - shares.busy > 0.2;
  if (isUneven) texts.push(`max ${shareText(shares.busiest)}`);
  return texts.join(" · ");
}

function timeText(figures, now) {
  const ms = figures?.watermark_ms;
  if (ms === null || ms === undefined) return "no event time";
  if (isOver(figures)) return "";
  if (!isTime(ms)) return ms > 0 ? "end of the input" : "idle";
  return ms > now ? "event time ahead" : `event time ${lagText(now - ms)} behind`;
}

function lostRows(figures, right, y) {
  const texts = [];
  if (figures?.late_rows) texts.push(h("tspan", { class: "late" }, `${shortCount(figures.late_rows)} late`));
  if (figures?.bad_rows)
    texts.push(h("tspan", { class: "bad" }, `${texts.length ? "  " : ""}${shortCount(figures.bad_rows)} bad`));
  return texts.length ? h("text", { class: "lost", x: right, y }, texts) : null;
}

function spoken(vertex, figures, now) {
  const shares = average(figures);
  const parts = [
    vertex.id,
    kindText(vertex),
    `${vertex.parallelism} subtasks`,
    figures?.status.toLowerCase() ?? "no status",
  ];
  if (figures)
    parts.push(`${rateText(figures.rows_in_per_second)} rows in`, `${rateText(figures.rows_out_per_second)} rows out`);
  if (shares) parts.push(sharesText(shares));
  parts.push(timeText(figures, now));
  if (figures?.late_rows) parts.push(`${figures.late_rows} late rows`);
  if (figures?.bad_rows) parts.push(`${figures.bad_rows} bad rows`);
  return parts.join(", ");
}

const measured = new Map();
let canvas = null;

/** The text, cut to the width it may have. */
function fit(text, width, size, weight = 400) {
  const key = `${text}|${width}|${size}|${weight}`;
  if (!measured.has(key)) {
    canvas ??= document.createElement("canvas").getContext("2d");
    canvas.font = `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;
    let shown = text;
    while (shown.length > 1 && canvas.measureText(shown === text ? shown : `${shown}…`).width > width)
      shown = shown.slice(0, -1);
    if (measured.size > 2000) measured.clear();
    measured.set(key, shown === text ? text : `${shown.trimEnd()}…`);
  }
  return measured.get(key);
}
