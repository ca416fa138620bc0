// What is open now, with its bytes; and what is open for a time.

import { endGrant } from "./allow.js";
import { arrange, h, setText, show } from "./dom.js";
import { bytes, destination, span, times } from "./format.js";

const MOST_SHOWN = 100;

export function makeFlows() {
  const body = h("tbody");
  const table = h("table", { class: "flows" },
    h("thead", {}, h("tr", {}, ["Destination", "Sent", "Received", "For"].map((name) => h("th", { scope: "col" }, name)))), body);
  const none = h("p", { class: "empty small" }, "No connection is open.");
  const count = h("span", { class: "count" });
  const more = h("p", { class: "help foot" });
  const element = h("section", { class: "card", "aria-labelledby": "flows-title" },
    h("div", { class: "card-head" }, h("h2", { id: "flows-title" }, "Open now ", count)), h("div", { class: "scroll" }, table), none, more);
  const rows = [];

  function update(flows) {
    const shown = flows.toSorted((one, other) => other.seconds - one.seconds).slice(0, MOST_SHOWN);
    while (rows.length < shown.length) rows.push(h("tr", {}, h("th", { scope: "row" }, h("code")), h("td"), h("td"), h("td")));
    arrange(body, shown.map((flow, index) => {
      const [where, up, down, time] = rows[index].children;
      setText(where.firstChild, destination(flow));
      setText(up, bytes(flow.bytes_up));
      setText(down, bytes(flow.bytes_down));
      setText(time, span(flow.seconds));
      return rows[index];
    }));
    table.hidden = !shown.length;
    none.hidden = shown.length > 0;
    setText(count, flows.length ? String(flows.length) : "");
    setText(more, flows.length > MOST_SHOWN ? `The oldest ${MOST_SHOWN} of ${times(flows.length, "flow")}.` : "");
  }
  update([]);
  return { element, update };
}

export function makeGrants(sandbox) {
  const list = h("ul", { class: "grants" });
  const element = h("section", { class: "card", "aria-labelledby": "grants-title", hidden: true },
    h("div", { class: "card-head" }, h("h2", { id: "grants-title" }, "Open for a time")), list);
  let grants = [];
  let known = "";

  function update(found) {
    grants = found;
    element.hidden = !grants.length;
    const now = grants.map(({ id }) => id).join();
    if (now !== known) {
      known = now;
      show(list, grants.map((grant) => h("li", {}, h("code", {}, grant.allow), h("span", { class: "when" }),
        h("button", { type: "button", "aria-label": `Close ${grant.allow} now`, onclick: () => endGrant(sandbox, grant.id) }, "Close now"))));
    }
    tick();
  }

  function tick() {
    grants.forEach((grant, index) => {
      const left = Math.max(0, grant.ends_at - Date.now() / 1000);
      setText(list.children[index].querySelector(".when"), `${Math.floor(left / 60)}:${String(Math.floor(left % 60)).padStart(2, "0")} left`);
    });
  }
  return { element, update, tick };
}
