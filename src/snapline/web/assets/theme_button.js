// The button that chooses between the system's theme, light and dark.

import { h } from "./dom.js";
import { changed, say } from "./state.js";

const NEXT = { system: "light", light: "dark", dark: "system" };

function current() {
  return document.documentElement.dataset.theme ?? "system";
}

export function themeButton() {
  return h(
    "button",
    {
      type: "button",
      class: "theme",
      onclick: turn,
      title: "Theme: system, light or dark",
      "aria-label": `Theme: ${current()}`,
    },
    sun(),
    h("span", null, current()),
  );
}

function turn() {
  const next = NEXT[current()];
  if (next === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("snapline-theme", next);
  } catch {
    // Storage is closed to this page: the choice holds until it is left.
  }
  say(`Theme: ${next}`);
  changed();
}

function sun() {
  return h(
    "svg",
    { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true" },
    h("path", { d: "M8 1a7 7 0 1 0 0 14A7 7 0 1 0 8 1ZM8 3a5 5 0 0 1 0 10Z", "fill-rule": "evenodd" }),
  );
}
