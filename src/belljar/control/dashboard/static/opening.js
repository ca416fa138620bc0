// What would open exactly what was denied: an entry of the policy, and a grant for a time.

import { BEYOND_POLICY, BEYOND_POLICY_WITHOUT_RULE } from "./knowledge.js";

const WEB_PORTS = [80, 443];
const CLOSED = {
  denied_by_rule: "A rule of the policy denies it, and rules come first: change that rule.",
  udp_blocked: "UDP stays closed in block-all.",
  service_not_allowed: "Names below belljar.internal are opened by services alone: list one there.",
  policy_missing: "There is no policy, so nothing can be reached: write one.",
  reserved_address: "It leads to a private address: list its range in allowed_cidrs if that is meant.",
};
const CLOSED_FOR_GOOD = "No entry of a policy can open this.";

/** Return whether a change of the policy can lift a denial. */
export function isOpenable({ reason, rule }) {
  return !BEYOND_POLICY.has(reason) && !(rule === null && BEYOND_POLICY_WITHOUT_RULE.has(reason));
}

/** Return whether a grant for a time can: it opens what an entry of the policy would, but no port of the host. */
export function isOpenableForATime(event) {
  return isOpenable(event) && event.rule !== null && !CLOSED[event.reason] && event.reason !== "host_port_not_allowed";
}

/** Return {change, grant} for a denial under a policy, or {why} it cannot be opened like that. */
export function opening({ name = null, addresses = [], port = null, protocol, reason, rule }, policy) {
  const host = name ?? addresses[0];
  if (!isOpenable({ reason, rule })) return { why: CLOSED_FOR_GOOD };
  if (CLOSED[reason] || rule === null || !host) return { why: CLOSED[reason] ?? CLOSED_FOR_GOOD };
  if (reason === "host_port_not_allowed") return { change: { host_ports: [port] }, grant: null };
  const isOrdinary = port === null || (WEB_PORTS.includes(port) && !policy.egress?.allowed_ports);
  const entry = isOrdinary ? host : `${host}:${port}`;
  if (name && policy.mode === "block-all") return { change: { egress: { allowed_domains: [entry] } }, grant: entry };
  const only = { ...(port !== null && { ports: [port] }), ...(protocol === "udp" && { protocol }) };
  const rules = [{ action: "allow", ...(name ? { domains: [name] } : { cidrs: [host] }), ...only }];
  return { change: { rules }, grant: name ? entry : host };
}
