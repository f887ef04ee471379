// What is asked of the console's server: JSON, and streams of JSON, a line each. Errors are its sentences.

let token = null;
let session = null;

try {
  token = sessionStorage.getItem("token");
} catch {
  // A browser that keeps nothing asks for the token each time.
}
takeToken();

// An address may end with `#token=...`: the token is kept for this tab, and never sent as part of an address. Returns
// whether there was one.
export function takeToken() {
  const given = /^#token=([^&]+)/.exec(location.hash);
  if (!given) return false;
  history.replaceState(null, "", location.pathname);
  useToken(decoded(given[1]));
  return true;
}

// A part of an address; one that was typed wrongly stays as it is.
export function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export class Refused extends Error {
  constructor(sentence, status, isOldPage) {
    super(sentence);
    this.status = status;
    this.isOldPage = isOldPage;
  }
}

export function useToken(given) {
  token = given;
  try {
    sessionStorage.setItem("token", given);
  } catch {
    // As above.
  }
}

function address(path, query) {
  const given = Object.entries(query || {}).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const asked = new URLSearchParams(given).toString();
  return `api/${path}${asked ? `?${asked}` : ""}`;
}

// Throws the error for an answer that does not come, or does not come whole.
function unanswered(problem) {
  if (problem.name === "AbortError") throw problem;
  throw new Refused("The console does not answer: is it still running?", 0);
}

const told = (answer) => answer.json().catch(unanswered);

async function ask(path, options) {
  const headers = { ...(options && options.headers) };
  if (token) headers.Authorization = `Bearer ${token}`;
  const answer = await fetch(path, { ...options, headers }).catch(unanswered);
  if (answer.ok) return answer;
  const refused = await answer.json().catch(() => ({ error: `The console answered ${answer.status}.` }));
  throw new Refused(refused.error, answer.status, refused.is_old_page);
}

export async function begin(signal) {
  session = await get("session", {}, signal);
  return session;
}

export const hasBegun = () => session !== null;
export const current = () => session || {};

// For a repeated request: once a later request is answered, the result of an earlier one is dropped (undefined).
export function inOrder(ask) {
  let asked = 0;
  let answered = 0;
  return async () => {
    const mine = asked += 1;
    try {
      const found = await ask();
      if (mine < answered) return undefined;
      answered = mine;
      return found;
    } catch (problem) {
      if (mine < answered) return undefined;
      throw problem;
    }
  };
}

export async function get(path, query, signal) {
  return told(await ask(address(path, query), { signal }));
}

async function change(method, path, body, type, signal) {
  const content = body === undefined || type ? body : JSON.stringify(body);
  const attempt = async () => {
    const headers = { "X-Ottla-Change": current().change_token || "" };
    if (body !== undefined) headers["Content-Type"] = type || "application/json";
    return told(await ask(address(path), { method, headers, body: content, signal }));
  };
  try {
    return await attempt();
  } catch (problem) {
    if (!problem.isOldPage) throw problem;
    // Behind the same address there may be another Kafka now, so nothing is sent unasked.
    session = await get("session", {}, signal);
    throw new Refused("The console was started again, and nothing was done. See whether it shows the Kafka that you mean, " +
      "then do it again.", problem.status);
  }
}

export const post = (path, body, type, signal) => change("POST", path, body || {}, type, signal);
export const remove = (path) => change("DELETE", path);

export async function stream(path, query, signal, take) {
  const answer = await ask(address(path, query), { signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read().catch(unanswered);
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) take(JSON.parse(line));
  }
}

export async function download(path, query) {
  const { one_time_token } = await get("one-time-token");
  const link = document.createElement("a");
  link.href = address(path, { ...query, one_time_token });
  link.download = "";
  document.body.append(link);
  link.click();
  link.remove();
}

export const part = (name) => encodeURIComponent(name);
