/* The log viewer. Folded, it is the excerpt the server made, whose gaps open; unfolded or filtered, it is a virtual
   list over any number of lines, fetched in ranges. Log text reaches the page as text nodes only. */
(function () {
  "use strict";
  const { $, $$, keys, say, toast } = window.kvdiag;
  const panel = document.getElementById("log");
  if (!panel || !panel.dataset.log) return;
  const source = panel.dataset.log, data = JSON.parse(document.getElementById("log-data").textContent);
  const scroll = $(".log__scroll", panel), folded = $(".log__body", scroll), minimap = $(".minimap", panel);
  const several = data.files.length > 1;
  const PAGE = 400, MOST_PAGES = 40, AROUND = 8, LONG = 2000;
  const marks = data.files.map(() => new Map());
  data.marks.forEach(([file, line, mark]) => marks[file] && marks[file].set(line, mark));

  let file = 0, wrap = true, isFolded = true;
  let query = "", matches = [], match = -1;     // search
  let rows = null;                              // the lines a filter keeps; null for all
  let target = null, lastClicked = null;        // { file, first, last }

  const total = () => data.files[file].lines;
  const anchorOf = (line) => (several ? `F${file + 1}L${line}` : `L${line}`);

  /* ---- lines ------------------------------------------------------------------------------------------- */

  const pages = new Map();
  function pageOf(number) {
    const key = file + ":" + number;
    if (pages.has(key)) return pages.get(key);
    const first = number * PAGE + 1, page = { lines: null };
    page.ready = fetch(`${source}?file=${file}&from=${first}&to=${first + PAGE - 1}`, { headers: { Accept: "application/json" } })
      .then((response) => (response.ok ? response.json() : Promise.reject(response)))
      .then((body) => { page.lines = new Map(body.lines); })
      .catch(() => { pages.delete(key); throw new Error("unreachable"); });
    pages.set(key, page);
    if (pages.size > MOST_PAGES) pages.delete(pages.keys().next().value);
    return page;
  }
  async function texts(first, last) {
    const found = [], wanted = [];
    for (let number = Math.floor((first - 1) / PAGE); number <= Math.floor((last - 1) / PAGE); number++) wanted.push(pageOf(number));
    await Promise.all(wanted.map((page) => page.ready));
    for (let line = first; line <= last; line++) {
      const page = wanted[Math.floor((line - 1) / PAGE) - Math.floor((first - 1) / PAGE)];
      if (page.lines.has(line)) found.push([line, page.lines.get(line)]);
    }
    return found;
  }
  const single = new Map();
  async function scattered(lines) {
    const missing = lines.filter((line) => !single.has(file + ":" + line)).slice(0, 200);
    if (!missing.length) return;
    const response = await fetch(`${source}/lines?file=${file}&n=${missing.join(",")}`, { headers: { Accept: "application/json" } });
    if (!response.ok) throw new Error("unreachable");
    if (single.size > 5000) single.clear();
    (await response.json()).lines.forEach(([line, text]) => single.set(file + ":" + line, text));
  }

  const CLOCK = /^(?=\[|[A-Z][a-z]{2} )(?:[A-Z][a-z]{2} +\d+ [\d:]{8} \S+ \S+: ?)?(?:\[[^\]\n]{8,60}\])?/;
  const BAD = /(?:error|exception)\b|\b(?:traceback|critical|fatal|out of memory)\b/i;
  function span(kind, text) {
    const part = document.createElement("span");
    part.className = kind;
    part.textContent = text;
    return part;
  }
  /* text nodes for one token, with the search's matches marked */
  function spread(into, text, kind) {
    const plain = query && query[0] !== "/" ? query.toLowerCase() : "";
    const add = (piece, mark) => {
      if (!piece) return;
      if (mark) { const node = document.createElement("mark"); node.className = "find"; node.textContent = piece; into.append(node); }
      else into.append(kind ? span(kind, piece) : document.createTextNode(piece));
    };
    if (!plain) return add(text);
    const lower = text.toLowerCase();
    let at = 0;
    for (let found = lower.indexOf(plain); found !== -1; found = lower.indexOf(plain, at)) {
      add(text.slice(at, found));
      add(text.slice(found, found + plain.length), true);
      at = found + plain.length;
    }
    add(text.slice(at));
  }
  function fill(code, text) {
    code.replaceChildren();
    const cut = text.length > LONG && !code.dataset.whole;
    const tokens = kvAnsi.tokens(cut ? text.slice(0, LONG) : text);
    const clock = tokens.length && CLOCK.exec(tokens[0].text);
    if (clock && clock[0]) {
      code.append(span("ts", clock[0]));
      tokens[0] = { text: tokens[0].text.slice(clock[0].length), kind: tokens[0].kind };
    }
    tokens.forEach((token) => token.text && spread(code, token.text, token.kind));
    if (cut) {
      const more = document.createElement("button");
      more.type = "button";
      more.className = "log__more";
      more.textContent = `show ${(text.length - LONG).toLocaleString("en-US")} more letters`;
      more.addEventListener("click", () => { code.dataset.whole = "1"; fill(code, text); });
      code.append(" ", more);
    }
  }
  function dress(row, line) {
    const mark = marks[file].get(line), classes = [];
    if (mark) classes.push("m-" + mark);
    if (mark && mark !== "fact") classes.push("hit");
    if (target && target.file === file && line >= target.first && line <= target.last) classes.push("is-target");
    if (matches[match] === line) classes.push("is-match");
    row.className = classes.join(" ");
  }
  function rowOf(line, text) {
    const row = document.createElement("li"), number = document.createElement("a"), code = document.createElement("code");
    row.id = anchorOf(line);
    row.dataset.line = line;
    number.href = "#" + row.id;
    number.textContent = line;
    if (text === null) { code.textContent = "…"; code.className = "quiet"; }
    else { fill(code, text); if (BAD.test(text.slice(0, 400))) code.classList.add("err"); }
    dress(row, line);
    row.append(document.createElement("i"), number, code);
    return row;
  }

  /* ---- folded: gaps open ------------------------------------------------------------------------------------ */

  const countWords = (n) => n.toLocaleString("en-US") + (n === 1 ? " line" : " lines");
  function gapOf(first, last) {
    const gap = document.createElement("li"), button = document.createElement("button");
    gap.className = "log__gap";
    button.type = "button";
    button.dataset.gap = [file, first, last].join(",");
    button.textContent = countWords(last - first + 1);
    gap.append(button);
    return gap;
  }
  async function openGap(button, first, last) {
    const [place, from, to] = button.dataset.gap.split(",").map(Number);
    if (place !== file) await chooseFile(place);
    let lines;
    try { lines = await texts(first, last); } catch (failed) { toast("These lines could not be loaded"); return null; }
    const gap = button.closest(".log__gap"), parts = [];
    if (first > from) parts.push(gapOf(from, first - 1));
    lines.forEach(([line, text], at) => {
      // of a progress bar that was printed line by line the last state is enough; the others stay a gap
      const run = button.dataset.whole ? 0 : runOfProgress(lines, at);
      if (run === 0) parts.push(rowOf(line, text));
      else if (run > 0) parts.push(progressGap(line, line + run - 1));
    });
    if (last < to && lines.length) parts.push(gapOf(last + 1, to));
    gap.replaceWith(...parts);
    return parts.find((part) => !part.classList.contains("log__gap"));
  }
  const PROGRESS = /\d+%\|.*\|\s*[\d.]+[kMG]?\/[\d.]+/;
  const isProgress = (entry) => Boolean(entry) && PROGRESS.test(entry[1]);
  /* 0: a line to show; n: the first of n states to fold; -1: within such a run. Runs of fewer than three stay. */
  function runOfProgress(lines, at) {
    if (!isProgress(lines[at]) || !isProgress(lines[at + 1])) return 0;
    let first = at, last = at;
    while (isProgress(lines[first - 1])) first--;
    while (isProgress(lines[last + 1])) last++;
    if (last - first < 2 || (target && target.file === file && lines[first][0] <= target.last && target.first < lines[last][0])) return 0;
    return at === first ? last - first : -1;
  }
  function progressGap(first, last) {
    const gap = gapOf(first, last), button = gap.firstChild;
    button.dataset.whole = "1";
    button.textContent = `${countWords(last - first + 1)} of a progress bar, folded to its last state`;
    return gap;
  }
  folded.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-gap]");
    if (!button) return;
    const [, from, to] = button.dataset.gap.split(",").map(Number);
    const last = to - from < 300 ? to : from + 199;
    const first = await openGap(button, from, last);
    if (first) $("a", first).focus({ preventScroll: true });
  });
  function gapAround(line) {
    return $$("[data-gap]", folded).find((button) => {
      const [place, from, to] = button.dataset.gap.split(",").map(Number);
      return place === file && from <= line && line <= to;
    });
  }

  /* ---- unfolded: a virtual list ------------------------------------------------------------------------------- */

  const space = document.createElement("div"), list = document.createElement("ol");
  space.className = "log__space";
  list.className = "log__body log__body--virtual";
  space.append(list);
  let rowHeight = 19.4, drawn = "";
  const TALLEST = 6000000;
  const count = () => (rows ? rows.length : total());
  const lineAt = (index) => (rows ? rows[index] : index + 1);
  function indexOf(line) {
    if (!rows) return line - 1;
    let low = 0, high = rows.length;
    while (low < high) { const middle = (low + high) >> 1; if (rows[middle] < line) low = middle + 1; else high = middle; }
    return low;
  }
  function layout() {
    const height = Math.min(count() * rowHeight + 8, TALLEST);
    space.style.blockSize = Math.max(height, 1) + "px";
    return height;
  }
  function firstIndex() {
    const height = space.offsetHeight, view = scroll.clientHeight, fit = view / rowHeight;
    if (height <= view) return 0;
    return Math.max(0, scroll.scrollTop / (height - view) * Math.max(0, count() - fit));
  }
  async function render(force) {
    if (isFolded && !rows) return;
    const exact = firstIndex(), fit = Math.ceil(scroll.clientHeight / rowHeight);
    const above = wrap ? 0 : 15, start = Math.max(0, Math.floor(exact) - above), end = Math.min(count(), Math.floor(exact) + fit + 25);
    list.style.insetBlockStart = scroll.scrollTop - (exact - start) * rowHeight + "px";
    const stamp = [file, start, end, rows ? rows.length : 0].join(":");
    if (stamp === drawn && !force) return;
    drawn = stamp;
    const lines = [];
    for (let index = start; index < end; index++) lines.push(lineAt(index));
    const known = (line) => {
      if (single.has(file + ":" + line)) return single.get(file + ":" + line);
      const page = pages.get(file + ":" + Math.floor((line - 1) / PAGE));
      return page && page.lines && page.lines.has(line) ? page.lines.get(line) : null;
    };
    const show = () => list.replaceChildren(...lines.map((line) => rowOf(line, known(line))));
    show();
    mapView();
    if (lines.every((line) => known(line) !== null)) return;
    try {
      if (rows) await scattered(lines.filter((line) => known(line) === null));
      else await texts(lines[0], lines[lines.length - 1]);
    } catch (failed) { return; }
    if (drawn === stamp) show();
  }
  function measure() {
    const first = list.querySelector("li");
    if (first && !wrap && first.offsetHeight > 8) rowHeight = first.getBoundingClientRect().height;
  }
  let waiting = false;
  scroll.addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; if (isFolded && !rows) mapView(); else render(); });
  }, { passive: true });
  addEventListener("resize", () => { if (!isFolded || rows) { layout(); render(true); } });

  async function mode() {
    const virtual = !isFolded || rows;
    scroll.classList.toggle("log__scroll--virtual", Boolean(virtual));
    if (virtual) {
      scroll.replaceChildren(space);
      layout();
      await render(true);
      measure();
      layout();
      if (rows && !rows.length) list.replaceChildren(Object.assign(document.createElement("li"), { className: "log__none", textContent: "No line fits these filters." }));
    } else {
      scroll.replaceChildren(folded);
    }
    drawMinimap();
  }

  /* ---- go to a line --------------------------------------------------------------------------------------------- */

  async function goTo(line, { centre = true } = {}) {
    line = Math.max(1, Math.min(line, total()));
    if (!isFolded || rows) {
      const height = space.offsetHeight, view = scroll.clientHeight, fit = view / rowHeight;
      const index = indexOf(line), back = centre ? fit / 3 : 0;
      scroll.scrollTop = height <= view ? 0 : Math.max(0, index - back) / Math.max(1, count() - fit) * (height - view);
      await render(true);
      panel.scrollIntoView({ block: "nearest" });
      return;
    }
    let row = document.getElementById(anchorOf(line));
    if (!row) {
      const gap = gapAround(line);
      if (gap) {
        const [, from, to] = gap.dataset.gap.split(",").map(Number);
        await openGap(gap, Math.max(from, line - AROUND), Math.min(to, line + AROUND));
        row = document.getElementById(anchorOf(line));
      }
    }
    if (!row) return;
    const box = scroll.getBoundingClientRect(), at = row.getBoundingClientRect();
    scroll.scrollTop += at.top - box.top - box.height / 3;
    refresh();
    if (box.top < 60 || box.bottom > innerHeight) panel.scrollIntoView({ block: "nearest" });
  }
  function refresh() {
    $$("li", scroll).forEach((row) => {
      const line = +(row.dataset.line || (row.id.match(/L(\d+)$/) || [])[1]);
      if (line && !row.classList.contains("log__gap")) dress(row, line);
    });
  }

  /* ---- anchors: #L120, #L120-L140, #F2L12 ------------------------------------------------------------------------- */

  const ANCHOR = /^#(?:F(\d+))?L(\d+)(?:-(?:F\d+)?L(\d+))?$/;
  async function followHash() {
    const found = ANCHOR.exec(location.hash);
    if (!found) return;
    const place = found[1] ? +found[1] - 1 : 0;
    if (place >= data.files.length) return;
    if (place !== file) await chooseFile(place);
    const first = +found[2], last = found[3] ? +found[3] : first;
    target = { file, first: Math.min(first, last), last: Math.max(first, last) };
    lastClicked = target.first;
    if (rows && !rows.includes(target.first)) await clearFilters();
    if (isFolded && target.last - target.first > 2) {
      const gap = gapAround(target.first);
      if (gap) { const [, from, to] = gap.dataset.gap.split(",").map(Number); await openGap(gap, Math.max(from, target.first - 3), Math.min(to, target.last + 3)); }
    }
    await goTo(target.first);
    refresh();
    scroll.scrollIntoView({ block: "nearest" });
    say(`Line ${target.first}`);
  }
  addEventListener("hashchange", followHash);
  scroll.addEventListener("click", (event) => {
    const number = event.target.closest("li > a");
    if (!number) return;
    const line = +number.textContent;
    event.preventDefault();
    const hash = event.shiftKey && lastClicked ? `#${anchorOf(Math.min(lastClicked, line))}-L${Math.max(lastClicked, line)}` : "#" + anchorOf(line);
    if (!event.shiftKey) lastClicked = line;
    target = { file, first: event.shiftKey ? Math.min(lastClicked, line) : line, last: event.shiftKey ? Math.max(lastClicked, line) : line };
    history.pushState(null, "", hash);
    refresh();
  });
  addEventListener("popstate", followHash);

  /* ---- search and filters, on the server ---------------------------------------------------------------------------- */

  const input = $("#log-find", panel), counter = $("[data-log-count]", panel), steps = $$("[data-log-step]", panel);
  async function find(parameters) {
    const response = await fetch(`${source}/find?` + new URLSearchParams({ file, ...parameters }), { headers: { Accept: "application/json" } });
    const body = await response.json();
    if (!response.ok) throw new Error(body.error);
    return body;
  }
  const filterOf = (name) => { const select = $(`[data-log-filter="${name}"]`, panel); return select ? select.value : ""; };
  function phaseRange() {
    const phase = data.phases.filter((one) => one[0] === filterOf("phase") && one[1] === file);
    return phase.length ? { from: Math.min(...phase.map((one) => one[2])), to: Math.max(...phase.map((one) => one[3])) } : null;
  }
  let asked = 0;
  async function runSearch({ jump = true } = {}) {
    const mine = ++asked;
    query = input.value;
    matches = []; match = -1;
    if (!query.trim()) { counter.textContent = ""; steps.forEach((button) => { button.disabled = true; }); refreshAll(); return; }
    try {
      const found = await find({ q: query, ...(filterOf("rank") && { rank: filterOf("rank") }), ...(filterOf("level") && { level: filterOf("level") }), ...phaseRange() });
      if (mine !== asked) return;
      matches = found.lines;
      counter.textContent = matches.length ? `${matches.length.toLocaleString("en-US")}${found.cut ? " or more" : ""}` : "none";
      steps.forEach((button) => { button.disabled = !matches.length; });
      refreshAll();
      if (jump && matches.length) stepMatch(1);
    } catch (problem) { if (mine === asked) counter.textContent = problem.message ? problem.message.slice(0, 60) : "not searched"; }
  }
  function refreshAll() {
    drawMinimap();
    if (!isFolded || rows) render(true);
    else $$("li[data-line] > code, li[id] > code", folded).forEach((code) => {
      if (query || code.querySelector("mark.find")) { const text = code.textContent; if (!code.querySelector("button")) fill(code, text); }
    });
  }
  function stepMatch(step) {
    if (!matches.length) return;
    match = match === -1 ? (step > 0 ? 0 : matches.length - 1) : (match + step + matches.length) % matches.length;
    counter.textContent = `${match + 1} of ${matches.length.toLocaleString("en-US")}`;
    goTo(matches[match]);
  }
  let typing;
  input.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(runSearch, 220, { jump: false }); });
  input.closest("form").addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(typing); if (matches.length && query === input.value) stepMatch(1); else runSearch(); });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.shiftKey) { event.preventDefault(); stepMatch(-1); }
    if (event.key === "Escape") { input.value = ""; runSearch(); input.blur(); }
  });
  steps.forEach((button) => button.addEventListener("click", () => stepMatch(+button.dataset.logStep)));

  async function chooseFile(place) {
    file = place;
    const select = $('[data-log-filter="file"]', panel);
    if (select) select.value = place;
    rows = null;
    await mode();
  }
  async function applyFilters() {
    const rank = filterOf("rank"), level = filterOf("level"), phase = phaseRange();
    if (!rank && !level && !phase) { rows = null; }
    else if (!rank && !level) { rows = Array.from({ length: phase.to - phase.from + 1 }, (_, n) => phase.from + n); }
    else {
      try { const found = await find({ ...(rank && { rank }), ...(level && { level }), ...phase }); rows = found.lines; say(countWords(rows.length)); }
      catch (problem) { toast(problem.message || "The log could not be searched"); return; }
    }
    scroll.scrollTop = 0;
    await mode();
    if (input.value) runSearch({ jump: false });
  }
  async function clearFilters() {
    $$("[data-log-filter]", panel).forEach((select) => { if (select.dataset.logFilter !== "file") select.value = ""; });
    rows = null;
    await mode();
  }
  $$("[data-log-filter]", panel).forEach((select) => select.addEventListener("change", async () => {
    if (select.dataset.logFilter === "file") { file = +select.value; scroll.scrollTop = 0; rows = null; if (isFolded) { const first = $$("[data-gap], li[id]", folded).find((row) => (row.dataset.gap || "").startsWith(file + ",") || row.id.startsWith(`F${file + 1}L`)); await mode(); if (first) first.scrollIntoView({ block: "nearest" }); return; } }
    applyFilters();
  }));

  /* ---- chips: folded, wrap ---------------------------------------------------------------------------------------------- */

  const foldChip = $("[data-log-fold]", panel), wrapChip = $("[data-log-wrap]", panel);
  foldChip.addEventListener("click", async () => {
    isFolded = !isFolded;
    foldChip.setAttribute("aria-pressed", isFolded);
    await mode();
    if (target) goTo(target.first);
  });
  wrapChip.addEventListener("click", async () => {
    wrap = !wrap;
    wrapChip.setAttribute("aria-pressed", wrap);
    panel.querySelector(".log").classList.toggle("log--nowrap", !wrap);
    if (!isFolded || rows) {
      await render(true); measure(); layout();
      if (target) goTo(target.first);
    }
  });

  /* ---- minimap ------------------------------------------------------------------------------------------------------------ */

  const SVG = "http://www.w3.org/2000/svg";
  let view;
  function rect(kind, y, height) {
    const one = document.createElementNS(SVG, "rect");
    one.setAttribute("class", kind);
    one.setAttribute("x", 0); one.setAttribute("width", 46);
    one.setAttribute("y", y); one.setAttribute("height", height);
    return one;
  }
  function drawMinimap() {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", "0 0 46 100");
    svg.setAttribute("preserveAspectRatio", "none");
    view = rect("mm-view", 0, 100);
    svg.append(view);
    const order = ["fact", "info", "advice", "warning", "critical"];
    Array.from(marks[file]).sort((a, b) => order.indexOf(a[1]) - order.indexOf(b[1])).forEach(([line, mark]) => svg.append(rect("mm-" + mark, (line - 1) / total() * 99, 0.8)));
    matches.slice(0, 400).forEach((line) => { const one = rect("mm-find", (line - 1) / total() * 99, 0.5); one.setAttribute("x", 30); svg.append(one); });
    minimap.replaceChildren(svg);
    mapView();
  }
  function mapView() {
    if (!view) return;
    let first = 1, last = total();
    if (!isFolded || rows) {
      const start = Math.floor(firstIndex());
      first = lineAt(start) || 1;
      last = lineAt(Math.min(count() - 1, start + Math.ceil(scroll.clientHeight / rowHeight))) || total();
    } else {
      const box = scroll.getBoundingClientRect();
      const seen = $$("li[id]", folded).filter((row) => { const at = row.getBoundingClientRect(); return at.bottom > box.top && at.top < box.bottom; });
      if (seen.length) { first = +seen[0].id.match(/L(\d+)$/)[1]; last = +seen[seen.length - 1].id.match(/L(\d+)$/)[1]; }
    }
    view.setAttribute("y", (first - 1) / total() * 99);
    view.setAttribute("height", Math.max(1.5, (last - first + 1) / total() * 99));
  }
  minimap.addEventListener("click", (event) => {
    const box = minimap.getBoundingClientRect();
    goTo(Math.round((event.clientY - box.top) / box.height * total()));
  });

  /* ---- keys ------------------------------------------------------------------------------------------------------------------ */

  keys.set("/", () => { input.focus(); input.select(); panel.scrollIntoView({ block: "nearest" }); });
  let errors = null, errorsOf = -1;
  async function stepError(step) {
    if (!errors || errorsOf !== file) {
      try { errors = (await find({ level: "error" })).lines; errorsOf = file; } catch (problem) { return; }
    }
    if (!errors.length) { toast("No line of this log speaks of an error"); return; }
    const at = target ? target.first : 0;
    const next = step > 0 ? errors.find((line) => line > at) || errors[0] : errors.filter((line) => line < at).pop() || errors[errors.length - 1];
    location.hash = anchorOf(next);
  }
  keys.set("e", () => { stepError(1); });
  keys.set("E", () => { stepError(-1); });
  const dialog = document.getElementById("go-line");
  keys.set("g", () => { if (dialog) { dialog.showModal(); $("input", dialog).select(); } });
  if (dialog) dialog.addEventListener("close", () => {
    const line = parseInt($("input", dialog).value, 10);
    if (dialog.returnValue === "go" && line > 0) location.hash = anchorOf(Math.min(line, total()));
  });

  drawMinimap();
  if (ANCHOR.test(location.hash)) followHash();
})();
