// Asks the driver for what the current view shows: each second, more seldom while nobody looks or nothing can change.

import * as api from "./api.js";
import { link } from "./route.js";
import { changed, emptyJob, hasEnded, say, state } from "./state.js";

const EACH_MS = 1000;
const ENDED_MS = 5000;
const HIDDEN_MS = 10_000;
// Thousands of rows take time to draw: most of the time is left to the reader.
const DRAWS = 10;
const LONGEST_RETRY_MS = 5000;
const UNCHANGED_MS = 10_000;
export const PAGE_ROWS = 100;
const MOST_OLDER = 1000;
const MOST_EVENTS = 2000;

let timer = 0;
let isAsking = false;
let isAskedAgain = false;
let failures = 0;
let listed = { signature: "", atMs: 0 };
let lastEventMs = 0;

/** Asks now, and from then on regularly. */
export function pollNow() {
  if (isAsking) {
    isAskedAgain = true;
    return;
  }
  clearTimeout(timer);
  ask();
}

/** Forgets what belongs to another job. */
export function forgetJob() {
  Object.assign(state, emptyJob());
  listed = { signature: "", atMs: 0 };
  lastEventMs = 0;
}

export async function loadOlder() {
  const { jid } = state.route;
  const oldest = state.olderCheckpoints.at(-1) ?? state.checkpoints?.history.at(-1);
  if (!oldest) return;
  let answer;
  try {
    answer = await api.checkpoints(jid, PAGE_ROWS, oldest.id);
  } catch (error) {
    noteFailure(error);
    return;
  }
  if (state.route.jid !== jid) return;
  state.olderCheckpoints.push(...answer.history);
  state.hasOlder = answer.more;
  changed();
}

async function ask() {
  isAsking = true;
  isAskedAgain = false;
  const { jid } = state.route;
  try {
    await (jid === null ? askForJobs() : askForJob(jid));
    failures = 0;
    if (state.connection.kind !== "live" && state.connection.kind !== "connecting") say("The driver answers again.");
    state.connection = { kind: "live", sinceMs: Date.now(), message: "" };
  } catch (error) {
    failures += 1;
    noteFailure(error);
  }
  isAsking = false;
  changed();
  timer = setTimeout(ask, isAskedAgain ? 0 : delayMs());
}

function delayMs() {
  if (document.hidden) return HIDDEN_MS;
  if (failures) return Math.min(EACH_MS * failures, LONGEST_RETRY_MS);
  const eachMs = Math.max(EACH_MS, DRAWS * state.drawMs);
  return state.route.jid !== null && state.job && hasEnded(state.job) ? Math.max(ENDED_MS, eachMs) : eachMs;
}

function noteFailure(error) {
  // An error of this page itself: shown as well, and the page goes on.
  if (!(error instanceof api.NoAnswer || error instanceof api.Refused)) console.error(error);
  const kind = kindOf(error);
  const before = state.connection;
  if (before.kind !== kind) say(kind === "lost" ? "The driver does not answer." : error.message);
  const sinceMs = before.kind === kind || before.kind === "live" ? before.sinceMs : Date.now();
  state.connection = { kind, sinceMs, message: error.message };
}

function kindOf(error) {
  if (error instanceof api.NoAnswer) return "lost";
  if (error.status === 401 || error.status === 403) return "denied";
  return error.status === 404 ? "unknown" : "trouble";
}

async function askForJobs() {
  const answer = await api.jobs();
  state.jobs = answer.jobs;
  // A single job needs no list.
  if (state.jobs.length === 1 && !location.hash.startsWith("#/jobs"))
    location.replace(link(state.jobs[0].jid, "overview"));
}

async function askForJob(jid) {
  const job = await api.job(jid);
  if (state.route.jid !== jid) return;
  const before = state.job;
  if (job.is_live && !hasEnded(job)) state.skewMs = job.now_ms - Date.now();
  state.job = job;
  tellChanges(before, job);
  changed();
  const { tab, part } = state.route;
  const asked = [];
  if (tab !== "events" && part !== "configuration") asked.push(askForCheckpoints(jid, job));
  if (tab === "checkpoints" && part === "history") asked.push(askForDetails(jid));
  if (tab === "checkpoints" && part === "configuration") asked.push(askForConfiguration(jid));
  if (tab === "events") asked.push(askForEvents(jid));
  await Promise.all(asked);
  if (state.jobs === null) state.jobs = (await api.jobs()).jobs;
}

// The job itself tells whether its checkpoints have changed.
async function askForCheckpoints(jid, job) {
  const signature = JSON.stringify([jid, job.attempt, job.status, job.counts, job.last_completed, job.not_started]);
  const isOld = Date.now() - listed.atMs > UNCHANGED_MS;
  if (signature === listed.signature && !job.counts.in_progress && !isOld) return;
  const answer = await api.checkpoints(jid, PAGE_ROWS);
  if (state.route.jid !== jid) return;
  keepOlder(answer);
  state.checkpoints = answer;
  listed = { signature, atMs: Date.now() };
}

// What moves out of the first page stays, or an opened checkpoint would vanish before its reader's eyes.
function keepOlder(answer) {
  if (state.checkpoints === null) {
    state.hasOlder = answer.more;
    return;
  }
  const oldest = answer.history.at(-1)?.id ?? 0;
  const newestKept = state.olderCheckpoints[0]?.id ?? 0;
  state.olderCheckpoints.unshift(...state.checkpoints.history.filter((row) => row.id < oldest && row.id > newestKept));
  if (state.olderCheckpoints.length > MOST_OLDER) {
    state.olderCheckpoints.length = MOST_OLDER;
    state.hasOlder = true;
  }
}

async function askForDetails(jid) {
  const opened = [...state.opened].filter((key) => key.startsWith("checkpoint ")).map((key) => Number(key.slice(11)));
  for (const id of state.details.keys()) if (!opened.includes(id)) state.details.delete(id);
  await Promise.all(opened.filter(isDetailDue).map((id) => askForDetail(jid, id)));
}

// A checkpoint that has ended may still be committed, explained and discarded: the row in the list tells.
function isDetailDue(id) {
  const known = state.details.get(id);
  if (!known || known.error || known.status === "IN_PROGRESS") return true;
  const row = state.checkpoints?.history.find((item) => item.id === id);
  return row !== undefined && rowSignature(row) !== rowSignature(known);
}

function rowSignature(row) {
  return JSON.stringify([row.status, row.acknowledged, row.commit_ms, row.discarded, row.explanation?.sentence]);
}

async function askForDetail(jid, id) {
  try {
    const detail = await api.checkpoint(jid, id);
    if (state.route.jid === jid) state.details.set(id, detail);
  } catch (error) {
    if (!(error instanceof api.Refused)) throw error;
    state.details.set(id, { error: error.message });
  }
}

async function askForConfiguration(jid) {
  if (state.configuration && state.configuration.attempt === state.job.attempt) return;
  const answer = await api.configuration(jid);
  if (state.route.jid === jid) state.configuration = { attempt: state.job.attempt, sections: answer };
}

async function askForEvents(jid) {
  const answer = await api.events(jid, lastEventMs);
  if (state.route.jid !== jid) return;
  // Several events may have the same time, and more of them may follow: those of the last time are asked for again.
  const known = new Set(state.events.map((event) => `${event.at_ms} ${event.text}`));
  const fresh = answer.events.filter((event) => !known.has(`${event.at_ms} ${event.text}`));
  if (fresh.length === 0) return;
  state.events = [...state.events, ...fresh].sort((a, b) => a.at_ms - b.at_ms).slice(-MOST_EVENTS);
  lastEventMs = Math.max(state.events.at(-1).at_ms - 1, 0);
}

function tellChanges(before, now) {
  if (before === null) return;
  if (before.status !== now.status) say(`Job ${now.name} is now ${now.status}.`);
  else if (before.health.line !== now.health.line && before.health.level !== now.health.level)
    say(`Health: ${now.health.line}`);
  else if (now.counts.failed > before.counts.failed)
    say(`A checkpoint failed: ${now.last_failed?.failure?.message ?? ""}`);
}
