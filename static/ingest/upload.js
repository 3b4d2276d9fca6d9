/* The upload page: drop, choose or paste; see what would be hidden; send. Without this script the form still works. */
(function () {
  "use strict";
  const { $, say } = window.kvdiag;
  const form = $("#upload"), paste = $("#paste"), pick = $("#pick"), panel = $("#chosen"), list = $("#chosen-files");
  const limit = +form.dataset.limit, maxFiles = +form.dataset.maxFiles;
  const PREVIEW = 4 * 1024 * 1024, HASHED = 64 * 1024 * 1024, HIDDEN_HERE = 16 * 1024 * 1024;
  const PACKED = /\.(gz|tgz|zst|xz|bz2|zip|tar)$/i;
  const SGLANG = /server_args=|ServerArgs\(|sglang|max_total_num_tokens|KV Cache is allocated|Load weight (begin|end)|avail mem=/;
  let files = [], looking = 0, stopping = null;

  /* ---- what is chosen --------------------------------------------------------------------- */

  const size = (n) => n < 1024 ? n + " bytes" : n < 1048576 ? (n / 1024).toFixed(0) + " KiB" : (n / 1048576).toFixed(1) + " MiB";
  const count = (n, one) => n.toLocaleString("en-US") + " " + one + (n === 1 ? "" : "s");

  function add(all) {
    const more = all.filter((file) => file.blob.size), hollow = all.filter((file) => !file.blob.size);
    const room = maxFiles - files.length;
    files = files.concat(more.slice(0, Math.max(0, room)));
    if (more.length > room) complain(`${files.length + more.length - room} files are too many; ${maxFiles} may come at once.`);
    else if (hollow.length) complain(`${hollow.map((file) => file.name).slice(0, 3).join(", ")} ${hollow.length === 1 ? "is" : "are"} empty and left out.`);
    else hush();
    show();
  }

  /* Text that was typed or pasted counts as a file of its own. */
  function chosen() {
    const all = files.slice();
    if (paste.value.trim()) all.push({ name: "pasted.log", blob: new Blob([paste.value]), pasted: true });
    return all;
  }

  function icon(paths) {
    const holder = document.createElement("template");
    holder.innerHTML = `<svg class="i" viewBox="0 0 16 16" aria-hidden="true">${paths}</svg>`;
    return holder.content.firstChild;
  }
  const FILE = '<path d="M4 2h5l3 3v9H4z"/><path d="M9 2v3h3"/>', CROSS = '<path d="M4 4l8 8M12 4l-8 8"/>';
  const CHECKED = '<circle cx="8" cy="8" r="6.2"/><path d="M5.2 8.2l2 2 3.6-4.1"/>', INFO = '<circle cx="8" cy="8" r="6.2"/><path d="M8 7.4v3.6M8 5h.01"/>';

  function row(file) {
    const li = document.createElement("li"), words = document.createElement("span"), end = document.createElement("span"), more = document.createElement("span");
    more.className = "quiet"; more.textContent = " " + size(file.blob.size);
    words.append(Object.assign(document.createElement("b"), { textContent: file.name }), more);
    end.className = "files__state";
    const state = document.createElement("span");
    end.append(state);
    if (!file.pasted) {
      const remove = Object.assign(document.createElement("button"), { type: "button", className: "btn btn--bare btn--mini" });
      remove.setAttribute("aria-label", "Leave out " + file.name);
      remove.append(icon(CROSS));
      remove.addEventListener("click", () => { files = files.filter((other) => other !== file); show(); pick.focus(); });
      end.append(remove);
    }
    li.append(icon(FILE), words, end);
    return { li, more, state };
  }

  function show() {
    const all = chosen(), total = all.reduce((sum, file) => sum + file.blob.size, 0), turn = ++looking;
    panel.hidden = !all.length;
    const empty = !all.length;
    $("#send").setAttribute("aria-disabled", empty);
    $("#send-chosen").textContent = files.length ? "Diagnose " + count(all.length, "file") : "Diagnose the text";
    list.replaceChildren();
    $("#preview").hidden = $("#known-content").hidden = true;
    if (empty) return;
    if (total > limit) complain(tooLarge(all, total));
    const rows = all.map((file) => { const made = row(file); list.append(made.li); return { file, ...made }; });
    look(rows, () => turn === looking);
  }

  function tooLarge(all, total) {
    const name = all.length === 1 && !all[0].pasted ? all[0].name : "server.log";
    return `The ${all.length === 1 ? "file is" : "files are"} ${size(total)}; the limit is ${form.dataset.limitWords}. Compress it (zstd ${name}) and choose it again.`;
  }

  /* ---- what would be hidden ---------------------------------------------------------------------- */

  async function look(rows, isWanted) {
    const masker = await kvRedaction.masker();
    let seen = 0, packed = 0, rest = 0;
    for (const { file, more, state } of rows) {
      if (PACKED.test(file.name)) { packed++; mark(state, "", INFO, "compressed: hidden on the server"); continue; }
      const text = await file.blob.slice(0, PREVIEW).text();
      if (!isWanted()) return;
      const partly = file.blob.size > PREVIEW;
      rest += partly;
      if (!partly) more.textContent = ` ${size(file.blob.size)}, ${count(text.split("\n").length - (text.endsWith("\n") ? 1 : 0), "line")}`;
      if (SGLANG.test(text)) mark(state, "state--ready", CHECKED, "SGLang log");
      else if (!partly) mark(state, "", INFO, "no line of SGLang seen");
      masker.line = 0;
      if (await kvRedaction.hide(text, masker, isWanted) === null) return;
      seen++;
    }
    if (!isWanted()) return;
    if (seen) showHidden([...masker.found.values()], packed, rest);
    offerEarlier(rows, isWanted);
  }

  function mark(state, kind, paths, words) {
    state.className = "state " + kind;
    state.replaceChildren(icon(paths), words);
  }

  function showHidden(found, packed, rest) {
    const total = found.reduce((sum, each) => sum + each.count, 0), place = $("#preview-list");
    $("#preview").hidden = false;
    $("#preview-title").textContent = total ? count(total, "value") + " will be hidden" : "Nothing to hide was found";
    $("#preview-where").textContent = rest ? "in the first 4 MiB; all of it on the server" : packed ? "compressed files on the server" : "here, and again on the server";
    $("#hide-here").hidden = !total;
    place.replaceChildren();
    for (const each of found) {
      const what = document.createElement("span"), number = document.createElement("b"), sample = document.createElement("code"), line = document.createElement("span");
      sample.className = "quiet"; sample.textContent = `${each.sample} becomes ${each.instead}`;
      line.className = "ln"; line.textContent = "L" + each.line;
      number.textContent = each.count.toLocaleString("en-US");
      what.append(each.title + " ", sample, " ", line);
      place.append(what, number);
    }
    say($("#preview-title").textContent);
  }

  /* ---- the same log, sent before --------------------------------------------------------------------- */

  async function offerEarlier(rows, isWanted) {
    if (rows.length !== 1 || rows[0].file.blob.size > HASHED || !window.crypto.subtle) return;
    const cleaned = await hideHere([rows[0].file], isWanted); // what would be sent, not what was chosen
    if (!cleaned) return;
    const digest = await crypto.subtle.digest("SHA-256", await cleaned.files[0].blob.arrayBuffer());
    const hex = Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
    const answer = await fetch("/api/uploads/known/" + hex);
    const known = answer.ok ? await answer.json() : {};
    if (!known.url || !isWanted()) return;
    const notice = $("#known-content"), link = $("a", notice);
    link.href = known.url; link.textContent = known.name;
    notice.hidden = false;
  }

  /* ---- sending -------------------------------------------------------------------------------------------- */

  function complain(words) {
    const notice = $("#upload-problem");
    $("span", notice).textContent = words;
    notice.hidden = false;
  }
  function hush() { $("#upload-problem").hidden = true; }

  function options() {
    const value = (id) => { const field = document.getElementById(id); return field ? field.value.trim() : ""; };
    const said = { keep_log: $("#keep").checked, name: value("option-name"), tags: value("option-tags").split(",").map((tag) => tag.trim()).filter(Boolean), keep_days: value("option-days") };
    if (document.getElementById("option-team")) Object.assign(said, { team: value("option-team"), deployment: value("option-deployment") });
    return said;
  }

  function sending(on) {
    $("#sending").hidden = $("#stop").hidden = !on;
    [$("#send"), $("#send-chosen")].forEach((button) => button.setAttribute("aria-disabled", on));
    $("#chosen-title small").textContent = on ? "sending" : "nothing has left this browser yet";
  }

  function progress({ sent, total }) {
    const percent = total ? Math.floor(100 * sent / total) : 100, meter = $("#sending .meter");
    meter.setAttribute("aria-valuenow", percent);
    $(".meter__fill", meter).setAttribute("width", percent + "%");
    $("#sending-words").textContent = `${size(sent)} of ${size(total)}`;
  }

  /* The files without what must not leave the browser. Packed, large and non-UTF-8 files are cleaned on the server only. */
  async function hideHere(all, isWanted) {
    if (!$("#hide-here input").checked) return { files: all, hidden: {} };
    const masker = await kvRedaction.masker(), files = [];
    for (const file of all) {
      let text = null;
      if (!PACKED.test(file.name) && file.blob.size <= HIDDEN_HERE) {
        try { text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await file.blob.arrayBuffer()); } catch (otherEncoding) { /* as it is */ }
      }
      if (text === null || text.includes("\0")) { files.push(file); continue; }
      const before = [...masker.found.values()].reduce((sum, each) => sum + each.count, 0);
      const hidden = await kvRedaction.hide(text, masker, isWanted);
      if (hidden === null) return null;
      const after = [...masker.found.values()].reduce((sum, each) => sum + each.count, 0);
      files.push(after > before ? { name: file.name, blob: new Blob([hidden]) } : file);
    }
    return { files, hidden: Object.fromEntries([...masker.found.values()].map((each) => [each.kind, each.count])) };
  }

  async function send() {
    const all = chosen();
    if (stopping) return;
    if (!all.length) return paste.focus();
    const total = all.reduce((sum, file) => sum + file.blob.size, 0);
    if (total > limit) return complain(tooLarge(all, total));
    hush();
    stopping = new AbortController();
    sending(true);
    progress({ sent: 0, total });
    say("Sending");
    try {
      const cleaned = await hideHere(all, () => !stopping.signal.aborted);
      if (!cleaned) throw new DOMException("stopped", "AbortError");
      const made = await kvSending.send(cleaned.files, { ...options(), hidden: cleaned.hidden }, progress, stopping.signal);
      location.assign(new URL(made.url).pathname);
    } catch (problem) {
      if (!stopping.signal.aborted) complain(problem instanceof TypeError ? "The server does not answer. What you chose is still here: try again." : problem.message);
      sending(false);
    }
    stopping = null;
  }

  form.addEventListener("submit", (event) => { event.preventDefault(); send(); });
  $("#stop").addEventListener("click", () => { if (stopping) stopping.abort(); });
  $("#clear").addEventListener("click", () => { files = []; paste.value = ""; hush(); show(); paste.focus(); });
  addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.altKey) return;
    if (event.key === "Enter" || (event.key === "s" && chosen().length)) { event.preventDefault(); send(); }
  });

  /* ---- choosing: the picker, the clipboard, a drop anywhere ------------------------------------------------- */

  const named = (file, name) => ({ name: name || file.name, blob: file });
  pick.addEventListener("change", () => { add(Array.from(pick.files, (file) => named(file))); pick.value = ""; });

  let typing;
  paste.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(show, 200); });
  addEventListener("paste", (event) => {
    const pasted = Array.from(event.clipboardData.files);
    if (pasted.length) { event.preventDefault(); add(pasted.map((file) => named(file))); return; }
    if (event.target !== paste && !event.target.closest("input, textarea")) {
      paste.value += event.clipboardData.getData("text"); event.preventDefault(); show();
    }
  });

  const carriesFiles = (event) => Array.from(event.dataTransfer.types).includes("Files");
  let depth = 0;
  const over = (on) => form.classList.toggle("drop--over", on);
  addEventListener("dragenter", (event) => { if (carriesFiles(event)) { depth++; over(true); } });
  addEventListener("dragleave", (event) => { if (carriesFiles(event) && --depth <= 0) { depth = 0; over(false); } });
  addEventListener("dragover", (event) => { if (carriesFiles(event)) event.preventDefault(); });
  addEventListener("drop", async (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    depth = 0; over(false);
    const entries = Array.from(event.dataTransfer.items, (item) => item.webkitGetAsEntry && item.webkitGetAsEntry());
    const plain = Array.from(event.dataTransfer.files);
    add(entries.every(Boolean) ? (await Promise.all(entries.map(filesOf))).flat() : plain.map((file) => named(file)));
  });

  /* The files of a dropped file or folder, in the order of their names. */
  async function filesOf(entry) {
    if (entry.isFile) return [named(await new Promise((resolve, reject) => entry.file(resolve, reject)))];
    const reader = entry.createReader(), found = [];
    for (;;) {
      const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!some.length) break;
      found.push(...some);
    }
    found.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
    return (await Promise.all(found.filter((each) => !each.name.startsWith(".")).map(filesOf))).flat();
  }

  /* ---- where it goes ------------------------------------------------------------------------------------------ */

  const team = document.getElementById("option-team");
  if (team) team.addEventListener("change", () => {
    const goes = $("#goes-to"), name = team.selectedOptions[0].textContent;
    goes.textContent = team.value === "-" ? "Only you can see it." : `Goes to ${name}; its members can see it.`;
  });

  show();
})();
