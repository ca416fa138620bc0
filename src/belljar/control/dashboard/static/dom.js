// Elements made from data. Text is always text: what a sandbox says never becomes markup.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element. Attributes that begin with "on" are listeners; null and false are left out; so are such children. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same, for drawings. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...present(children));
  return element;
}

/** Put other children in the place of those that an element has. */
export function show(element, ...children) {
  element.replaceChildren(...present(children));
}

function present(children) {
  return children.flat(3).filter((child) => child !== null && child !== undefined && child !== false);
}

/** Set a text if it is another one, so that nothing is drawn anew for nothing. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Have the children of an element be these, in this order, moving as few as possible. */
export function arrange(element, children) {
  let next = element.firstChild;
  for (const child of children) {
    if (child === next) next = next.nextSibling;
    else element.insertBefore(child, next);
  }
  while (next) {
    const gone = next;
    next = next.nextSibling;
    gone.remove();
  }
}

/** Return a function that has `act` called soon, once for all calls until then. */
export function soon(act, milliseconds, signal) {
  let timer = null;
  signal.addEventListener("abort", () => clearTimeout(timer));
  return () => {
    if (timer !== null || signal.aborted) return;
    timer = setTimeout(() => {
      timer = null;
      act();
    }, milliseconds);
  };
}

/** Call `act` again and again while the page can be seen, until the signal. */
export function regularly(act, milliseconds, signal) {
  const timer = setInterval(() => document.hidden || act(), milliseconds);
  signal.addEventListener("abort", () => clearInterval(timer));
}
