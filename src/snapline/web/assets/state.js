// All that the page knows. Views read it; `poll.js` fills it from the driver; `changed` draws the page again.

import { parseRoute } from "./route.js";

export const state = {
  route: parseRoute(location.hash),
  // live: the driver answers; lost: it does not, since `sinceMs`; denied, unknown, trouble: it answers with `message`.
  connection: { kind: "connecting", sinceMs: Date.now(), message: "" },
  jobs: null,
  ...emptyJob(),
  // What the reader typed or opened. Keys of `opened` are chosen by the views.
  opened: new Set(),
  filters: {},
  notices: [],
  // How long the page took to draw.
  drawMs: 0,
};

let draw = () => {};
let isDue = false;

export function emptyJob() {
  return {
    job: null,
    checkpoints: null,
    olderCheckpoints: [],
    hasOlder: false,
    details: new Map(),
    configuration: null,
    events: [],
    // How far the driver's clock is ahead of the reader's.
    skewMs: 0,
  };
}

/** Registers the function that draws the page. */
export function onChange(function_) {
  draw = function_;
}

/** Draws the page before the next frame, once for any number of changes. */
export function changed() {
  if (isDue) return;
  isDue = true;
  // A hidden page gets no frames, but its title and its messages should still be true.
  const later = document.hidden ? (step) => setTimeout(step, 0) : requestAnimationFrame;
  later(() => {
    isDue = false;
    const startMs = performance.now();
    draw();
    state.drawMs = performance.now() - startMs;
  });
}

export function nowMs() {
  return Date.now() + state.skewMs;
}

export function toggle(key) {
  if (!state.opened.delete(key)) state.opened.add(key);
  changed();
}

/** Whether the job is over, as far as its driver is concerned. */
export function hasEnded(job) {
  return job.ended_ms !== null && job.ended_ms !== undefined;
}

/** The moment that the figures of the job are of: now while it runs, else its end or what is last known of it. */
export function momentOf(job) {
  if (hasEnded(job)) return job.ended_ms;
  return job.is_live ? nowMs() : job.now_ms;
}

const MOST_SAID = 5;

/** Says something to screen readers, which read what is added. */
export function say(text) {
  const said = document.getElementById("said");
  const line = document.createElement("p");
  line.textContent = text;
  said.append(line);
  while (said.children.length > MOST_SAID) said.firstElementChild.remove();
}
