// What the page asks the driver, and what can come of it. All addresses are relative to the page.

const ANSWER_TIMEOUT_MS = 8000;

/** The driver said no: `status` is that of HTTP. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The driver did not answer. */
export class NoAnswer extends Error {}

export const jobs = () => call("snapline/jobs");
export const job = (jid) => call(`snapline/jobs/${encodeURIComponent(jid)}`);
export const configuration = (jid) => call(`snapline/jobs/${encodeURIComponent(jid)}/configuration`);
export const checkpoint = (jid, id) => call(`snapline/jobs/${encodeURIComponent(jid)}/checkpoints/${id}`);
export const events = (jid, afterMs) => call(`snapline/jobs/${encodeURIComponent(jid)}/events?after=${afterMs}`);
export const operation = (id) => call(`snapline/operations/${encodeURIComponent(id)}`);

export function checkpoints(jid, limit, before) {
  const older = before === undefined ? "" : `&before=${before}`;
  return call(`snapline/jobs/${encodeURIComponent(jid)}/checkpoints?limit=${limit}${older}`);
}

/** Begins something that takes time; returns the id of the operation. `what` is checkpoint, savepoint, stop or cancel. */
export async function begin(jid, what, body) {
  const answer = await call(`snapline/jobs/${encodeURIComponent(jid)}/${what}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  return answer.request_id;
}

async function call(path, options = {}) {
  let response;
  let text;
  try {
    response = await fetch(path, { ...options, cache: "no-store", signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) });
    text = await response.text();
  } catch (error) {
    throw new NoAnswer(error.message);
  }
  const answer = parsed(text);
  if (response.ok && answer !== undefined) return answer;
  const errors = answer?.errors?.join(" ") || `${response.status} ${response.statusText}`;
  throw new Refused(response.status, errors);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
