// Why the job restarted or failed: the newest failure first, its cause on top, trace and log folded.

import { h } from "./dom.js";
import { ageText, countText, moment, plural } from "./format.js";
import { nowMs } from "./state.js";
import { code, folded, icon } from "./widgets.js";

const AT_FIRST = 5;

export function failurePanel(job) {
  const [last] = job.failures;
  if (!last) return null;
  const isOver = job.status === "FAILED";
  return h(
    "details",
    {
      class: `failures ${isOver ? "bad" : "warning"}`,
      open: isOver || job.status === "RESTARTING" || job.status === "FAILING",
    },
    h(
      "summary",
      null,
      icon(isOver ? "bad" : "warning"),
      h(
        "span",
        { class: "cause" },
        h(
          "strong",
          null,
          isOver ? "Failed: " : `${plural(job.failed_attempts, "restart")}, the last ${ageText(last.at_ms, nowMs())}: `,
        ),
        firstLine(last.cause),
      ),
    ),
    h(
      "ol",
      { class: "failure-list" },
      job.failures.slice(0, AT_FIRST).map((failure) => failureItem(failure)),
    ),
    job.failures.length > AT_FIRST
      ? h(
          "details",
          { class: "folded" },
          h("summary", null, `${countText(job.failures.length - AT_FIRST)} older`),
          h(
            "ol",
            { class: "failure-list" },
            job.failures.slice(AT_FIRST).map((failure) => failureItem(failure)),
          ),
        )
      : null,
    job.failed_attempts > job.failures.length
      ? h("p", { class: "muted" }, `${countText(job.failed_attempts - job.failures.length)} more are not kept.`)
      : null,
  );
}

function failureItem(failure) {
  const [first, ...rest] = failure.cause.split("\n");
  return h(
    "li",
    { key: `${failure.attempt} ${failure.at_ms}` },
    h(
      "p",
      { class: "failure-cause" },
      first,
      failure.repeats > 1 ? h("span", { class: "badge bad" }, `${failure.repeats} times in a row`) : null,
    ),
    h(
      "p",
      { class: "muted" },
      "Attempt ",
      failure.attempt,
      failure.subtask ? [", first in ", code(failure.subtask)] : null,
      ", ",
      moment(failure.at_ms, nowMs()),
    ),
    folded("Whole message", rest.join("\n").trim() ? failure.cause : ""),
    folded("Trace", failure.trace),
    folded("Last lines of its log", failure.log),
  );
}

function firstLine(text) {
  return text.split("\n", 1)[0];
}
