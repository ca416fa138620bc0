// Server-sent events by fetch: EventSource cannot send a token.

import { Problem, openStream } from "./api.js";

const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;

/**
 * Follow events until the signal. `onEvents` gets them in batches, as they come; `onState` is told "live" or
 * "waiting" (for a server that is away), and `onGone` that there is no such stream any more.
 */
export async function follow(path, { after = null, signal, onEvents, onState, onGone }) {
  let wait = FIRST_WAIT;
  while (!signal.aborted) {
    try {
      const answer = await openStream(path, after, signal);
      onState("live");
      wait = FIRST_WAIT;
      for await (const events of batches(answer.body)) {
        after = events.at(-1).id;
        onEvents(events);
      }
    } catch (error) {
      if (signal.aborted || error.status === 401) return;
      if (error instanceof Problem && error.status === 404) return onGone?.();
    }
    onState("waiting");
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(wait * 2, LONGEST_WAIT);
  }
}

async function* batches(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    const events = blocks.map(parse).filter(Boolean);
    if (events.length) yield events;
  }
}

function parse(block) {
  const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: (.*)/s, 2)));
  return fields.data ? { id: Number(fields.id), ...JSON.parse(fields.data) } : null;
}
