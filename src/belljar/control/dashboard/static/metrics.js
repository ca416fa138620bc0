// Traffic of all sandboxes, from the numbers that are there for Prometheus and from what is open now.

import { call, request } from "./api.js";

const MOST_ASKED = 25;

/** Return a map from sandbox to {live, up, down, denied}. */
export async function traffic(signal) {
  const answer = await request("GET", "/metrics", { signal });
  const found = read(await answer.text());
  const open = [...found].filter(([, numbers]) => numbers.live > 0).slice(0, MOST_ASKED);
  await Promise.all(open.map(([sandbox, numbers]) => addOpen(sandbox, numbers, signal)));
  return found;
}

/** The bytes of flows that have ended are in the numbers; those of flows that are open are not. */
async function addOpen(sandbox, numbers, signal) {
  const { flows } = await call("GET", `/sandboxes/${sandbox}/flows`, { signal }).catch(() => ({ flows: [] }));
  for (const flow of flows) {
    numbers.up += flow.bytes_up;
    numbers.down += flow.bytes_down;
  }
}

function read(text) {
  const found = new Map();
  for (const [, metric, labels, value] of text.matchAll(/^belljar_(\w+)\{(.*)\} (\S+)$/gm)) {
    const sandbox = labels.match(/sandbox="([^"]*)"/)?.[1];
    if (!found.has(sandbox)) found.set(sandbox, { live: 0, up: 0, down: 0, denied: 0 });
    const numbers = found.get(sandbox);
    if (metric === "flows_live") numbers.live = Number(value);
    else if (metric === "bytes_total") numbers[labels.match(/direction="(\w+)"/)[1]] += Number(value);
    else if (metric === "dns_denied_total" || (metric === "flows_total" && labels.includes('result="denied"'))) {
      numbers.denied += Number(value);
    }
  }
  return found;
}
