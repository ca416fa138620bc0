// Asks what the policy in force says to a destination.

import { call } from "./api.js";
import { h, show } from "./dom.js";
import { sentence } from "./notices.js";

export function makeExplain(sandbox, signal) {
  const field = h("input", { id: "explain", spellcheck: "false", placeholder: "api.example.com, 192.0.2.7:22 or a URL", autocomplete: "off" });
  const answer = h("div", { role: "status" });
  let asked = "";

  async function ask() {
    try {
      const query = new URLSearchParams({ destination: asked });
      const told = await call("GET", `/sandboxes/${sandbox}/network/explain?${query}`, { signal });
      show(answer, h("div", { class: `explained ${told.action}` },
        h("p", {}, h("strong", {}, told.action === "allow" ? "✓ Allowed" : "✕ Denied"), " ", h("code", {}, told.destination)),
        h("p", {}, told.sentence),
        h("p", { class: "row-why" }, h("span", { class: "chip" }, told.reason), told.rule && h("code", { class: "rule" }, told.rule))));
    } catch (problem) {
      if (!signal.aborted) show(answer, h("p", { class: "finding" }, sentence(problem)));
    }
  }

  const submit = (event) => {
    event.preventDefault();
    asked = field.value.trim();
    if (asked) ask();
  };
  return {
    element: h("section", { class: "card explain", "aria-labelledby": "explain-title" },
      h("div", { class: "card-head" }, h("h2", { id: "explain-title" }, "Explain")),
      h("form", { onsubmit: submit },
        h("label", { for: "explain" }, "What does the policy in force say to"),
        h("span", { class: "with-button" }, field, h("button", { type: "submit" }, "Explain"))), answer),
    /** Ask again: the policy is another one. */
    again: () => asked && ask(),
  };
}
