// The page: who is signed in, and which view is shown.

import { session } from "./api.js";
import { h, show } from "./dom.js";
import { sandboxPage } from "./sandbox.js";
import { sandboxesPage } from "./sandboxes.js";

const main = document.getElementById("main");
const signOut = document.getElementById("sign-out");
const connection = document.getElementById("connection");
let current = new AbortController();

function open() {
  current.abort();
  current = new AbortController();
  takeToken();
  const isSignedIn = session.token !== null;
  signOut.hidden = !isSignedIn;
  connection.hidden = true;
  if (!isSignedIn) return showSignIn();
  const [, place, name, part] = location.hash.split("/");
  if (place === "sandboxes" && name) sandboxPage(main, encodeURIComponent(name), part ?? "", current.signal);
  else sandboxesPage(main, current.signal);
}

/** Take the token from an address such as `/#token=…`, and leave it neither there nor in the history. */
function takeToken() {
  const found = location.hash.match(/^#token=(.+)$/);
  if (!found) return;
  session.begin(found[1]);
  history.replaceState(null, "", "#/");
}

function showSignIn(reason = "") {
  document.title = "Sign in · Belljar";
  const field = h("input", {
    id: "token", type: "password", autocomplete: "off", spellcheck: "false", required: true, "aria-describedby": "token-help",
  });
  const submit = (event) => {
    event.preventDefault();
    session.begin(field.value.trim());
    open();
  };
  show(main, h("form", { class: "sign-in card", onsubmit: submit },
    h("img", { src: "/assets/icon.svg", alt: "", width: 56, height: 56 }),
    h("h1", {}, "Sign in to Belljar"),
    reason && h("p", { class: "finding", role: "alert" }, reason),
    h("label", { for: "token" }, "Token of this server"),
    field,
    h("p", { class: "help", id: "token-help" }, h("code", {}, "belljar token show"), " prints it. It is kept until you close this tab."),
    h("button", { class: "primary", type: "submit" }, "Sign in")));
  field.focus();
}

window.addEventListener("hashchange", () => {
  open();
  if (session.token === null) return;
  main.focus({ preventScroll: true });
  window.scrollTo(0, 0);
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the fragment is the view's
  main.focus();
});
window.addEventListener("signed-out", (event) => {
  current.abort();
  signOut.hidden = connection.hidden = true;
  showSignIn(event.detail);
});
signOut.addEventListener("click", () => session.end());
open();
