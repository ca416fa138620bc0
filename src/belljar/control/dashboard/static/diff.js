// Policies line by line, in the shape of YAML (so that a new entry is one new line), and what differs between two.

import { h } from "./dom.js";

const CONTEXT = 2;
const MOST_COMPARED = 1_000_000;
const PLAIN = /^[A-Za-z][A-Za-z0-9._-]*$/;

/** Return a policy as lines. */
export function toLines(value, indent = "") {
  if (Array.isArray(value)) {
    return value.flatMap((item) => {
      if (typeof item !== "object") return [`${indent}- ${written(item)}`];
      const [first, ...rest] = toLines(item, `${indent}  `);
      return [`${indent}- ${first.trimStart()}`, ...rest];
    });
  }
  return Object.entries(value).flatMap(([key, inner]) =>
    typeof inner === "object" ? [`${indent}${key}:`, ...toLines(inner, `${indent}  `)] : [`${indent}${key}: ${written(inner)}`]);
}

function written(value) {
  return typeof value !== "string" || PLAIN.test(value) ? String(value) : JSON.stringify(value);
}

/** Return [" " or "+" or "-", line] for each line of either. */
export function compare(before, after) {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < before.length - start && end < after.length - start && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  const keep = (lines) => lines.map((line) => [" ", line]);
  const middle = inner(before.slice(start, before.length - end), after.slice(start, after.length - end));
  return [...keep(before.slice(0, start)), ...middle, ...keep(before.slice(before.length - end))];
}

/** The longest common subsequence, where the two are not too long to look for it. */
function inner(before, after) {
  if (before.length * after.length > MOST_COMPARED) {
    return [...before.map((line) => ["-", line]), ...after.map((line) => ["+", line])];
  }
  const common = Array.from({ length: before.length + 1 }, () => new Uint32Array(after.length + 1));
  for (let i = before.length - 1; i >= 0; i -= 1) {
    for (let j = after.length - 1; j >= 0; j -= 1) {
      common[i][j] = before[i] === after[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  const found = [];
  let [i, j] = [0, 0];
  while (i < before.length || j < after.length) {
    if (i < before.length && j < after.length && before[i] === after[j]) {
      found.push([" ", before[i]]);
      [i, j] = [i + 1, j + 1];
    } else if (i < before.length && (j === after.length || common[i + 1][j] >= common[i][j + 1])) found.push(["-", before[i++]]);
    else found.push(["+", after[j++]]);
  }
  return found;
}

/** Show what differs between two policies, with a little around it. */
export function diffView(before, after) {
  const lines = compare(toLines(before), toLines(after));
  const isNear = lines.map((_, index) => lines.slice(Math.max(0, index - CONTEXT), index + CONTEXT + 1).some(([sign]) => sign !== " "));
  if (!isNear.includes(true)) return h("p", { class: "help" }, "Nothing: the policy says this already.");
  const kinds = { "+": "ins", "-": "del", " ": "span" };
  const shown = lines.flatMap(([sign, line], index) => {
    if (isNear[index]) return [h(kinds[sign], {}, `${sign} ${line}\n`)];
    return index && !isNear[index - 1] ? [] : [h("span", { class: "gap" }, "  ⋯\n")];
  });
  return h("pre", { class: "diff", tabindex: 0, "aria-label": "Difference between the policies" }, shown);
}

/** Show which of the destinations that were tried would be decided otherwise, and what is odd about a policy. */
export function effectView({ changes, flows_reset: cut, warnings }) {
  return [
    changes.length > 0 && h("ul", { class: "effects" }, changes.slice(0, 20).map((change) => h("li", { class: change.to },
      h("code", {}, change.destination), change.to === "allow" ? " would be allowed" : " would be denied",
      change.live && " (open now)"))),
    changes.length > 20 && h("p", { class: "help" }, `and ${changes.length - 20} more.`),
    cut > 0 && h("p", { class: "finding" }, `${cut} open ${cut === 1 ? "flow ends" : "flows end"}.`),
    warnings.map(({ field, detail }) => h("p", { class: "warning" }, field && h("code", {}, field), " ", detail)),
  ];
}
