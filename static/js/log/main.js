/* The log viewer. Folded, it is the excerpt the server made, whose gaps open; unfolded or filtered, it is a virtual
   list over any number of lines, fetched in ranges. */

import { foldedOf } from "./folded.js";
import { minimapOf } from "./minimap.js";
import { rowsOf } from "./rows.js";
import { searchOf } from "./search.js";
import { sourceOf } from "./source.js";
import { stateOf } from "./state.js";
import { virtualOf } from "./virtual.js";

const ANCHOR = /^#(?:F(\d+))?L(\d+)(?:-(?:F\d+)?L(\d+))?$/;  // #L120, #L120-L140, #F2L12

function view(panel) {
  const { $, $$, keys, say, toast } = window.kvdiag;
  const scroll = $(".log__scroll", panel);
  const state = stateOf(panel), source = sourceOf(state, panel.dataset.log), rows = rowsOf(state);
  const folded = foldedOf(state, source, rows, $(".log__body", scroll), (file) => search.chooseFile(file));
  const virtual = virtualOf(state, source, rows, scroll, () => minimap.look(inSight()));
  const minimap = minimapOf(state, $(".minimap", panel), goTo);
  const search = searchOf(state, source, {
    refresh, goTo, mode, toTop: virtual.toTop,
    showPart(file) { const part = folded.partOf(file); if (part) part.scrollIntoView({ block: "nearest" }); },
  });

  /* ---- what is shown ----------------------------------------------------------------------------------------- */

  async function mode() {
    scroll.classList.toggle("log__scroll--virtual", state.isVirtual);
    scroll.replaceChildren(state.isVirtual ? virtual.space : folded.list);
    if (state.isVirtual) await virtual.show();
    minimap.draw();
    minimap.look(inSight());
  }
  function inSight() {
    if (state.isVirtual) return virtual.inSight();
    const box = scroll.getBoundingClientRect();
    const seen = $$("li[id]", folded.list).filter((row) => { const at = row.getBoundingClientRect(); return at.bottom > box.top && at.top < box.bottom; });
    return seen.length ? [rows.lineOf(seen[0]), rows.lineOf(seen[seen.length - 1])] : [1, state.total];
  }
  /* after a search: matches in the rows and the minimap */
  function refresh() {
    minimap.draw();
    minimap.look(inSight());
    if (state.isVirtual) return virtual.refresh();
    $$("li[id] > code", folded.list).forEach((code) => {
      if ((state.query || $("mark.find", code)) && !$("button", code)) rows.fill(code, code.textContent);
    });
  }
  const dress = () => $$("li", scroll).forEach((row) => { if (rows.lineOf(row) && !row.classList.contains("log__gap")) rows.dress(row, rows.lineOf(row)); });
  let waiting = false;
  scroll.addEventListener("scroll", () => {
    if (waiting || state.isVirtual) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; minimap.look(inSight()); });
  }, { passive: true });

  /* ---- go to a line -------------------------------------------------------------------------------------------- */

  async function goTo(line) {
    line = Math.max(1, Math.min(line, state.total));
    if (state.isVirtual) {
      await virtual.goTo(line);
      dress();
      panel.scrollIntoView({ block: "nearest" });
      return;
    }
    const row = await folded.reach(line);
    if (!row) return;
    const box = scroll.getBoundingClientRect(), at = row.getBoundingClientRect();
    scroll.scrollTop += at.top - box.top - box.height / 3;
    dress();
    if (box.top < 60 || box.bottom > innerHeight) panel.scrollIntoView({ block: "nearest" });
  }
  async function followHash() {
    const found = ANCHOR.exec(location.hash);
    if (!found) return;
    const place = found[1] ? +found[1] - 1 : 0, first = +found[2], last = found[3] ? +found[3] : first;
    if (place >= state.data.files.length) return;
    if (place !== state.file) await search.chooseFile(place);
    state.target = { file: place, first: Math.min(first, last), last: Math.max(first, last) };
    state.lastClicked = state.target.first;
    if (state.rows && !state.rows.includes(state.target.first)) await search.clear();
    if (!state.isVirtual && last - first > 2) await folded.reach(state.target.first, state.target.last);
    await goTo(state.target.first);
    dress();
    scroll.scrollIntoView({ block: "nearest" });
    say(`Line ${state.target.first}`);
  }
  addEventListener("hashchange", followHash);
  addEventListener("popstate", followHash);
  /* a number is an address: a click takes the line, with Shift a range */
  scroll.addEventListener("click", (event) => {
    const number = event.target.closest("li > a");
    if (!number) return;
    event.preventDefault();
    const line = +number.textContent, from = event.shiftKey && state.lastClicked ? state.lastClicked : line;
    const first = Math.min(from, line), last = Math.max(from, line);
    if (!event.shiftKey) state.lastClicked = line;
    state.target = { file: state.file, first, last };
    history.pushState(null, "", "#" + state.anchorOf(first) + (last > first ? `-L${last}` : ""));
    dress();
  });

  /* ---- chips and keys --------------------------------------------------------------------------------------------- */

  const foldChip = $("[data-log-fold]", panel), wrapChip = $("[data-log-wrap]", panel);
  foldChip.addEventListener("click", async () => {
    state.isFolded = !state.isFolded;
    foldChip.setAttribute("aria-pressed", state.isFolded);
    await mode();
    if (state.target) goTo(state.target.first);
  });
  wrapChip.addEventListener("click", async () => {
    state.wrap = !state.wrap;
    wrapChip.setAttribute("aria-pressed", state.wrap);
    $(".log", panel).classList.toggle("log--nowrap", !state.wrap);
    if (!state.isVirtual) return;
    await virtual.show();
    if (state.target) goTo(state.target.first);
  });
  keys.set("/", () => { search.focus(); panel.scrollIntoView({ block: "nearest" }); });
  let errors = null, errorsOf = -1;
  async function stepError(step) {
    if (errorsOf !== state.file) {
      try { errors = (await source.find({ level: "error" })).lines; errorsOf = state.file; } catch (problem) { return; }
    }
    if (!errors.length) { toast("No line of this log speaks of an error"); return; }
    const at = state.target ? state.target.first : 0;
    const next = step > 0 ? errors.find((line) => line > at) || errors[0] : errors.filter((line) => line < at).pop() || errors[errors.length - 1];
    location.hash = state.anchorOf(next);
  }
  keys.set("e", () => { stepError(1); });
  keys.set("E", () => { stepError(-1); });
  const dialog = document.getElementById("go-line");
  if (dialog) {
    keys.set("g", () => { dialog.showModal(); $("input", dialog).select(); });
    dialog.addEventListener("close", () => {
      const line = parseInt($("input", dialog).value, 10);
      if (dialog.returnValue === "go" && line > 0) location.hash = state.anchorOf(Math.min(line, state.total));
    });
  }

  minimap.draw();
  minimap.look(inSight());
  if (ANCHOR.test(location.hash)) followHash();
}

const panel = document.getElementById("log");
if (panel && panel.dataset.log) view(panel);
