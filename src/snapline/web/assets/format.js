// Numbers, sizes, durations and times for people, each with its exact value where that says more.

import { h } from "./dom.js";

export const NOTHING = "–";
const FARTHEST_MS = 8.64e15; // of JavaScript's calendar; the last watermark of all is beyond it

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const dayOfYear = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const zone = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" });

export function isKnown(value) {
  return value !== null && value !== undefined && value >= 0;
}

export function countText(value) {
  return value === null || value === undefined ? NOTHING : whole.format(value);
}

/** A count in few characters: 950, 12,400, 1.2 M. */
export function shortCount(value) {
  if (value === null || value === undefined) return NOTHING;
  if (value < 1) return value === 0 ? "0" : value.toFixed(1);
  if (value < 100) return String(Math.round(value * 10) / 10);
  for (const [unit, size] of [
    ["G", 1e9],
    ["M", 1e6],
  ])
    if (value >= size * 0.9995) return `${digits(value / size)} ${unit}`;
  return whole.format(value);
}

export function rateText(perSecond) {
  return perSecond === null || perSecond === undefined ? NOTHING : `${shortCount(perSecond)}/s`;
}

export function shareText(share) {
  return share === null || share === undefined ? NOTHING : `${Math.round(share * 100)} %`;
}

export function sizeText(bytes) {
  if (!isKnown(bytes)) return NOTHING;
  if (bytes < 1000) return `${Math.round(bytes)} B`;
  let amount = bytes;
  for (const unit of ["kB", "MB", "GB", "TB"]) {
    amount /= 1000;
    if (amount < 999.5 || unit === "TB") return `${digits(amount)} ${unit}`;
  }
  return NOTHING;
}

export function durationText(ms) {
  if (!isKnown(ms)) return NOTHING;
  if (ms < 999.5) return `${ms < 10 && !Number.isInteger(ms) ? ms.toFixed(1) : Math.round(ms)} ms`;
  if (ms < 59_950) return `${digits(ms / 1000)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return pair(Math.floor(seconds / 60), "min", seconds % 60, "s");
  const minutes = Math.floor(seconds / 60);
  if (minutes < 2880) return pair(Math.floor(minutes / 60), "h", minutes % 60, "min");
  return pair(Math.floor(minutes / 1440), "d", Math.floor((minutes % 1440) / 60), "h");
}

function pair(large, largeUnit, small, smallUnit) {
  return small ? `${large} ${largeUnit} ${small} ${smallUnit}` : `${large} ${largeUnit}`;
}

// Three digits say enough, and as many in every row of a table.
function digits(amount) {
  if (Number.isInteger(amount)) return String(amount);
  return amount.toFixed(amount < 9.995 ? 2 : amount < 99.95 ? 1 : 0);
}

export function isTime(ms) {
  return isKnown(ms) && ms <= FARTHEST_MS;
}

/** The time of day in the zone of the reader, with the day if it is another one. */
export function timeText(ms, nowMs) {
  if (!isTime(ms)) return NOTHING;
  const date = new Date(ms);
  const now = new Date(nowMs);
  if (date.toDateString() === now.toDateString()) return clock.format(date);
  const shown = date.getFullYear() === now.getFullYear() ? day : dayOfYear;
  return `${shown.format(date)}, ${clock.format(date)}`;
}

export function exactTime(ms) {
  const name = zone.formatToParts(new Date(ms)).find((part) => part.type === "timeZoneName")?.value ?? "";
  return `${dayOfYear.format(ms)}, ${clock.format(ms)}.${String(Math.floor(ms % 1000)).padStart(3, "0")} ${name} (${ms})`;
}

export function ageText(ms, nowMs) {
  const age = nowMs - ms;
  if (age < -1500) return `in ${roughText(-age)}`;
  return age < 1500 ? "just now" : `${roughText(age)} ago`;
}

/** A duration in one unit: ages change each second, and two units would flicker. */
export function roughText(ms) {
  const seconds = Math.round(ms / 1000);
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h`;
  return `${whole.format(Math.floor(seconds / 86_400))} d`;
}

/** A duration that changes all the time: whole seconds, which do not flicker. */
export function wholeSeconds(ms) {
  return ms < 1000 ? "0 s" : durationText(Math.floor(ms / 1000) * 1000);
}

/** How far something is behind. */
export function lagText(ms) {
  return ms < 1000 ? "under 1 s" : wholeSeconds(ms);
}

export function size(bytes) {
  return isKnown(bytes) ? h("span", { title: `${whole.format(bytes)} bytes` }, sizeText(bytes)) : NOTHING;
}

export function duration(ms) {
  return isKnown(ms) ? h("span", { title: `${whole.format(ms)} ms` }, durationText(ms)) : NOTHING;
}

export function count(value) {
  return h("span", { title: countText(value) }, shortCount(value));
}

/** A time with its age; the exact time is its title. */
export function moment(ms, nowMs) {
  if (!isTime(ms)) return NOTHING;
  return h("span", { class: "moment" }, bareTime(ms, nowMs), h("span", { class: "age" }, `, ${ageText(ms, nowMs)}`));
}

export function bareTime(ms, nowMs) {
  if (!isTime(ms)) return NOTHING;
  return h("time", { datetime: new Date(ms).toISOString(), title: exactTime(ms) }, timeText(ms, nowMs));
}

export function plural(number, one, many = `${one}s`) {
  return `${whole.format(number)} ${number === 1 ? one : many}`;
}

/** Event time with how far it is behind. */
export function eventTime(ms, nowMs) {
  if (ms === null || ms === undefined) return NOTHING;
  if (!isTime(ms)) return ms > 0 ? "end of the input" : "idle";
  const lag = ms > nowMs ? "ahead" : `${lagText(nowMs - ms)} behind`;
  return [bareTime(ms, nowMs), h("span", { class: "age" }, `, ${lag}`)];
}

/** Late or bad rows, which stand out if there are any. */
export function lostRows(rows, tone) {
  return rows ? h("span", { class: tone }, count(rows)) : "0";
}
