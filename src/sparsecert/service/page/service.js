// Requests to the service, relative to the page so that a proxy may serve both under any path.

export const at = (id) => document.getElementById(id);

export async function request(path, body, signal) {
  const headers = body ? { "Content-Type": "application/json" } : {};
  const token = sessionStorage.getItem("token");
  if (token) headers.Authorization = `Bearer ${token}`;
  const method = body ? "POST" : "GET";
  const answer = await fetch(path, { method, headers, signal, body: body && JSON.stringify(body) });
  if (answer.ok) return answer;
  const { detail } = await answer.json().catch(() => ({ detail: answer.statusText }));
  if (answer.status === 401) at("token-form").hidden = false;
  if (answer.status === 429) {
    await new Promise((later) => setTimeout(later, 1000 * Number(answer.headers.get("Retry-After") || 1)));
    if (!signal || !signal.aborted) return request(path, body, signal);
  }
  throw new Error(detail);
}

export async function* lines(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) yield JSON.parse(part);
  }
}

export function showError(error) {
  if (error && error.name === "AbortError") return;
  at("trouble").textContent = error ? error.message : "";
  at("trouble").hidden = !error;
}

export function onToken(begin) {
  at("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem("token", at("token").value);
    at("token-form").hidden = true;
    begin();
  });
}
