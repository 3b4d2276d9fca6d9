/* Search and filters. The server looks; here are the field, the count, the steps and the lines that are kept. */

import { countWords } from "./folded.js";

export function searchOf(state, source, { refresh, goTo, mode, toTop, showPart }) {
  const { $, $$, say, toast } = window.kvdiag;
  const input = $("#log-find", state.panel), counter = $("[data-log-count]", state.panel), steps = $$("[data-log-step]", state.panel);
  const filterOf = (name) => { const select = $(`[data-log-filter="${name}"]`, state.panel); return select ? select.value : ""; };

  function phaseRange() {
    const phase = state.data.phases.filter((one) => one[0] === filterOf("phase") && one[1] === state.file);
    return phase.length ? { from: Math.min(...phase.map((one) => one[2])), to: Math.max(...phase.map((one) => one[3])) } : null;
  }
  const filters = () => ({ ...(filterOf("rank") && { rank: filterOf("rank") }), ...(filterOf("level") && { level: filterOf("level") }) });

  /* ---- search --------------------------------------------------------------------------------------------- */

  let asked = 0;
  async function run({ jump = true } = {}) {
    const mine = ++asked;
    state.query = input.value;
    state.matches = []; state.match = -1;
    if (!state.query.trim()) { counter.textContent = ""; steps.forEach((button) => { button.disabled = true; }); refresh(); return; }
    try {
      const found = await source.find({ q: state.query, ...filters(), ...phaseRange() });
      if (mine !== asked) return;
      state.matches = found.lines;
      counter.textContent = found.lines.length ? `${found.lines.length.toLocaleString("en-US")}${found.cut ? " or more" : ""}` : "none";
      steps.forEach((button) => { button.disabled = !found.lines.length; });
      refresh();
      if (jump && found.lines.length) step(1);
    } catch (problem) { if (mine === asked) counter.textContent = problem.message ? problem.message.slice(0, 60) : "not searched"; }
  }
  function step(by) {
    const { matches } = state;
    if (!matches.length) return;
    state.match = state.match === -1 ? (by > 0 ? 0 : matches.length - 1) : (state.match + by + matches.length) % matches.length;
    counter.textContent = `${state.match + 1} of ${matches.length.toLocaleString("en-US")}`;
    goTo(matches[state.match]);
  }
  let typing;
  input.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(run, 220, { jump: false }); });
  input.closest("form").addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(typing);
    if (state.matches.length && state.query === input.value) step(1); else run();
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.shiftKey) { event.preventDefault(); step(-1); }
    if (event.key === "Escape") { input.value = ""; run(); input.blur(); }
  });
  steps.forEach((button) => button.addEventListener("click", () => step(+button.dataset.logStep)));

  /* ---- filters ---------------------------------------------------------------------------------------------- */

  async function apply() {
    const phase = phaseRange(), others = filters();
    if (Object.keys(others).length) {
      try { state.rows = (await source.find({ ...others, ...phase })).lines; say(countWords(state.rows.length)); }
      catch (problem) { toast(problem.message || "The log could not be searched"); return; }
    } else state.rows = phase ? Array.from({ length: phase.to - phase.from + 1 }, (_, n) => phase.from + n) : null;
    toTop();
    await mode();
    if (input.value) run({ jump: false });
  }
  async function clear() {
    $$("[data-log-filter]", state.panel).forEach((select) => { if (select.dataset.logFilter !== "file") select.value = ""; });
    state.rows = null;
    await mode();
  }
  async function chooseFile(place) {
    const select = $('[data-log-filter="file"]', state.panel);
    state.file = place;
    if (select) select.value = place;
    state.rows = null;
    await mode();
  }
  $$("[data-log-filter]", state.panel).forEach((select) => select.addEventListener("change", async () => {
    if (select.dataset.logFilter !== "file") return apply();
    state.file = +select.value;
    state.rows = null;
    toTop();
    if (!state.isFolded) return apply();
    await mode();
    showPart(state.file);
  }));

  return { focus() { input.focus(); input.select(); }, clear, chooseFile };
}
