// Dialogs: the browser's own, which keep the focus inside and close with Escape.

import { h } from "./dom.js";

/** Open a dialog; it is gone when it is closed. `fill(dialog)` returns what is in it. */
export function openDialog(title, fill) {
  const dialog = h("dialog", { "aria-labelledby": "dialog-title", onclose: () => dialog.remove() });
  dialog.append(h("h2", { id: "dialog-title" }, title), ...fill(dialog));
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Ask before something that cannot be undone. */
export function confirm(title, text, name, act) {
  openDialog(title, (dialog) => [
    h("p", {}, text),
    h("div", { class: "buttons" },
      h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
      h("button", { type: "button", class: "danger", onclick: () => (dialog.close(), act()) }, name)),
  ]);
}

/** What is wrong with a request: each with its place and what to do about it. */
export function findingsList(findings, attributes = {}) {
  return h("ul", { class: "findings", ...attributes }, findings.map(({ field, detail, remedy }) =>
    h("li", { class: "finding" },
      field && h("code", {}, field), field && " ", detail, remedy && h("span", { class: "remedy" }, ` → ${remedy}`))));
}
