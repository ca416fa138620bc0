// A new sandbox, with what most of them need; the API takes more.

import { call } from "./api.js";
import { findingsList, openDialog } from "./dialogs.js";
import { h, show } from "./dom.js";

export function openCreate() {
  openDialog("New sandbox", (dialog) => {
    const problems = h("div", { role: "alert" });
    const create = async (event) => {
      event.preventDefault();
      const form = event.currentTarget;
      const button = form.querySelector("[type=submit]");
      button.disabled = true;
      try {
        const made = await call("POST", "/sandboxes", { body: wanted(new FormData(form)) });
        dialog.close();
        location.hash = `#/sandboxes/${made.id}`;
      } catch (problem) {
        show(problems, findingsList(problem.findings));
        button.disabled = false;
      }
    };
    return [h("form", { class: "fields", onsubmit: create },
      field("Name for it", h("input", { id: "new-name", name: "name", maxlength: 256, placeholder: "kept as the label “name”" })),
      field("What it may reach", h("select", { id: "new-mode", name: "mode" },
        h("option", { value: "block-all" }, "Nothing but the domains below (block-all)"),
        h("option", { value: "allow-all" }, "The public internet (allow-all)"))),
      field("Allowed domains, one a line", h("textarea", {
        id: "new-domains", name: "domains", rows: 4, spellcheck: "false", placeholder: "api.anthropic.com\n*.github.com",
      })),
      field("Delete it after, in minutes", h("input", { id: "new-minutes", name: "minutes", type: "number", min: 1, placeholder: "never" })),
      field("Backend", h("input", { id: "new-backend", name: "backend", value: "local", required: true, spellcheck: "false" })),
      field("Image, for docker and podman", h("input", { id: "new-image", name: "image", maxlength: 1024, spellcheck: "false" })),
      problems,
      h("div", { class: "buttons" },
        h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
        h("button", { type: "submit", class: "primary" }, "Create")))];
  });
}

function field(name, input) {
  return [h("label", { for: input.id }, name), input];
}

function wanted(form) {
  const domains = form.get("domains").split(/[\s,]+/).filter(Boolean);
  const network = { mode: form.get("mode"), ...(domains.length && { egress: { allowed_domains: domains } }) };
  return {
    backend: form.get("backend"),
    network,
    ...(form.get("image") && { image: form.get("image") }),
    ...(form.get("minutes") && { hard_ttl: 60 * Number(form.get("minutes")) }),
    ...(form.get("name") && { labels: { name: form.get("name") } }),
  };
}
