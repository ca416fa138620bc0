// Short messages at the foot of the page, and the state of the connection at its head.

import { h, setText } from "./dom.js";

const SECONDS = 7;
const MOST = 3;

/** Say something. `action` is a button: [its name, what it does]. */
export function notify(text, { action = null, isError = false } = {}) {
  const area = document.getElementById("notices");
  const notice = h("div", { class: `notice${isError ? " error" : ""}`, role: isError ? "alert" : null }, h("span", {}, text));
  const close = () => notice.remove();
  if (action) {
    const [name, act] = action;
    notice.append(h("button", { type: "button", class: "quiet", onclick: () => (close(), act()) }, name));
  }
  notice.append(h("button", { type: "button", class: "quiet close", "aria-label": "Dismiss", onclick: close }, "✕"));
  area.append(notice);
  while (area.childElementCount > MOST) area.firstChild.remove();
  setTimeout(close, SECONDS * 1000);
}

/** Say what went wrong, and what to do. */
export function notifyProblem(problem) {
  if (problem.name === "AbortError" || problem.status === 401) return;
  notify(sentence(problem), { isError: true });
}

/** A problem in one line. */
export function sentence({ detail, message, remedy }) {
  return remedy ? `${detail}; ${remedy}.` : `${detail ?? message}.`;
}

/** Show whether events come in. */
export function showConnection(state) {
  const place = document.getElementById("connection");
  place.hidden = false;
  place.dataset.state = state;
  setText(place, state === "live" ? "Live" : "Reconnecting…");
}
