// What one sandbox has tried, made of its events: destinations in groups, and a timeline in buckets.

import { destination } from "./format.js";

export const BUCKET = 10_000;
export const BUCKETS = 60;
const MOST_GROUPS = 500;
const RETURNS_AFTER = 30_000;

export class Watch {
  constructor() {
    /** Groups by key; those that came (back) last are at the end. */
    this.groups = new Map();
    this.changed = new Set();
    this.denied = 0;
    this.notes = new Map();
    this.buckets = new Map();
    this.began = Date.now();
    this.ahead = null;
  }

  add(event) {
    const time = Date.parse(event.time);
    switch (event.event) {
      case "flow.denied":
      case "dns.denied":
        this.denied += 1;
        this.bucket(time).denied += 1;
        this.group(event, time, "denied");
        break;
      case "flow.allowed":
        this.bucket(time).allowed += 1;
        this.group(event, time, "allowed");
        break;
      case "flow.closed":
        this.closed(event.bytes_up + event.bytes_down, time);
        break;
      case "policy.changed":
        this.bucket(time).policy += 1;
        break;
      case "limit.reached":
        this.note(`The limit “${event.limit}” was reached`, event.times);
        break;
      case "audit.lost":
        this.note(event.cause === "flood" ? "Denials that came too fast to be written down" : "Lost events", event.lines);
        break;
    }
  }

  group(event, time, verdict) {
    const where = destination(event);
    const key = `${verdict} ${where} ${event.reason}`;
    let group = this.groups.get(key);
    if (!group || time - group.last > RETURNS_AFTER) {
      this.groups.delete(key);
      group = { count: 0, ...group, key, verdict, where };
      this.groups.set(key, group);
      if (this.groups.size > MOST_GROUPS) this.groups.delete(this.groups.keys().next().value);
    }
    group.count += 1;
    group.last = time;
    group.event = event;
    group.opened = null;
    this.changed.add(key);
  }

  note(text, count) {
    this.notes.set(text, (this.notes.get(text) ?? 0) + count);
  }

  bucket(time) {
    const number = Math.floor(time / BUCKET);
    if (!this.buckets.has(number)) this.buckets.set(number, { bytes: 0, allowed: 0, denied: 0, policy: 0 });
    return this.buckets.get(number);
  }

  /** Forget what has left the timeline, and return what is in it, the oldest first. */
  timeline() {
    const last = Math.floor(Date.now() / BUCKET);
    for (const number of this.buckets.keys()) if (number <= last - BUCKETS) this.buckets.delete(number);
    return Array.from({ length: BUCKETS }, (_, index) => {
      const number = last - BUCKETS + 1 + index;
      return { time: number * BUCKET, ...(this.buckets.get(number) ?? { bytes: 0, allowed: 0, denied: 0, policy: 0 }) };
    });
  }

  /**
   * Count the bytes of flows that are open. `ahead` is what was counted of flows whose end has not been told yet; when
   * it is, only the rest of its bytes is new. What was carried before this page looked is not counted as of now.
   */
  open(flows) {
    const carried = flows.reduce((sum, flow) => sum + flow.bytes_up + flow.bytes_down, 0);
    if (this.ahead !== null && carried > this.ahead) this.bucket(Date.now()).bytes += carried - this.ahead;
    this.ahead = Math.max(carried, this.ahead ?? 0);
  }

  closed(carried, time) {
    const known = time >= this.began ? Math.min(this.ahead ?? 0, carried) : 0;
    if (this.ahead !== null) this.ahead -= known;
    this.bucket(time).bytes += carried - known;
  }

  /** Return the keys of groups that have changed since the last call. */
  takeChanged() {
    const changed = this.changed;
    this.changed = new Set();
    return changed;
  }
}
