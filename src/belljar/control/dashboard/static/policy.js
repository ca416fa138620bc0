// The policy of a sandbox: an editor that is checked while somebody types, and a box that explains decisions.

import { call, getPolicy } from "./api.js";
import { diffView, effectView } from "./diff.js";
import { h, setText, show, soon } from "./dom.js";
import { makeEditor } from "./editor.js";
import { makeExplain } from "./explain.js";
import { notify, notifyProblem } from "./notices.js";
import { SyntaxProblem, lineOf, places } from "./places.js";

const CHECK_AFTER = 250;

export function policyView(place, sandbox, signal) {
  const path = `/sandboxes/${sandbox}/network`;
  const editor = makeEditor(() => edited());
  const verdict = h("p", { class: "verdict", role: "status" });
  const details = h("div", { class: "preview" });
  const apply = h("button", { type: "button", class: "primary", disabled: true, onclick: () => put() }, "Apply");
  const revert = h("button", { type: "button", disabled: true, onclick: () => load() }, "Revert");
  const explain = makeExplain(sandbox, signal);
  show(place, h("div", { class: "columns policy" },
    h("section", { class: "card", "aria-labelledby": "editor-title" },
      h("div", { class: "card-head" }, h("h2", { id: "editor-title" }, "Policy"), h("span", { class: "head-end" }, revert, apply)), editor.element),
    h("div", { class: "column" },
      h("section", { class: "card", "aria-label": "Check" }, verdict, details), explain.element)));
  let base = null;
  let checking = new AbortController();
  const inForce = () => `${JSON.stringify(base.policy, null, 2)}\n`;

  /** Show the policy in force; what somebody has begun to type meanwhile stays. */
  async function load() {
    const isUntouched = revert.disabled;
    try {
      base = await getPolicy(sandbox, signal);
      if (isUntouched && !revert.disabled) return checkSoon();
      editor.set(inForce());
      settle();
    } catch (problem) {
      notifyProblem(problem);
    }
  }

  /** Nothing is to be done: the text is the policy in force. */
  function settle() {
    checking.abort();
    editor.mark(new Set());
    apply.disabled = revert.disabled = true;
    say("good", "In force. Changes are checked as you type.");
    show(details);
    explain.again();
  }

  function say(kind, text) {
    verdict.dataset.kind = kind;
    setText(verdict, text);
  }

  const checkSoon = soon(() => check(), CHECK_AFTER, signal);
  function edited() {
    apply.disabled = true;
    revert.disabled = false;
    checking.abort();
    say("", "Checking…");
    checkSoon();
  }

  async function check() {
    const text = editor.text();
    if (!base) return;
    if (text === inForce()) return settle();
    checking.abort();
    checking = new AbortController();
    const { signal: current } = checking;
    try {
      const found = await call("PUT", `${path}?dry_run=true`, { text: (places(text), text), signal: current });
      editor.mark(new Set());
      say("good", "Valid. This is what would change:");
      show(details, diffView(base.policy, found.policy), found.changes.length > 0 && h("h3", {}, "Of what was tried lately"), effectView(found));
      apply.disabled = false;
    } catch (problem) {
      if (!current.aborted) refuse(problem, text);
    }
  }

  function refuse(problem, text) {
    const findings = problem instanceof SyntaxProblem
      ? [{ offset: problem.offset, detail: `This is not JSON: ${problem.message}` }]
      : problem.findings ?? [{ detail: problem.message }];
    const known = problem instanceof SyntaxProblem ? new Map() : places(text);
    const located = findings.map((finding) => ({ ...finding, offset: finding.offset ?? known.get(finding.field ?? "") }));
    editor.mark(new Set(located.filter(({ offset }) => offset !== undefined).map(({ offset }) => lineOf(text, offset))));
    say("bad", findings.length === 1 ? "One thing is to be put right:" : `${findings.length} things are to be put right:`);
    show(details, h("ul", { class: "findings" }, located.map(({ field, detail, remedy, offset }) => h("li", { class: "finding" },
      offset === undefined ? null : h("button", { type: "button", class: "link", onclick: () => editor.go(offset) }, `line ${lineOf(text, offset)}`),
      " ", field && h("code", {}, field), " ", detail, remedy && h("span", { class: "remedy" }, ` → ${remedy}`)))));
  }

  async function put() {
    apply.disabled = true;
    try {
      const change = await call("PUT", path, { text: editor.text(), etag: base.etag });
      const cut = change.flows_reset ? ` ${change.flows_reset} open flows were ended.` : "";
      notify(change.in_force
        ? `Generation ${change.generation} is in force.${cut}`
        : `Generation ${change.generation} is set. Nothing can be reached until it is in force.`);
      await load();
    } catch (problem) {
      if (problem.code === "policy_changed") {
        base = await getPolicy(sandbox, signal);
        notify("Somebody else has changed the policy. Below is what yours would change of theirs.", { isError: true });
        return check();
      }
      notifyProblem(problem);
      check();
    }
  }

  load();
  const reloadSoon = soon(() => revert.disabled && load(), CHECK_AFTER, signal);
  return (events) => {
    if (events.some(({ event }) => event === "policy.changed")) reloadSoon();
  };
}
