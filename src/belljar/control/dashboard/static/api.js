// Requests to the API, with the token of this session.

const KEY = "belljar.token";
const API = "/api/v1";

/** What the API says is wrong: see docs/api.md for the fields. */
export class Problem extends Error {
  constructor(status, told) {
    super(told.detail);
    this.status = status;
    this.code = told.code;
    this.detail = told.detail;
    this.remedy = told.remedy ?? null;
    this.field = told.field ?? null;
    this.findings = told.problems?.length ? told.problems : [told];
  }
}

export const session = {
  get token() {
    return sessionStorage.getItem(KEY);
  },
  begin(token) {
    sessionStorage.setItem(KEY, token);
  },
  /** Forget the token, and have the page ask for it. */
  end(reason = "") {
    sessionStorage.removeItem(KEY);
    window.dispatchEvent(new CustomEvent("signed-out", { detail: reason }));
  },
};

/** Send a request, and return the answer if all is well. Throws Problem. */
export async function request(method, path, { body, text, etag, signal, accept } = {}) {
  const headers = { Authorization: `Bearer ${session.token}` };
  if (accept) headers.Accept = accept;
  if (etag) headers["If-Match"] = etag;
  if (body !== undefined || text !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, signal, body: text ?? (body && JSON.stringify(body)) });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, { code: "unreachable", detail: "The server does not answer", remedy: "see whether it runs" });
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({ code: "unknown", detail: `The server answered ${answer.status}` }));
  if (answer.status === 401) session.end("That token is not, or no longer, the one of this server.");
  throw new Problem(answer.status, told);
}

/** Send a request to the API, and return what the answer says. */
export async function call(method, path, options) {
  const answer = await request(method, API + path, options);
  return answer.status === 204 ? null : answer.json();
}

/** The policy of a sandbox, with its tag. */
export async function getPolicy(sandbox, signal) {
  const answer = await request("GET", `${API}/sandboxes/${sandbox}/network`, { signal });
  return { policy: await answer.json(), etag: answer.headers.get("ETag") };
}

/** Open the stream of events of a path; `after` is the last number that is known, or null to begin now. */
export function openStream(path, after, signal) {
  const query = after === null ? "" : `?after=${after}`;
  return request("GET", `${API}${path}/events${query}`, { signal, accept: "text/event-stream" });
}
