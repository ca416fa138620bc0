// What a sandbox has tried, one line for each destination. Lines stay where they are while somebody is about to use one.

import { allowForTenMinutes, openAllow } from "./allow.js";
import { arrange, h, setText, show } from "./dom.js";
import { ago, isSelfInspection, times } from "./format.js";
import { isOpenable, isOpenableForATime } from "./opening.js";

const MOST_SHOWN = 100;

export function makeTried(sandbox, watch) {
  const rows = new Map();
  const list = h("ol", { class: "tried" });
  const more = h("p", { class: "help foot" });
  const notes = h("ul", { class: "notes" });
  const none = h("div", { class: "empty" });
  const waiting = h("button", { class: "waiting", type: "button", hidden: true, onclick: () => place() });
  let filter = "denied";
  const filters = h("div", { class: "segments", role: "group", "aria-label": "Which attempts to show" },
    [["denied", "Denied"], ["allowed", "Allowed"], ["", "All"]].map(([value, name]) => h("button", {
      type: "button", "aria-pressed": String(value === filter), onclick: (event) => {
        filter = value;
        for (const button of filters.children) button.setAttribute("aria-pressed", String(button === event.currentTarget));
        place();
      },
    }, name)));
  const element = h("section", { class: "card", "aria-labelledby": "tried-title" },
    h("div", { class: "card-head" }, h("h2", { id: "tried-title" }, "What it tried"), filters), waiting, list, none, more, notes);

  const wanted = () => [...watch.groups.values()].filter((group) => !filter || group.verdict === filter).reverse();
  const isInUse = () => list.querySelector(".row-actions:hover, :focus-visible") !== null || document.querySelector("dialog") !== null;

  /** Put every line in its place. */
  function place() {
    const all = wanted();
    const shown = all.slice(0, MOST_SHOWN);
    arrange(list, shown.map((group) => {
      if (!rows.has(group.key)) rows.set(group.key, makeRow(sandbox));
      rows.get(group.key).update(group);
      return rows.get(group.key).element;
    }));
    for (const key of rows.keys()) if (!rows.get(key).element.isConnected) rows.delete(key);
    waiting.hidden = true;
    list.hidden = !shown.length;
    none.hidden = shown.length > 0;
    if (!shown.length) show(none, ...nothing(filter));
    setText(more, all.length > shown.length ? `The latest ${MOST_SHOWN} of ${times(all.length, "destination")}.` : "");
  }

  function update() {
    const changed = watch.takeChanged();
    for (const key of changed) if (watch.groups.has(key)) rows.get(key)?.update(watch.groups.get(key));
    const shown = wanted().slice(0, MOST_SHOWN);
    const fresh = shown.filter((group) => !rows.has(group.key)).length;
    if (fresh && isInUse() && list.childElementCount) {
      waiting.hidden = false;
      setText(waiting, `${times(fresh, "new destination")}: show`);
    } else if (changed.size || !list.childElementCount) place();
    show(notes, [...watch.notes].map(([text, count]) => h("li", {}, `${text}: ${count.toLocaleString("en")}`)));
  }

  function tick() {
    for (const row of rows.values()) row.tick();
  }
  return { element, update, tick };
}

function nothing(filter) {
  if (filter === "denied") return [h("h3", {}, "Nothing was denied"), h("p", {}, "What the policy refuses appears here as it happens, with the reason and the rule.")];
  return [h("h3", {}, "Nothing yet"), h("p", {}, "Connections appear here as they are made.")];
}

function makeRow(sandbox) {
  let group = null;
  const mark = h("span", { class: "mark" });
  const where = h("code", { class: "where" });
  const count = h("span", { class: "times" });
  const when = h("time", { class: "when" });
  const why = h("p", { class: "why" });
  const reason = h("span", { class: "chip" });
  const rule = h("code", { class: "rule" });
  const opened = h("span", { class: "opened" });
  const onOpened = (text) => {
    group.opened = text;
    update(group);
  };
  const allow = h("button", { type: "button", onclick: () => openAllow(sandbox, group, onOpened) }, "Allow…");
  const briefly = h("button", { type: "button", onclick: () => allowForTenMinutes(sandbox, group, onOpened) }, "10 min");
  const actions = h("span", { class: "row-actions" }, allow, briefly);
  const element = h("li", {}, mark,
    h("div", { class: "row-main" },
      h("div", { class: "row-title" }, where, count, when),
      why, h("div", { class: "row-why" }, reason, rule, opened)), actions);

  function update(other) {
    group = other;
    const { event, verdict } = group;
    const isDenied = verdict === "denied";
    element.dataset.verdict = verdict;
    setText(mark, isDenied ? "✕" : "✓");
    mark.setAttribute("aria-label", verdict);
    mark.setAttribute("role", "img");
    setText(where, group.where);
    setText(count, group.count > 1 ? `× ${group.count.toLocaleString("en")}` : "");
    setText(reason, event.reason);
    setText(rule, event.rule ?? "");
    rule.hidden = !event.rule;
    setText(opened, group.opened ?? "");
    const isOurs = isSelfInspection(event);
    setText(why, isOurs ? "A look at the layers (belljar inspect) sends this, to where nobody is." : event.sentence ?? "");
    actions.hidden = !isDenied || Boolean(group.opened) || isOurs || !isOpenable(event);
    allow.setAttribute("aria-label", `Allow ${group.where}…`);
    briefly.setAttribute("aria-label", `Allow ${group.where} for ten minutes`);
    briefly.title = "Allow it for ten minutes";
    briefly.hidden = !isOpenableForATime(event);
    tick();
  }

  function tick() {
    setText(when, ago(group.last));
    when.setAttribute("datetime", new Date(group.last).toISOString());
  }
  return { element, update, tick };
}
