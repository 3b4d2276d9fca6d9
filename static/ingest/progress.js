/* The progress page: asks how far the diagnosis is, says each new phase once, and shows the report when it is there. */
(function () {
  "use strict";
  const { $, $$, say } = window.kvdiag;
  const page = $("#progress"), TICK = '<svg class="i" viewBox="0 0 16 16" aria-hidden="true"><path d="M3.5 8.5l3 3 6-7"/></svg>';
  let spoken = $("#state-words").textContent, misses = 0;

  function set(element, text) { if (element && element.textContent !== text) element.textContent = text; }

  function showPhase(phase) {
    const li = $(`[data-phase="${phase.phase}"]`);
    if (li.className !== phase.state) {
      li.className = phase.state;
      li.toggleAttribute("aria-current", phase.state === "now");
      if (phase.state === "now") li.setAttribute("aria-current", "step");
      $(".phases__dot", li).innerHTML = phase.state === "done" ? TICK : "";
    }
    set($("b", li), phase.state === "now" ? phase.doing : phase.title);
    set($(".small", li), phase.words);
    set($("time", li), phase.seconds === null ? "" : phase.seconds.toFixed(1) + " s");
    const meter = $(".meter", li);
    if (meter) {
      meter.toggleAttribute("hidden", phase.state !== "now" || !phase.percent);
      $(".meter__fill", meter).setAttribute("width", phase.percent + "%");
    }
  }

  function showFact(fact) {
    const cell = $(`[data-fact="${fact.fact}"] td`);
    if (cell && fact.value !== null) set(cell, fact.value);
  }

  function show(progress) {
    progress.phases.forEach(showPhase);
    progress.known.forEach(showFact);
    set($("#state-words"), progress.title);
    if (progress.state !== "receiving") set($("#may-close"), $("#may-close").dataset.words);
    set($("#elapsed"), progress.elapsed_s.toFixed(0) + " s so far");
    set($("#ahead"), progress.ahead ? `${progress.ahead} ${progress.ahead === 1 ? "upload" : "uploads"} before this one,` : "");
    if (progress.title !== spoken) { spoken = progress.title; say(spoken); }
  }

  async function ask() {
    let wait = 500;
    try {
      const answer = await fetch(page.dataset.status, { headers: { Accept: "application/json" } });
      if (answer.status === 404) return location.reload();
      if (!answer.ok) throw new Error(answer.status);
      const progress = await answer.json();
      misses = 0;
      if (progress.is_over) return location.reload();
      show(progress);
      wait = progress.elapsed_s > 20 ? 2000 : progress.elapsed_s > 5 ? 1000 : 400;
    } catch (away) {
      misses++;
      wait = Math.min(15000, 1000 * 2 ** misses);
      if (misses === 2) set($("#ahead"), "The server does not answer; trying again.");
    }
    setTimeout(ask, wait);
  }

  if (page.dataset.status) ask();
})();
