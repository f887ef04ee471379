// Files that the browser downloads by itself, from links with a one-time token.

import * as api from "./api.js";

// A link that is refused says nothing on the page. So it is asked before, and let go once it is answered.
export async function download(path, query) {
  const { one_time_token } = await api.get("one-time-token");
  const given = Object.entries({ ...query, one_time_token }).filter(([, value]) => value);
  const first = new AbortController();
  const answer = await fetch(`api/${path}?${new URLSearchParams(given)}`, { signal: first.signal }).catch(() => {
    throw new Error("The console does not answer: is it still running?");
  });
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({ error: `The console answered ${answer.status}.` }));
    throw new Error(told.error);
  }
  first.abort();
  await api.download(path, query);
}
