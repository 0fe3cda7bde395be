// Small parts that several views use: icons, status labels, panels, tables, tabs.

import { h } from "./dom.js";

// The outline of each sign, and the mark in it.
const CIRCLE = "M8 1a7 7 0 1 0 0 14A7 7 0 1 0 8 1Z";
const SIGNS = {
  good: [CIRCLE, "M4.7 8.3 7 10.5 11.3 5.8"],
  warning: ["M8 1.5 15.2 14.2H.8Z", "M8 6.2v3.6M8 12v.1"],
  bad: ["M5.1 1h5.8L15 5.1v5.8L10.9 15H5.1L1 10.9V5.1Z", "M5.6 5.6l4.8 4.8M10.4 5.6l-4.8 4.8"],
  neutral: [CIRCLE, "M8 7.3v4M8 4.6v.1"],
};

/** A sign whose shape, not only its colour, tells good, warning, bad and neutral apart. */
export function icon(tone) {
  const [outline, mark] = SIGNS[tone];
  return h(
    "svg",
    { class: `icon ${tone}`, viewBox: "0 0 16 16", "aria-hidden": "true" },
    h("path", { d: outline }),
    h("path", { class: "mark", d: mark }),
  );
}

const TONES = {
  RUNNING: "good",
  FINISHED: "good",
  COMPLETED: "good",
  FAILED: "bad",
  FAILING: "warning",
  RESTARTING: "warning",
  CANCELLING: "warning",
  INITIALIZING: "warning",
  CREATED: "warning",
  DEPLOYING: "warning",
  CANCELED: "neutral",
  SUSPENDED: "neutral",
  IN_PROGRESS: "running",
};

export function toneOf(status) {
  return TONES[status] ?? "neutral";
}

export function statusLabel(status) {
  return h("span", { class: `status ${toneOf(status)}` }, status.replace("_", " ").toLowerCase());
}

export function panel(title, attributes, ...children) {
  return h(
    "section",
    { ...attributes, class: `panel ${attributes?.class ?? ""}`.trim(), "aria-label": title },
    h("h2", null, title),
    children,
  );
}

/** Names and values; a pair whose value is null is left out. */
export function facts(pairs, attributes) {
  return h(
    "dl",
    { ...attributes, class: `facts ${attributes?.class ?? ""}`.trim() },
    pairs
      .filter((pair) => pair && pair[1] !== null)
      .map(([name, value]) => h("div", { key: name }, h("dt", null, name), h("dd", null, value))),
  );
}

/** A table that scrolls by itself, never the page. Columns are texts, or {text, number, title}. */
export function table(label, columns, rows) {
  return h(
    "div",
    { class: "scroll", role: "region", "aria-label": label, tabindex: "0" },
    plainTable(label, columns, rows),
  );
}

/** The same for rows with buttons: the keyboard reaches those, so the region itself needs no place among them. */
export function tableOfOpeners(label, columns, rows) {
  return h("div", { class: "scroll" }, plainTable(label, columns, rows));
}

function plainTable(label, columns, rows) {
  return h(
    "table",
    null,
    h("caption", { class: "visually-hidden" }, label),
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        columns.map((column) => heading(column)),
      ),
    ),
    h("tbody", null, rows),
  );
}

function heading(column) {
  if (typeof column === "string") return h("th", { scope: "col" }, column);
  return h("th", { scope: "col", class: column.number ? "number" : null, title: column.title }, column.text);
}

export function number(...children) {
  return h("td", { class: "number" }, children);
}

/** A cell of two lines: what changes, and below it what it adds up to. */
export function numberOver(above, below) {
  return h("td", { class: "number" }, above, h("div", { class: "under" }, below));
}

export function code(text) {
  return h("code", null, text);
}

/** The operators of a vertex, in their order. */
export function chain(vertex) {
  return vertex.name.replaceAll("->", "→");
}

/** A sentence, in which names stand between backticks. */
export function prose(text) {
  const sentence = (text ?? "").replace(/^[a-z]/, (letter) => letter.toUpperCase());
  return sentence.split(/`([^`]+)`/).map((part, index) => (index % 2 ? h("code", null, part) : part));
}

/** What to change, if there is anything. */
export function advice(text) {
  return text ? h("p", { class: "advice" }, h("strong", null, "What to do: "), prose(text)) : null;
}

/** Text that may be long, folded. */
export function folded(title, text) {
  return text ? h("details", { class: "folded" }, h("summary", null, title), h("pre", { tabindex: "0" }, text)) : null;
}

/** A path with a button that copies it. */
export function path(text) {
  if (!text) return "–";
  return h(
    "span",
    { class: "path" },
    h("code", null, breakable(text)),
    " ",
    h(
      "button",
      {
        type: "button",
        class: "link-button",
        "aria-label": `Copy ${text}`,
        onclick: (event) => copy(event.currentTarget, text),
      },
      "copy",
    ),
  );
}

async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "copied";
  } catch {
    button.textContent = "select it by hand";
  }
}

// Lets long paths break at their slashes.
function breakable(text) {
  return text.split(/(?<=\/)/).flatMap((word) => [word, h("wbr")]);
}

/** A row of tabs, each a link. Arrow keys, Home and End move between them, as readers of screens expect. */
export function tabs(label, id, items, attributes) {
  return h(
    "div",
    {
      role: "tablist",
      "aria-label": label,
      onkeydown: moveTab,
      ...attributes,
      class: `tabs ${attributes?.class ?? ""}`.trim(),
    },
    items.map((item) =>
      h(
        "a",
        {
          key: item.name,
          role: "tab",
          id: `${id}-${item.name}`,
          href: item.href,
          "aria-selected": item.isSelected ? "true" : "false",
          "aria-controls": item.isSelected ? `${id}-panel` : null,
          tabindex: item.isSelected ? "0" : "-1",
        },
        item.title,
        item.badge ? h("span", { class: `badge ${item.tone ?? ""}`.trim() }, item.badge) : null,
      ),
    ),
  );
}

export function tabPanel(id, name, attributes, ...children) {
  return h(
    "div",
    {
      ...attributes,
      key: name,
      role: "tabpanel",
      id: `${id}-panel`,
      "aria-labelledby": `${id}-${name}`,
      tabindex: "-1",
    },
    children,
  );
}

const STEPS = {
  ArrowRight: (at, most) => (at + 1) % most,
  ArrowLeft: (at, most) => (at + most - 1) % most,
  Home: () => 0,
  End: (_, most) => most - 1,
};

function moveTab(event) {
  const step = STEPS[event.key];
  if (!step) return;
  event.preventDefault();
  const all = [...event.currentTarget.querySelectorAll("[role=tab]")];
  const next = all[step(all.indexOf(document.activeElement), all.length)];
  next.focus();
  location.hash = next.getAttribute("href");
}

/** The first rows of a long list, and a button that shows all of them. */
export function firstRows(rows, limit, isAll) {
  return isAll || rows.length <= limit ? rows : rows.slice(0, limit);
}

export function showAll(total, limit, isAll, onclick) {
  if (total <= limit) return null;
  const text = isAll ? `Show only ${limit}` : `Show all ${total.toLocaleString("en")}`;
  return h("button", { type: "button", class: "small", onclick }, text);
}
