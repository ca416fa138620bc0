// One sandbox: how it is, what can be done with it, and its views.

import { call } from "./api.js";
import { confirm } from "./dialogs.js";
import { h, regularly, setText, show, soon } from "./dom.js";
import { span } from "./format.js";
import { layersView } from "./layers.js";
import { notify, notifyProblem, showConnection } from "./notices.js";
import { policyView } from "./policy.js";
import { follow } from "./stream.js";
import { trafficView } from "./traffic.js";

/** Their names, what shows them, and the event that they begin after; null is now. */
const VIEWS = { "": ["Traffic", trafficView, 0], policy: ["Policy", policyView, null], layers: ["Layers", layersView, null] };

export async function sandboxPage(main, sandbox, part, signal) {
  document.title = `${sandbox} · Belljar`;
  const path = `/sandboxes/${sandbox}`;
  const header = makeHeader(path);
  const place = h("div", { class: "view" });
  const [, view, after] = VIEWS[part] ?? VIEWS[""];
  show(main, header.element, h("nav", { class: "tabs", "aria-label": "Views of this sandbox" }, Object.entries(VIEWS).map(([key, [name]]) =>
    h("a", { href: `#${path}${key && `/${key}`}`, "aria-current": key === part ? "page" : null }, name))), place);

  const gone = () => {
    show(main, h("div", { class: "card empty" }, h("h1", {}, "This sandbox is gone"),
      h("p", {}, "It was deleted, or there never was one of this name."), h("a", { class: "button", href: "#/" }, "All sandboxes")));
  };
  async function refresh() {
    try {
      header.update(await call("GET", path, { signal }));
    } catch (problem) {
      if (problem.status === 404) gone();
      else if (!signal.aborted) notifyProblem(problem);
    }
  }
  const refreshSoon = soon(refresh, 100, signal);
  await refresh();
  if (signal.aborted || !place.isConnected) return;
  const onEvents = view(place, sandbox, signal);
  regularly(header.tick, 1000, signal);
  follow(path, {
    signal,
    after,
    onState: (state) => (showConnection(state), state === "live" && refreshSoon()),
    onGone: gone,
    onEvents: (events) => {
      onEvents(events);
      if (events.some(({ event }) => /^(sandbox|policy|grant)\./.test(event))) refreshSoon();
    },
  });
}

function makeHeader(path) {
  const title = h("h1");
  const state = h("span", { class: "state" });
  const facts = h("p", { class: "facts" });
  const detail = h("p", { class: "warning", hidden: true });
  const pause = h("button", { type: "button", onclick: () => act(pause, "POST", known.status === "paused" ? "/resume" : "/pause") }, "Pause");
  const remove = h("button", { type: "button", class: "danger-quiet", onclick: () => confirm(
    `Delete ${known.id}?`, "Every process inside ends, and everything that the sandbox held is gone.", "Delete",
    async () => (await act(remove, "DELETE", "")) && (location.hash = "#/")) }, "Delete…");
  const element = h("div", {}, h("a", { class: "back", href: "#/" }, "← Sandboxes"),
    h("div", { class: "head" }, h("div", {}, h("div", { class: "title" }, title, state), facts), h("span", { class: "head-end" }, pause, remove)), detail);
  let known = null;

  async function act(button, method, rest) {
    button.disabled = true;
    try {
      await call(method, path + rest);
      if (method === "DELETE") notify(`${known.id} is deleted.`);
      return true;
    } catch (problem) {
      notifyProblem(problem);
      return false;
    } finally {
      button.disabled = false;
    }
  }

  function update(sandbox) {
    known = sandbox;
    setText(title, sandbox.labels.name ?? sandbox.id);
    document.title = `${title.textContent} · Belljar`;
    state.dataset.state = sandbox.status;
    setText(state, sandbox.status);
    pause.hidden = !["running", "paused"].includes(sandbox.status);
    setText(pause, sandbox.status === "paused" ? "Resume" : "Pause");
    detail.hidden = !sandbox.detail;
    setText(detail, sandbox.detail ?? "");
    tick();
  }

  function tick() {
    if (!known) return;
    const now = Date.now() / 1000;
    const until = (at, what) => at && `${what} in ${span(Math.max(0, at - now))}`;
    setText(facts, [
      known.labels.name && known.id,
      `${known.backend} backend`,
      known.image,
      `${known.network.mode}, generation ${known.network.generation}${isClosed(known) ? " (not in force: nothing can be reached)" : ""}`,
      `${span(Math.max(1, now - known.created_at))} old`,
      until(known.expires_at, "pauses"),
      until(known.hard_expires_at, "is deleted"),
      ...Object.entries(known.labels).filter(([name]) => name !== "name").map((pair) => pair.join("=")),
    ].filter(Boolean).join("  ·  "));
  }
  return { element, update, tick };
}

function isClosed({ status, network }) {
  return ["running", "paused"].includes(status) && !network.in_force;
}
