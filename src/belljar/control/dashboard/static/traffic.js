// One sandbox as it happens: timeline, attempts, brokers, open flows, grants.

import { call, getPolicy } from "./api.js";
import { h, regularly, show, soon } from "./dom.js";
import { makeFlows, makeGrants } from "./flows.js";
import { makeTimeline } from "./timeline.js";
import { makeTried } from "./tried.js";
import { makeUsage } from "./usage.js";
import { Watch } from "./watch.js";

const DRAW_EVERY = 150;
const ASK_EVERY = 2000;

/** Fill the view; return what has to be told of events. */
export function trafficView(place, sandbox, signal) {
  const watch = new Watch();
  const [timeline, tried, flows, grants] = [makeTimeline(), makeTried(sandbox, watch), makeFlows(), makeGrants(sandbox)];
  const usage = makeUsage();
  show(place, timeline.element, h("div", { class: "columns" }, tried.element, h("div", { class: "column" }, usage.element, grants.element, flows.element)));

  function draw() {
    timeline.update(watch.timeline());
    tried.update();
  }

  async function ask() {
    const path = `/sandboxes/${sandbox}`;
    const [open, granted, used] = await Promise.all([
      call("GET", `${path}/flows`, { signal }).catch(() => ({ flows: [] })),
      call("GET", `${path}/network/grants`, { signal }).catch(() => ({ grants: [] })),
      call("GET", `${path}/usage`, { signal }).catch(() => ({ services: [] })),
    ]);
    const { policy } = used.services.length ? await getPolicy(sandbox).catch(() => ({ policy: {} })) : { policy: {} };
    if (signal.aborted) return;
    watch.open(open.flows);
    flows.update(open.flows);
    grants.update(granted.grants);
    usage.update(used.services, policy);
    draw();
  }

  const drawSoon = soon(() => requestAnimationFrame(draw), DRAW_EVERY, signal);
  const askSoon = soon(ask, DRAW_EVERY, signal);
  draw();
  ask();
  regularly(ask, ASK_EVERY, signal);
  regularly(() => (tried.tick(), grants.tick()), 1000, signal);
  return (events) => {
    for (const event of events) {
      watch.add(event);
      if (!event.event.endsWith(".denied") && !event.event.startsWith("dns.")) askSoon();
    }
    drawSoon();
  };
}
