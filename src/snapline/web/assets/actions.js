// The buttons that change the job. Each asks for confirmation in a dialog, and its result stays until it is dismissed.

import * as api from "./api.js";
import { h, render } from "./dom.js";
import { durationText } from "./format.js";
import { pollNow } from "./poll.js";
import { changed, hasEnded, say, state } from "./state.js";
import { icon, path } from "./widgets.js";

const POLL_MS = 250;

const ACTIONS = {
  checkpoint: {
    button: "Checkpoint now",
    title: "Take a checkpoint now?",
    text: "It comes in addition to the periodic ones and counts as the newest: a restart continues from it.",
    confirm: "Take checkpoint",
    running: "Checkpoint",
    fields: [
      {
        name: "scope",
        label: "What may it reuse?",
        options: [
          ["CONFIGURED", "As configured"],
          ["FULL", "Nothing: a full checkpoint"],
          ["INCREMENTAL", "All it can: incremental"],
        ],
      },
    ],
  },
  savepoint: {
    button: "Savepoint",
    title: "Take a savepoint?",
    text: "The job goes on. A savepoint is yours: the job never deletes it, and another version of the job can start from it.",
    confirm: "Take savepoint",
    running: "Savepoint",
    fields: "savepoint",
  },
  stop: {
    button: "Stop",
    title: "Stop the job with a savepoint?",
    text: "The job takes a savepoint, commits its output and ends as FINISHED. Nothing is lost; to continue, start it from the savepoint.",
    confirm: "Stop the job",
    running: "Stop with savepoint",
    fields: "savepoint",
    drain: true,
  },
  cancel: {
    button: "Cancel",
    title: "Cancel the job?",
    text: "The job ends at once, without a savepoint. Output since its last checkpoint is not committed. A cancelled job does not run again under its id; its checkpoints stay, unless its settings say otherwise.",
    confirm: "Cancel the job",
    running: "Cancel",
    fields: [],
    isDanger: true,
  },
};

export function actionButtons(job) {
  const why = whyNot(job);
  return h(
    "div",
    { class: "actions" },
    h(
      "div",
      { class: "action-buttons", role: "group", "aria-label": "Change the job" },
      Object.entries(ACTIONS).map(([what, action]) => actionButton(what, action, job, why)),
    ),
    why ? h("p", { id: "why-not", class: "muted" }, why) : null,
  );
}

function actionButton(what, action, job, why) {
  return h(
    "button",
    {
      type: "button",
      key: what,
      class: action.isDanger ? "danger" : null,
      disabled: why !== null,
      title: why,
      "aria-describedby": why ? "why-not" : null,
      onclick: () => confirm(what, job),
    },
    action.button,
  );
}

function whyNot(job) {
  if (hasEnded(job)) return "The job has ended: nothing can be changed.";
  if (!job.is_live) return "No driver runs this job: it is read from its storage.";
  if (!job.can_change) return "Read only: the job's settings (Monitoring, read_only) do not allow changes from here.";
  if (state.connection.kind !== "live") return "The driver does not answer.";
  return null;
}

function confirm(what, job) {
  const action = ACTIONS[what];
  const dialog = document.getElementById("dialog");
  render(
    dialog,
    h(
      "form",
      { method: "dialog", key: `${what} ${Date.now()}`, onsubmit: (event) => submit(event, what, job) },
      h("h2", { id: "dialog-title" }, action.title),
      h("p", null, action.text),
      fieldsOf(action),
      h(
        "div",
        { class: "dialog-buttons" },
        h("button", { type: "button", onclick: () => dialog.close(), autofocus: action.isDanger }, "Back"),
        h("button", { type: "submit", class: action.isDanger ? "danger primary" : "primary" }, action.confirm),
      ),
    ),
  );
  dialog.showModal();
}

function fieldsOf(action) {
  if (action.fields !== "savepoint") return action.fields.map((field) => select(field));
  return [
    h(
      "label",
      null,
      "Directory",
      h("input", {
        name: "directory",
        type: "text",
        placeholder: "as configured (savepoint_dir)",
        autocomplete: "off",
        spellcheck: "false",
      }),
      h("small", null, "A path or URL that all machines of the job can reach."),
    ),
    select({
      name: "format",
      label: "Format",
      options: [
        ["", "As configured"],
        ["CANONICAL", "Canonical: independent of the state backend"],
        ["NATIVE", "Native: the backend's own files, faster"],
      ],
    }),
    action.drain
      ? h(
          "label",
          { class: "check" },
          h("input", { type: "checkbox", name: "drain" }),
          h(
            "span",
            null,
            "Drain: end the input first, so that all windows and timers fire. Only for the last run of a job, not for one that will continue.",
          ),
        )
      : null,
  ];
}

function select({ name, label, options }) {
  return h(
    "label",
    null,
    label,
    h(
      "select",
      { name },
      options.map(([value, text]) => h("option", { value }, text)),
    ),
  );
}

function submit(event, what, job) {
  const form = new FormData(event.currentTarget);
  const body = {};
  for (const name of ["scope", "directory", "format"]) {
    const value = form.get(name)?.trim();
    if (value) body[name] = value;
  }
  if (what === "stop") body.drain = form.has("drain");
  operate(what, job.jid, body);
}

async function operate(what, jid, body) {
  const notice = {
    id: `${what} ${Date.now()}`,
    jid,
    title: ACTIONS[what].running,
    status: "running",
    startedMs: Date.now(),
    endedMs: null,
    error: "",
    location: "",
  };
  state.notices.unshift(notice);
  changed();
  try {
    await follow(notice, await api.begin(jid, what, body));
  } catch (error) {
    if (!(error instanceof api.Refused || error instanceof api.NoAnswer)) throw error;
    Object.assign(notice, { status: "failed", error: error.message });
  }
  notice.endedMs = Date.now();
  say(noticeText(notice));
  pollNow();
  changed();
}

// A driver may end with its job before it has told the result.
async function follow(notice, requestId) {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    let answer;
    try {
      answer = await api.operation(requestId);
    } catch (error) {
      if (error instanceof api.NoAnswer) {
        notice.status = "unknown";
        changed();
        continue;
      }
      throw error;
    }
    Object.assign(notice, { status: answer.status, error: answer.error ?? "", location: answer.location ?? "" });
    if (answer.status !== "running") return;
    changed();
  }
}

const TONES = { running: "neutral", unknown: "warning", done: "good", failed: "bad" };

function noticeText(notice) {
  const took = durationText((notice.endedMs ?? Date.now()) - notice.startedMs);
  const texts = {
    running: `${notice.title} is running.`,
    unknown: `${notice.title}: the driver no longer answers, so the outcome is not known. A program ends soon after its last job.`,
    done: `${notice.title} is done, in ${took}.`,
    failed: `${notice.title} failed: ${notice.error}`,
  };
  return texts[notice.status];
}

export function noticeList() {
  const shown = state.notices.filter((notice) => notice.jid === state.route.jid);
  return shown.length === 0
    ? null
    : h(
        "ul",
        { class: "notices", "aria-label": "What you asked for" },
        shown.map((notice) =>
          h(
            "li",
            { key: notice.id, class: `banner ${TONES[notice.status]}`, "data-status": notice.status },
            notice.status === "running"
              ? h("span", { class: "spinner", "aria-hidden": "true" })
              : icon(TONES[notice.status]),
            h("div", null, noticeText(notice), notice.location ? [" ", path(notice.location)] : null),
            h(
              "button",
              {
                type: "button",
                class: "link-button",
                "aria-label": `Dismiss: ${notice.title}`,
                onclick: () => dismiss(notice),
              },
              "dismiss",
            ),
          ),
        ),
      );
}

function dismiss(notice) {
  state.notices = state.notices.filter((item) => item !== notice);
  changed();
}
