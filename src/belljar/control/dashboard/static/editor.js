// A text field with the numbers of its lines.

import { h, show } from "./dom.js";

export function makeEditor(onInput) {
  const numbers = h("div", { class: "line-numbers", "aria-hidden": "true" });
  const area = h("textarea", {
    class: "policy-text", spellcheck: "false", autocapitalize: "off", wrap: "off", rows: 24, "aria-label": "Policy, as JSON",
    oninput: () => (number(), onInput()), onscroll: () => { numbers.scrollTop = area.scrollTop; },
  });
  let marked = new Set();

  function number() {
    const count = area.value.split("\n").length;
    show(numbers, Array.from({ length: count }, (_, index) => h("div", { class: marked.has(index + 1) ? "marked" : null }, String(index + 1))));
    numbers.scrollTop = area.scrollTop;
  }

  return {
    element: h("div", { class: "editor" }, numbers, area),
    text: () => area.value,
    set(text) {
      area.value = text;
      number();
    },
    /** Mark lines as those where something is wrong. */
    mark(lines) {
      marked = lines;
      area.setAttribute("aria-invalid", String(lines.size > 0));
      number();
    },
    /** Take the reader to a place in the text. */
    go(offset) {
      const end = area.value.slice(offset).search(/[,\n]|$/) + offset;
      area.focus();
      area.setSelectionRange(offset, end);
    },
  };
}
