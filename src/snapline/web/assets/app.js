// The page: puts the views together, follows the address, and starts to ask the driver.

import { checkpoints } from "./checkpoints.js";
import { h, render } from "./dom.js";
import { events } from "./events.js";
import { connectionBanner, jobHeader, topBar } from "./header.js";
import { jobList } from "./jobs.js";
import { overview } from "./overview.js";
import { forgetJob, pollNow } from "./poll.js";
import { link, parseRoute, TABS } from "./route.js";
import { changed, hasEnded, onChange, state } from "./state.js";
import { tabPanel, tabs } from "./widgets.js";

const TITLES = { overview: "Overview", checkpoints: "Checkpoints", events: "Events" };
const VIEWS = { overview, checkpoints, events };

function draw() {
  const { job, route, connection } = state;
  document.title = titleOf(job, route, connection);
  const isStale = connection.kind !== "live" && connection.kind !== "connecting";
  render(
    document.getElementById("page"),
    h(
      "div",
      { class: `page ${isStale ? "stale" : ""} ${job && hasEnded(job) ? "ended" : ""}`.trim() },
      topBar(),
      h(
        "main",
        { id: "content", tabindex: "-1" },
        connectionBanner(),
        route.jid === null ? [h("h1", { class: "visually-hidden" }, "Snapline jobs"), jobList()] : jobView(job, route),
      ),
      h(
        "footer",
        null,
        "Snapline · times in your zone · ",
        h("a", { href: "openapi.json" }, "REST"),
        " · ",
        h("a", { href: "metrics" }, "metrics"),
      ),
    ),
  );
}

function jobView(job, route) {
  if (!job)
    return state.connection.kind === "connecting" || state.connection.kind === "live"
      ? h("p", { class: "loading" }, "Loading.")
      : null;
  const failed = job.counts.failed;
  const items = TABS.map((name) => ({
    name,
    title: TITLES[name],
    href: link(job.jid, name),
    isSelected: name === route.tab,
    badge: name === "checkpoints" && failed ? `${failed} failed` : null,
    tone: "bad",
  }));
  return h(
    "div",
    { class: "job", key: job.jid },
    jobHeader(job),
    tabs("Views of the job", "tab", items),
    tabPanel("tab", route.tab, null, VIEWS[route.tab](job)),
  );
}

function titleOf(job, route, connection) {
  if (route.jid === null || !job) return "Snapline";
  const status = connection.kind === "lost" ? "driver gone" : job.status.toLowerCase();
  return `${job.name}: ${status} - Snapline`;
}

function follow() {
  const before = state.route;
  state.route = parseRoute(location.hash);
  if (before.jid !== state.route.jid) {
    forgetJob();
    state.connection = { kind: "connecting", sinceMs: Date.now(), message: "" };
  }
  if (state.route.id !== null && state.route.id !== undefined) state.opened.add(`checkpoint ${state.route.id}`);
  changed();
  pollNow();
}

onChange(draw);
addEventListener("hashchange", follow);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) pollNow();
});
document.querySelector(".skip-link").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("content").focus();
});
follow();
