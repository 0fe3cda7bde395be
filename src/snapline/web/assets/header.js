// The top of the page: where one is, whether the driver answers, and of a job its status, health, restarts, figures.

import { actionButtons, noticeList } from "./actions.js";
import { h } from "./dom.js";
import { failurePanel } from "./failures.js";
import {
  ageText,
  bareTime,
  countText,
  durationText,
  isKnown,
  isTime,
  lagText,
  moment,
  plural,
  rateText,
  shortCount,
  sizeText,
  wholeSeconds,
} from "./format.js";
import { link } from "./route.js";
import { hasEnded, momentOf, nowMs, state } from "./state.js";
import { themeButton } from "./theme_button.js";
import { advice, code, icon, prose, statusLabel, toneOf } from "./widgets.js";

export function topBar() {
  const { job, jobs, route } = state;
  const hasList = route.jid === null || (jobs && jobs.length > 1);
  return h(
    "header",
    { class: "top-bar" },
    h("a", { class: "brand", href: "#/jobs", "aria-label": "Snapline, all jobs" }, mark(), h("span", null, "Snapline")),
    h(
      "nav",
      { "aria-label": "Jobs" },
      hasList && route.jid !== null ? h("a", { href: "#/jobs" }, plural(jobs.length, "job")) : null,
      job ? h("span", { class: "here" }, job.name) : null,
    ),
    connectionLight(),
    themeButton(),
  );
}

function mark() {
  return h(
    "svg",
    { viewBox: "0 0 32 32", class: "mark", "aria-hidden": "true" },
    h("path", { class: "faint", d: "M4 9h24M4 23h24" }),
    h("path", { d: "M4 16h24" }),
    h("path", { class: "snap", d: "M21.5 4 10.5 28" }),
  );
}

const LIGHTS = {
  live: ["good", "live"],
  lost: ["bad", "driver gone"],
  connecting: ["neutral", "connecting"],
  denied: ["bad", "no access"],
  unknown: ["bad", "unknown job"],
  trouble: ["warning", "error"],
};

function connectionLight() {
  const [tone, text] = LIGHTS[state.connection.kind];
  const shown = state.connection.kind === "live" && state.job && !state.job.is_live ? "from storage" : text;
  return h("span", { class: `light ${tone}` }, h("span", { class: "dot", "aria-hidden": "true" }), shown);
}

/** What stands between the reader and fresh data, if anything. */
export function connectionBanner() {
  const { kind, sinceMs, message } = state.connection;
  const since = [bareTime(sinceMs, Date.now()), ` (${ageText(sinceMs, Date.now())})`];
  if (kind === "lost") {
    const what = state.job ? "What you see is what was known then." : "";
    return banner("bad", "The driver is gone", [
      "It has not answered since ",
      since,
      `. ${what} The page goes on by itself once a driver answers at this address.`,
    ]);
  }
  if (kind === "denied") {
    return banner("bad", "No access", [
      message,
      " Open the address with its token: ",
      code("?token=..."),
      "; ",
      code("snapline status"),
      " and the driver's log say where it is.",
    ]);
  }
  if (kind === "unknown") {
    return banner("bad", "This job is not here", [
      "The driver that answers does not know it, since ",
      since,
      ". ",
      h("a", { href: "#/jobs" }, "See all jobs"),
      ".",
    ]);
  }
  if (kind === "trouble") return banner("warning", "The driver could not answer", [message, " since ", since, "."]);
  return state.job ? endBanner(state.job) : null;
}

function endBanner(job) {
  if (!hasEnded(job) && job.is_live) return null;
  const when = [moment(job.ended_ms ?? job.now_ms, nowMs())];
  if (!job.is_live && !hasEnded(job)) {
    return banner("neutral", "No driver runs this job", [
      "What you see was read from its storage. Last known: ",
      code(job.status),
      ", ",
      when,
      ".",
    ]);
  }
  const text = {
    FINISHED: "The job has finished",
    FAILED: "The job has failed",
    CANCELED: "The job was cancelled",
    SUSPENDED: "The job is suspended",
  };
  const next = {
    FAILED: "Mend the cause, and start it again under the same id: it goes on from its last checkpoint.",
    SUSPENDED: "The next driver that starts it goes on from its last checkpoint.",
  };
  return banner(toneOf(job.status), text[job.status] ?? `The job has ended: ${job.status}`, [
    when,
    ". ",
    next[job.status] ?? "Its figures stay here as long as the driver's program runs.",
  ]);
}

function banner(tone, title, children) {
  return h(
    "div",
    { class: `banner ${tone}`, role: tone === "bad" ? "alert" : null },
    icon(tone),
    h("div", null, h("strong", null, title), ". ", children),
  );
}

export function jobHeader(job) {
  return h(
    "div",
    { class: "job-header" },
    h(
      "div",
      { class: "title-row" },
      h(
        "div",
        { class: "title" },
        h("h1", null, job.name),
        status(job),
        h("p", { class: "facts-line" }, factsLine(job)),
      ),
      actionButtons(job),
    ),
    noticeList(),
    healthPanel(job),
    failurePanel(job),
    figures(job),
  );
}

function isLost() {
  return state.connection.kind === "lost" || state.connection.kind === "unknown";
}

// Nobody knows what a job does whose driver is gone.
function status(job) {
  if (!isLost() || hasEnded(job)) return statusLabel(job.status);
  return h("span", { class: "status" }, `last known: ${job.status.toLowerCase()}`);
}

function factsLine(job) {
  const items = [
    timeInStatus(job),
    h("span", { title: "How often the job was started, restarts included" }, `attempt ${job.attempt}`),
    ["started ", moment(job.started_ms, nowMs())],
    ["id ", code(job.job_id)],
  ];
  return items.map((item) => h("span", { class: "item" }, item));
}

function timeInStatus(job) {
  const since = job.status_times[job.status] ?? job.started_ms;
  if (hasEnded(job)) return `ran for ${durationText(job.ended_ms - job.started_ms)}`;
  const text = wholeSeconds(momentOf(job) - since);
  return job.status === "RUNNING"
    ? h("span", { title: "Since all tasks run" }, h("strong", null, "up "), text)
    : `for ${text}`;
}

function healthPanel(job) {
  const { level, line, notes } = job.health;
  // The line is often that of the worst note, which then need not be said twice.
  const rest = notes[0]?.text === line ? notes.slice(1) : notes;
  const [worst] = rest.length < notes.length ? notes : [];
  return h(
    "section",
    { class: `health ${level}`, "aria-label": "Health" },
    h(
      "div",
      { class: "health-line" },
      icon(isLost() ? "neutral" : level),
      h(
        "div",
        null,
        h("strong", null, prose(isLost() ? `last known: ${line}` : line)),
        worst ? [vertexLink(job, worst.vertex), advice(worst.advice)] : null,
      ),
    ),
    rest.length
      ? h(
          "ul",
          null,
          rest.map((note) => healthNote(job, note)),
        )
      : null,
  );
}

function healthNote(job, note) {
  return h(
    "li",
    { key: `${note.issue} ${note.vertex} ${note.subtask}` },
    icon(note.level),
    h("div", null, h("span", null, prose(note.text)), vertexLink(job, note.vertex), advice(note.advice)),
  );
}

function vertexLink(job, id) {
  const vertex = job.plan.vertices.find((item) => item.id === id);
  return vertex ? [" ", h("a", { href: link(job.jid, "overview", vertex.hex) }, "show")] : null;
}

function figures(job) {
  const now = nowMs();
  const last = job.last_completed;
  const lag = eventTime(job, momentOf(job));
  const memory = Object.values(job.memory_bytes);
  return h(
    "dl",
    { class: "figures" },
    rows(job),
    lag && figure("Event time", lag.text, lag.below),
    last
      ? figure("Last checkpoint", ageText(last.completed_ms, now), [
          isKnown(last.end_to_end_duration_ms) ? `${durationText(last.end_to_end_duration_ms)}, ` : "",
          sizeText(last.checkpointed_bytes),
        ])
      : figure("Last checkpoint", "none yet", job.counts.in_progress ? "one in progress" : ""),
    figure(
      "Checkpoints",
      countText(job.counts.completed),
      job.counts.failed ? h("span", { class: "bad-text" }, `${countText(job.counts.failed)} failed`) : "none failed",
    ),
    figure("State", last ? sizeText(last.state_bytes) : "–", "in the last checkpoint"),
    figure(
      "Restarts",
      countText(job.failed_attempts),
      job.repeats > 1
        ? `same error ${job.repeats} times`
        : job.failed_attempts
          ? `last ${ageText(job.failures[0]?.at_ms ?? now, now)}`
          : "none so far",
    ),
    memory.length
      ? figure(
          "Memory",
          sizeText(memory.reduce((sum, bytes) => sum + bytes, 0)),
          plural(memory.length, "operator process", "operator processes"),
        )
      : null,
    isKnown(job.state_memory_limit_bytes)
      ? figure(
          "State in memory",
          sizeText(Math.max(0, ...Object.values(job.state_memory_bytes))),
          `of ${sizeText(job.state_memory_limit_bytes)} in a slot`,
        )
      : null,
  );
}

function figure(name, value, below) {
  return h(
    "div",
    { key: name, class: "figure" },
    h("dt", null, name),
    h("dd", { class: "value" }, value),
    h("dd", { class: "below" }, below || "\u00a0"),
  );
}

// While the job runs its rates count, afterwards what it has read in all.
function rows(job) {
  const read = { rate: 0, total: 0 };
  const written = { rate: 0, total: 0 };
  for (const vertex of job.plan.vertices) {
    const figures = job.vertices[vertex.id];
    if (!figures) continue;
    const side = figures.rows_in || !vertex.is_source ? "rows_in" : "rows_out";
    for (const sum of [vertex.is_source ? read : null, vertex.is_sink ? written : null]) {
      if (sum === null) continue;
      sum.rate += figures[`${side}_per_second`];
      sum.total += figures[side];
    }
  }
  const text = hasEnded(job) ? (sum) => shortCount(sum.total) : (sum) => rateText(sum.rate);
  return figure("Rows read", text(read), `${text(written)} to sinks`);
}

// The event time of the job is that of its ends, which all others are ahead of.
function eventTime(job, now) {
  const known = Object.values(job.vertices)
    .map((vertex) => vertex.watermark_ms)
    .filter((ms) => ms !== null && ms !== undefined);
  if (known.length === 0) return null;
  const least = Math.min(...known);
  if (!isTime(least)) return { text: "–", below: least > 0 ? "end of the input" : "" };
  return {
    text: least > now ? "ahead" : lagText(now - least),
    below: [least > now ? "at " : "behind, at ", bareTime(least, now)],
  };
}
