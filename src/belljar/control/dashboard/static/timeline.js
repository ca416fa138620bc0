// The last ten minutes as a drawing: traffic above the line, denials below it.

import { h, s, setText } from "./dom.js";
import { bytes, clock, times } from "./format.js";
import { BUCKET, BUCKETS } from "./watch.js";

const STEP = 10;
const UP = 64;
const DOWN = 32;
const WIDTH = STEP * BUCKETS;

export function makeTimeline() {
  const bars = Array.from({ length: BUCKETS }, (_, index) => {
    const at = { x: index * STEP + 1, width: STEP - 2, rx: 1.5 };
    const carried = s("rect", { class: "carried", ...at });
    const denied = s("rect", { class: "denied", y: UP + 1, ...at });
    const policy = s("line", { class: "policy", x1: index * STEP + STEP / 2, x2: index * STEP + STEP / 2, y1: 0, y2: UP + DOWN });
    const title = s("title");
    const element = s("g", {}, s("rect", { class: "hit", x: index * STEP, y: 0, width: STEP, height: UP + DOWN }), carried, denied, policy, title);
    return { element, carried, denied, policy, title };
  });
  const drawing = s("svg", { viewBox: `0 0 ${WIDTH} ${UP + DOWN + 2}`, preserveAspectRatio: "none", role: "img" },
    s("line", { class: "axis", x1: 0, x2: WIDTH, y1: UP + 0.5, y2: UP + 0.5 }), bars.map((bar) => bar.element));
  const summary = h("p", { class: "summary" });
  const [most, mostDenied] = [h("span", { class: "most" }), h("span", { class: "most bad" })];
  const element = h("section", { class: "card timeline", "aria-label": "Timeline" },
    h("div", { class: "card-head" }, h("h2", {}, "Last ten minutes"), summary),
    h("div", { class: "plot" }, drawing, most, mostDenied),
    h("div", { class: "axis-names", "aria-hidden": "true" }, h("span", {}, "10 min ago"), h("span", {}, "5 min ago"), h("span", {}, "now")));

  function update(buckets) {
    const highest = Math.max(...buckets.map((bucket) => bucket.bytes));
    const deepest = Math.max(...buckets.map((bucket) => bucket.denied));
    buckets.forEach((bucket, index) => draw(bars[index], bucket, highest, deepest));
    setText(most, highest ? `${bytes(highest)} in ${BUCKET / 1000} s` : "");
    setText(mostDenied, deepest ? `${deepest} denied` : "");
    const told = summarize(buckets);
    setText(summary, told);
    drawing.setAttribute("aria-label", `Traffic and denials: ${told}`);
  }
  return { element, update };
}

function draw({ carried, denied, policy, title }, bucket, highest, deepest) {
  const up = height(bucket.bytes, highest, UP - 4);
  const down = height(bucket.denied, deepest, DOWN);
  set(carried, "y", UP - up);
  set(carried, "height", up);
  set(denied, "height", down);
  set(policy, "visibility", bucket.policy ? "visible" : "hidden");
  setText(title, `${clock(bucket.time)}: ${bytes(bucket.bytes)}, ${times(bucket.allowed, "new flow")}, ${bucket.denied} denied`
    + (bucket.policy ? ", policy changed" : ""));
}

/** Square roots keep what is small to be seen beside what is large. */
function height(value, most, room) {
  return value ? Math.max(2, Math.sqrt(value / most) * room).toFixed(1) : "0";
}

function set(element, name, value) {
  if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

function summarize(buckets) {
  const sum = (field) => buckets.reduce((total, bucket) => total + bucket[field], 0);
  const [carried, allowed, denied] = [sum("bytes"), sum("allowed"), sum("denied")];
  if (!carried && !allowed && !denied) return "All quiet.";
  return `${bytes(carried)} carried, ${times(allowed, "flow")} allowed, ${times(denied, "attempt")} denied`;
}
