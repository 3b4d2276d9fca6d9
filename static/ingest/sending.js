/* Sends files in parts. A cut connection costs one part: the server says how much came, and the rest follows. */
(function () {
  "use strict";
  const TRIES = 6;
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

  class Refusal extends Error {}

  async function refusal(answer) {
    let said = `The server answered ${answer.status}.`;
    try { said = (await answer.json()).error.message || said; } catch (noJson) { /* a proxy's page */ }
    return Object.assign(new Refusal(said), { status: answer.status });
  }

  async function call(url, method, headers, body, signal) {
    const answer = await fetch(url, { method, headers, body, signal });
    if (!answer.ok) throw await refusal(answer);
    return answer;
  }

  /* files: [{ name, blob }]. tell({ sent, total }) is called as bytes go out. Returns { url, same_content }. */
  async function send(files, options, tell, signal) {
    const total = files.reduce((sum, file) => sum + file.blob.size, 0);
    const begun = await call("/api/uploads/", "POST", { "Content-Type": "application/json" }, JSON.stringify({
      ...options, files: files.map((file) => ({ name: file.name, bytes: file.blob.size })),
    }), signal);
    const upload = await begun.json(), token = { "Upload-Token": upload.delete_token };
    let before = 0, number = 0;
    for (const file of files) {
      if (!file.blob.size) continue;
      await sendFile(upload.files[number++], file.blob, upload.part_bytes, token, (sent) => tell({ sent: before + sent, total }), signal);
      before += file.blob.size;
    }
    const finished = await call(upload.finish, "POST", { "Content-Type": "application/json", ...token }, "{}", signal);
    return finished.json();
  }

  async function sendFile(url, blob, part, token, tell, signal) {
    let offset = 0, failures = 0;
    while (offset < blob.size) {
      try {
        const headers = { ...token, "Upload-Offset": String(offset), "Content-Type": "application/offset+octet-stream" };
        const answer = await call(url, "PATCH", headers, blob.slice(offset, offset + part), signal);
        offset = +answer.headers.get("Upload-Offset");
        failures = 0;
      } catch (problem) {
        if (signal.aborted || ++failures >= TRIES || (problem instanceof Refusal && problem.status !== 409 && problem.status < 500)) throw problem;
        await pause(Math.min(8000, 250 * 2 ** failures));
        offset = await askOffset(url, token, offset, signal);
      }
      tell(offset);
    }
  }

  async function askOffset(url, token, otherwise, signal) {
    try {
      const answer = await fetch(url, { method: "HEAD", headers: token, signal });
      return answer.ok ? +answer.headers.get("Upload-Offset") : otherwise;
    } catch (away) { return otherwise; }
  }

  window.kvSending = { send };
})();
