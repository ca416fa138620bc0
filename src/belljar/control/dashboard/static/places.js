// Where things stand in a JSON text: the server names places by path, the editor by line.

const TOKEN = /\s*(?:([{}[\],:])|("(?:[^"\\\u0000-\u001f]|\\.)*")|(-?\d[\d.eE+-]*|true|false|null))/y;

/** The text is not JSON; `offset` is where that shows. */
export class SyntaxProblem extends Error {
  constructor(message, offset) {
    super(message);
    this.offset = offset;
  }
}

/** Return a map from path (`egress.allowed_domains[2]`) to offset. Throws SyntaxProblem. */
export function places(text) {
  const found = new Map();
  const end = text.trimEnd().length;
  let at = 0;
  let token = null;

  function next() {
    TOKEN.lastIndex = at;
    const match = at < end ? TOKEN.exec(text) : null;
    if (at < end && !match) fail("this cannot be read; texts stand in double quotes");
    token = match ? { text: match[1] ?? match[2] ?? match[3], from: TOKEN.lastIndex - match[0].trimStart().length } : { text: "", from: end };
    at = match ? TOKEN.lastIndex : at;
    return token.text;
  }

  function fail(message) {
    const from = at < end ? at + text.slice(at).search(/\S/) : end;
    throw new SyntaxProblem(message, token?.from ?? from);
  }

  function value(path) {
    if (!found.has(path)) found.set(path, token.from);
    if (token.text === "{") members(path, "}", member);
    else if (token.text === "[") members(path, "]", item);
    else if (!token.text || "}],:".includes(token.text)) fail("a value is missing here");
  }

  function member(path) {
    if (!token.text.startsWith('"')) fail("a key in double quotes is missing here");
    const key = JSON.parse(token.text);
    const inner = path ? `${path}.${key}` : key;
    found.set(inner, token.from);
    if (next() !== ":") fail("a colon is missing here");
    next();
    value(inner);
  }

  function item(path, index) {
    value(`${path}[${index}]`);
  }

  function members(path, closing, one) {
    if (next() === closing) return;
    for (let index = 0; ; index += 1) {
      one(path, index);
      if (next() === closing) return;
      if (token.text !== ",") fail(`a comma or ${closing} is missing here`);
      next();
    }
  }

  next();
  value("");
  if (next()) fail("the document ends before this");
  return found;
}

/** The number of the line of an offset, the first being 1. */
export function lineOf(text, offset) {
  return text.slice(0, offset).split("\n").length;
}
