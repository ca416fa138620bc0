// What was made of brokers, and how much of each budget is left.

import { h, show } from "./dom.js";
import { bytes } from "./format.js";

const NAMES = { requests: "requests", input_tokens: "tokens in", output_tokens: "tokens out", dollars: "dollars", bytes: "bytes" };

export function makeUsage() {
  const list = h("ul", { class: "usage" });
  const element = h("section", { class: "card", "aria-labelledby": "usage-title", hidden: true },
    h("div", { class: "card-head" }, h("h2", { id: "usage-title" }, "Brokers")), list);

  /** Show the services of the policy: what was made of one stays known to the server when that is removed. */
  function update(services, policy) {
    services = services.filter(({ service }) => service in (policy.services ?? {}));
    element.hidden = !services.length;
    show(list, services.map(({ service, used, budget }) => h("li", {}, h("strong", {}, service), h("ul", {},
      Object.keys(NAMES).filter((key) => used[key] || budget[key]).map((key) => amount(key, used[key] ?? 0, budget[key]))))));
  }
  return { element, update };
}

function amount(key, used, most) {
  const name = key === "dollars" ? "" : ` ${NAMES[key]}`; // the sign tells it
  const written = (number) => key === "dollars" ? `$${number.toFixed(4)}` : key === "bytes" ? bytes(number) : number.toLocaleString("en");
  if (most === undefined) return h("li", {}, `${written(used)}${name}`);
  return h("li", {}, h("meter", { min: 0, max: most, high: 0.9 * most, value: Math.min(used, most), "aria-label": NAMES[key] }),
    ` ${written(used)} of ${written(most)}${name}`);
}
