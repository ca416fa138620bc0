// What holds one sandbox: its layers, as they are seen when somebody asks.

import { call } from "./api.js";
import { h, show } from "./dom.js";
import { notifyProblem } from "./notices.js";

/** What is said of each, and the colour of its dot. */
const STATES = new Map([[true, ["active", "running"]], [false, ["inactive", "dead"]], [null, ["unknown", "paused"]]]);

/** Fill the view; return what has to be told of events. */
export function layersView(place, sandbox, signal) {
  const body = h("tbody");
  const again = h("button", { type: "button", onclick: look }, "Look again");
  show(place, h("section", { class: "card", "aria-labelledby": "layers-title" },
    h("div", { class: "card-head" }, h("h2", { id: "layers-title" }, "Layers"), again),
    h("div", { class: "scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, ["Layer", "State", "Evidence"].map((name) => h("th", { scope: "col" }, name)))), body)),
    h("p", { class: "help foot" }, "Seen and tried in the sandbox itself; that leaves a few denials in its log.")));

  async function look() {
    again.disabled = true;
    try {
      const { layers } = await call("GET", `/sandboxes/${sandbox}/layers`, { signal });
      show(body, layers.map(row));
    } catch (problem) {
      if (!signal.aborted) notifyProblem(problem);
    } finally {
      again.disabled = false;
    }
  }

  look();
  return () => {};
}

function row({ name, active, evidence, remedy }) {
  const [word, colour] = STATES.get(active);
  return h("tr", {}, h("th", { scope: "row" }, name.replace("_", " ")), h("td", {}, h("span", { class: "state", "data-state": colour }, word)),
    h("td", {}, [evidence, remedy].filter(Boolean).join("; ")));
}
