// Numbers, times and destinations, as people read them.

import { PROBED_BY_US } from "./knowledge.js";

const UNITS = ["B", "kB", "MB", "GB", "TB"];

export function bytes(count) {
  let unit = 0;
  while (count >= 999.5 && unit < UNITS.length - 1) {
    count /= 1000;
    unit += 1;
  }
  return `${unit && count < 9.95 ? count.toFixed(1) : Math.round(count)} ${UNITS[unit]}`;
}

export function span(seconds) {
  if (seconds < 1) return "now";
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

export function ago(milliseconds) {
  const told = span((Date.now() - milliseconds) / 1000);
  return told === "now" ? "just now" : `${told} ago`;
}

export function clock(milliseconds) {
  return new Date(milliseconds).toLocaleTimeString(undefined, { hour12: false });
}

export function times(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** Whether it is what Belljar itself sends when it looks at a sandbox's layers; an agent can send the same. */
export function isSelfInspection({ name, addresses }) {
  return PROBED_BY_US.has(name ?? addresses?.[0]);
}

/** Where something wanted to go: the fields are those of an event or of a flow. */
export function destination({ name, addresses, port, protocol }) {
  const host = name ?? addresses?.[0] ?? "an unnamed destination";
  const where = port ? `${host.includes(":") ? `[${host}]` : host}:${port}` : host;
  return protocol === "udp" ? `${where}/udp` : where;
}
