/* The what-if panel: sends the settings that differ from the observed ones, shows the engine's answer in the server's
   words. It works nothing out itself; what the panel says at first is in the page. */
(function () {
  "use strict";
  const panel = document.querySelector("[data-whatif]"), form = document.getElementById("whatif-form");
  if (!panel || !form) return;
  const PREFIX = "wf.";
  const out = (name) => panel.querySelector(`[data-out="${name}"]`);
  const fields = Array.from(form.elements).filter((field) => field.name.startsWith(PREFIX));
  const launch = panel.closest("[data-launch]").dataset.launch;

  /* ---- the scenario: what differs from the observed values, also in the address ---------------------- */

  const isObserved = (field) => field.value === field.dataset.observed || (field.type === "range" && +field.value === +field.dataset.observed);
  const scenario = () => fields.filter((field) => field.value !== "" && !isObserved(field)).map((field) => [field.name, field.value]);
  function address(changed) {
    const url = new URL(location.href);
    Array.from(url.searchParams.keys()).filter((key) => key.startsWith(PREFIX)).forEach((key) => url.searchParams.delete(key));
    changed.forEach(([name, value]) => url.searchParams.set(name, value));
    return url;
  }

  /* ---- show an answer ------------------------------------------------------------------------------------ */

  const element = (tag, text, kind) => Object.assign(document.createElement(tag), { textContent: text, className: kind || "" });
  function show(shown, figure) {
    out("verdict").className = "notice notice--" + shown.tone;
    out("verdict-text").textContent = shown.text;
    shown.outcomes.forEach((outcome) => {
      out(outcome.key).textContent = outcome.figure;
      out(outcome.key + "-note").textContent = outcome.note || "\u00a0";
    });
    out("equation").textContent = shown.equation;
    out("equation-box").hidden = !shown.equation;
    out("copy").dataset.copyText = shown.copied;
    out("copy").hidden = !shown.copied;
    out("limits").replaceChildren(...shown.limits.map((text) => element("li", text)));
    out("diff-box").hidden = !shown.diff.length;
    out("diff-box").querySelector("pre").replaceChildren(...shown.diff.map((line) => element("span", line.text, line.kind)));
    out("plot").hidden = !figure;
    if (figure && window.kvCharts) kvCharts.add(out("plot"), figure);
  }

  /* Without an answer no figure stands below the sentence as if it were one. */
  const nothing = (sentence) => ({
    tone: "warning", text: sentence, equation: "", copied: "", limits: [], diff: [],
    outcomes: ["tokens", "requests", "free"].map((key) => ({ key, figure: "not known", note: "" })),
  });

  /* ---- ask, one question at a time, the last one wins ----------------------------------------------------- */

  let timer, asked = 0;
  async function ask() {
    const mine = ++asked;
    const query = new URLSearchParams([["launch", launch], ...scenario().map(([name, value]) => [name.slice(PREFIX.length), value])]);
    try {
      const response = await fetch(panel.dataset.whatif + "?" + query, { headers: { Accept: "application/json" } });
      if (response.status === 404) throw new Error("The report is no longer here. Its link may have ended.");
      const body = await response.json();
      if (mine !== asked) return;
      show(body.shown || nothing(body.error || "The site could not answer."), body.figure);
    } catch (problem) {
      if (mine !== asked) return;
      show(nothing(problem instanceof SyntaxError || problem instanceof TypeError ? "The site could not be reached. Try again." : problem.message), null);
    }
  }
  function run() {
    fields.forEach((field) => {
      const shown = document.getElementById(field.id + "-out");
      if (shown) shown.textContent = (+field.value).toFixed(3).replace(/0$/, "");
    });
    clearTimeout(timer);
    timer = setTimeout(() => {
      history.replaceState(history.state, "", address(scenario()));
      ask();
    }, 60);
  }
  form.addEventListener("input", run);
  form.addEventListener("submit", (event) => event.preventDefault());
  panel.querySelector("[data-whatif-reset]").addEventListener("click", () => {
    fields.forEach((field) => { field.value = field.dataset.observed; });
    run();
  });
  panel.querySelector("[data-whatif-link]").addEventListener("click", () => {
    const url = address(scenario());
    url.hash = "whatif";
    kvdiag.copy(url.href);
  });
})();
