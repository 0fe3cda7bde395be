// Where the reader is: everything after the # of the address, so that every view can be linked and reloaded.
//   #/jobs                                    all jobs
//   #/jobs/<job>/overview[/<vertex>]          the dataflow, with a vertex opened
//   #/jobs/<job>/checkpoints/<part>[/<id>]    part: overview, history, summary, configuration
//   #/jobs/<job>/events

export const TABS = ["overview", "checkpoints", "events"];
export const PARTS = ["overview", "history", "summary", "configuration"];

export function parseRoute(hash) {
  const words = hash.replace(/^#\/?/, "").split("/").map(decoded);
  if (!["jobs", "job"].includes(words[0]) || !words[1]) return { jid: null };
  const tab = TABS.includes(words[2]) ? words[2] : "overview";
  if (tab === "checkpoints") {
    const part = PARTS.includes(words[3]) ? words[3] : "overview";
    return { jid: words[1], tab, part, id: /^\d+$/.test(words[4] ?? "") ? Number(words[4]) : null };
  }
  return { jid: words[1], tab, vertex: tab === "overview" ? words[3] || null : null };
}

export function link(jid, ...words) {
  return `#/${["jobs", jid, ...words]
    .filter((word) => word !== null && word !== undefined)
    .map(encodeURIComponent)
    .join("/")}`;
}

function decoded(word) {
  try {
    return decodeURIComponent(word);
  } catch {
    return word;
  }
}
