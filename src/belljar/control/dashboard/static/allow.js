// "Allow this": shows what would change before anything does.

import { call, getPolicy } from "./api.js";
import { diffView, effectView } from "./diff.js";
import { findingsList, openDialog } from "./dialogs.js";
import { h, show } from "./dom.js";
import { notify, notifyProblem } from "./notices.js";
import { opening } from "./opening.js";

const TEN_MINUTES = 600;

/** Open what was denied for ten minutes. `onOpened` is told so, in words. */
export async function allowForTenMinutes(sandbox, { event }, onOpened) {
  try {
    const { policy } = await getPolicy(sandbox);
    const { grant, why } = opening(event, policy);
    if (!grant) return notify(why ?? "A port of the host cannot be opened for a time; allow it instead.", { isError: true });
    const made = await call("POST", `/sandboxes/${sandbox}/network/grants`, { body: { allow: grant, seconds: TEN_MINUTES } });
    onOpened("✓ open for ten minutes");
    notify(`${grant} is open for ten minutes.`, { action: ["Close now", () => endGrant(sandbox, made.id)] });
  } catch (problem) {
    notifyProblem(problem);
  }
}

export async function endGrant(sandbox, grant) {
  try {
    await call("DELETE", `/sandboxes/${sandbox}/network/grants/${grant}`);
    notify("It is closed again.");
  } catch (problem) {
    notifyProblem(problem);
  }
}

/** Show what allowing it would change in the policy; apply it if that is wanted. */
export function openAllow(sandbox, group, onOpened) {
  openDialog(`Allow ${group.where}?`, (dialog) => {
    const body = h("div", { class: "dialog-body" }, h("p", { class: "help" }, "Looking at the policy…"));
    preview(sandbox, group, onOpened, body, dialog);
    return [body];
  });
}

async function preview(sandbox, group, onOpened, body, dialog) {
  const { event } = group;
  const path = `/sandboxes/${sandbox}/network`;
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  try {
    const { policy, etag } = await getPolicy(sandbox);
    const { change, grant, why } = opening(event, policy);
    if (why) {
      const edit = h("a", { class: "button", href: `#/sandboxes/${sandbox}/policy`, onclick: () => dialog.close() }, "Open the policy");
      return show(body, h("p", {}, event.sentence), h("p", { class: "warning" }, why), h("div", { class: "buttons" }, close, edit));
    }
    const found = await call("PATCH", `${path}?dry_run=true`, { body: { add: change }, etag });
    const apply = async () => {
      try {
        await call("PATCH", path, { body: { add: change }, etag });
        dialog.close();
        onOpened("✓ allowed");
        notify("The new policy is in force.");
      } catch (problem) {
        if (problem.code !== "policy_changed") return show(body, findingsList(problem.findings), h("div", { class: "buttons" }, close));
        notify("Somebody else has just changed the policy: look again.", { isError: true });
        preview(sandbox, group, onOpened, body, dialog);
      }
    };
    const applying = h("button", { type: "button", class: "primary", onclick: apply }, "Allow");
    show(body,
      h("p", {}, event.sentence),
      h("h3", {}, "Change of the policy"), diffView(policy, found.policy),
      h("h3", {}, "Of what was tried lately"),
      found.changes.length ? null : h("p", { class: "help" }, "nothing would be decided otherwise."),
      effectView(found),
      h("div", { class: "buttons" }, close,
        grant && h("button", { type: "button", onclick: () => (dialog.close(), allowForTenMinutes(sandbox, group, onOpened)) }, "For ten minutes"),
        applying));
    applying.focus();
  } catch (problem) {
    show(body, findingsList(problem.findings ?? [problem]), h("div", { class: "buttons" }, close));
  }
}
