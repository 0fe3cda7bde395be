// Room for a drawing: drawings are made for the width they get, so that their text is always readable.

import { h } from "./dom.js";
import { changed } from "./state.js";

const widths = new Map();

const observer = new ResizeObserver((entries) => {
  for (const entry of entries) {
    const width = Math.floor(entry.contentRect.width);
    if (width === 0 || widths.get(entry.target.dataset.space) === width) continue;
    widths.set(entry.target.dataset.space, width);
    changed();
  }
});

/** `draw(width)` returns the drawing; spaces with the same name have the same width. */
export function space(name, attributes, draw) {
  const width = widths.get(name);
  return h(
    "div",
    { ...attributes, "data-space": name, created: (node) => observer.observe(node) },
    width ? draw(width) : null,
  );
}
