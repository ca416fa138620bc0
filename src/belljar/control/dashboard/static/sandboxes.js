// All sandboxes: how they are, how old, and what they carry.

import { call } from "./api.js";
import { openCreate } from "./create.js";
import { arrange, h, regularly, setText, show, soon } from "./dom.js";
import { ago, bytes, destination, isSelfInspection, span } from "./format.js";
import { traffic } from "./metrics.js";
import { notifyProblem, showConnection } from "./notices.js";
import { follow } from "./stream.js";

const EVERY = 2000;
const COLUMNS = ["Sandbox", "State", "Age", "Mode", "Traffic", "Open", "Denied", "Last denied"];

export function sandboxesPage(main, signal) {
  document.title = "Sandboxes · Belljar";
  const filter = h("input", {
    type: "search", placeholder: "Filter  ( / )", "aria-label": "Filter sandboxes by name, label or state", oninput: () => draw(),
  });
  const body = h("tbody");
  const count = h("span", { class: "count" });
  const place = h("div", {}, h("p", { class: "empty" }, "Looking…"));
  const table = h("div", { class: "card scroll" }, h("table", { class: "sandboxes" },
    h("thead", {}, h("tr", {}, COLUMNS.map((name) => h("th", { scope: "col" }, name)))), body));
  show(main, h("div", { class: "head" },
    h("h1", {}, "Sandboxes ", count),
    h("span", { class: "head-end" }, filter, h("button", { class: "primary", type: "button", onclick: openCreate }, "New sandbox"))), place);

  const rows = new Map();
  const denied = new Map();
  const lookedUp = new Set();
  let sandboxes = null;
  let numbers = new Map();

  function draw() {
    if (!sandboxes) return;
    const wanted = filter.value.trim().toLowerCase();
    const shown = sandboxes.filter((sandbox) => words(sandbox).includes(wanted));
    setText(count, sandboxes.length ? String(sandboxes.length) : "");
    filter.hidden = sandboxes.length === 0;
    if (!sandboxes.length) return show(place, none());
    if (!shown.length) return show(place, h("p", { class: "card empty" }, "No sandbox matches the filter."));
    for (const name of rows.keys()) if (!sandboxes.some(({ id }) => id === name)) rows.delete(name);
    arrange(body, shown.map((sandbox) => {
      if (!rows.has(sandbox.id)) rows.set(sandbox.id, makeRow(sandbox.id));
      const row = rows.get(sandbox.id);
      row.update(sandbox, numbers.get(sandbox.id), denied.get(sandbox.id));
      return row.element;
    }));
    if (table.parentNode !== place) show(place, table);
  }

  async function refresh() {
    try {
      const [listed, measured] = await Promise.all([call("GET", "/sandboxes?limit=1000", { signal }), traffic(signal)]);
      sandboxes = listed.sandboxes.reverse();
      numbers = measured;
      draw();
      lookUpDenials();
    } catch (problem) {
      if (!sandboxes && !signal.aborted) notifyProblem(problem);
    }
  }

  /** Find what was denied last before this page looked; one sandbox after the other, each once. */
  async function lookUpDenials() {
    for (const { id } of sandboxes.filter(({ id }) => !lookedUp.has(id))) {
      lookedUp.add(id);
      const { denials } = await call("GET", `/sandboxes/${id}/denials?limit=10`, { signal }).catch(() => ({ denials: [] }));
      const last = denials.find((event) => !isSelfInspection(event));
      if (last && !denied.has(id)) denied.set(id, last);
    }
    drawSoon();
  }

  const refreshSoon = soon(refresh, 100, signal);
  const drawSoon = soon(draw, 250, signal);
  refresh();
  regularly(refresh, EVERY, signal);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.closest("input, textarea, dialog")) return;
    event.preventDefault();
    filter.focus();
  }, { signal });
  follow("", {
    signal,
    onState: (state) => (showConnection(state), state === "live" && refreshSoon()),
    onEvents: (events) => {
      for (const event of events) {
        if (event.event.endsWith(".denied")) isSelfInspection(event) || denied.set(event.sandbox, event);
        else if (!event.event.startsWith("dns.")) refreshSoon();
      }
      drawSoon();
    },
  });
}

function words({ id, labels, status, backend }) {
  return [id, status, backend, ...Object.entries(labels).map((pair) => pair.join("="))].join(" ").toLowerCase();
}

function none() {
  return h("div", { class: "card empty" },
    h("img", { src: "/assets/icon.svg", alt: "", width: 64, height: 64 }),
    h("h2", {}, "No sandboxes yet"),
    h("p", {}, "A sandbox has no network, only the doors you open. Make one here, or by API:"),
    h("pre", {}, "curl -H \"Authorization: Bearer $(belljar token show)\" \\\n"
      + `     -H 'Content-Type: application/json' ${location.origin}/api/v1/sandboxes -d '{}'`),
    h("button", { class: "primary", type: "button", onclick: openCreate }, "New sandbox"));
}

function makeRow(id) {
  const link = h("a", { href: `#/sandboxes/${id}` });
  const labels = h("span", { class: "labels" });
  const state = h("span", { class: "state" });
  const [age, mode, carried, open, refused, last] = COLUMNS.slice(2).map((name) => h("td", { "data-name": name }));
  carried.className = open.className = refused.className = age.className = "number";
  last.className = "last";
  const element = h("tr", {}, h("th", { scope: "row" }, link, labels), h("td", {}, state), age, mode, carried, open, refused, last);

  function update(sandbox, numbers, denial) {
    setText(link, sandbox.labels.name ?? id);
    const others = Object.entries(sandbox.labels).filter(([name]) => name !== "name").map((pair) => pair.join("="));
    setText(labels, [sandbox.labels.name && id, ...others].filter(Boolean).join(" · "));
    state.dataset.state = sandbox.status;
    state.title = sandbox.detail ?? "";
    setText(state, sandbox.status);
    setText(age, span(Math.max(1, Date.now() / 1000 - sandbox.created_at)));
    setText(mode, sandbox.network.mode);
    setText(carried, numbers ? `↑ ${bytes(numbers.up)}  ↓ ${bytes(numbers.down)}` : "–");
    setText(open, numbers ? String(numbers.live) : "–");
    setText(refused, numbers ? numbers.denied.toLocaleString("en") : "–");
    refused.classList.toggle("bad", Boolean(numbers?.denied));
    setText(last, denial ? `${destination(denial)}, ${ago(Date.parse(denial.time))}` : "");
  }
  return { element, update };
}
