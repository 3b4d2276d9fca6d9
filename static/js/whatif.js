/* The what-if panel: sends the changed settings, shows the engine's answer. It works nothing out itself. */
(function () {
  "use strict";
  const panel = document.querySelector("[data-whatif]"), form = document.getElementById("whatif-form");
  if (!panel || !form) return;
  const out = (name) => panel.querySelector(`[data-out="${name}"]`);
  const fields = Array.from(form.elements).filter((field) => field.name);
  const launch = panel.closest("[data-launch]").dataset.launch;
  const minus = (text) => text.replace("-", "−");
  const count = (x) => minus(Math.round(x).toLocaleString("en-US"));
  const about = (x) => { const step = 10 ** Math.max(0, String(Math.abs(Math.round(x))).length - 4); return count(Math.round(x / step) * step); };
  const gib = (x) => minus(x.toFixed(2));
  const valueOf = (field) => (field.type === "checkbox" ? (field.checked ? "on" : "off") : field.value);

  /* ---- the scenario: what differs from the observed values, also in the address ---------------------- */

  function scenario() {
    const changed = new URLSearchParams();
    fields.forEach((field) => {
      const value = valueOf(field);
      if (value !== "" && value !== field.dataset.observed && !(field.type === "range" && +value === +field.dataset.observed)) changed.set(field.name, value);
    });
    return changed;
  }
  function restore() {
    const given = new URLSearchParams(location.search);
    let any = false;
    fields.forEach((field) => {
      if (!given.has("wf." + field.name)) return;
      any = true;
      const value = given.get("wf." + field.name);
      if (field.type === "checkbox") field.checked = value === "on"; else field.value = value;
      const more = field.closest("details");
      if (more) more.open = true;
    });
    return any;
  }
  function address(changed) {
    const url = new URL(location.href);
    Array.from(url.searchParams.keys()).filter((key) => key.startsWith("wf.")).forEach((key) => url.searchParams.delete(key));
    changed.forEach((value, key) => url.searchParams.set("wf." + key, value));
    return url;
  }

  /* ---- show an answer ------------------------------------------------------------------------------------ */

  function put(name, text, note) {
    out(name).textContent = text;
    out(name + "-note").textContent = note || "\u00a0";
  }
  function range(figure, spell) {
    return figure.low !== null && figure.high !== null && figure.low !== figure.high ? `${spell(figure.low)} to ${spell(figure.high)}` : "";
  }
  function change(figure) {
    if (figure.before === null || !figure.before || figure.after === null) return "";
    const share = (figure.after / figure.before - 1) * 100;
    return Math.abs(share) < 0.05 ? "" : minus((share > 0 ? "+" : "") + share.toFixed(Math.abs(share) < 10 ? 1 : 0) + " %");
  }
  const join = (...parts) => parts.filter(Boolean).join(", ");

  function show(answer, changed) {
    const same = !changed.size, dead = Boolean(answer.refused) || answer.verdict.tone === "critical";
    const verdict = out("verdict");
    verdict.className = "notice notice--" + answer.verdict.tone;
    out("verdict-text").textContent = same ? "As observed. " + answer.verdict.text : answer.verdict.text;
    const guess = (text) => (same ? text : "≈ " + text);
    const tokens = answer.tokens, requests = answer.requests, free = answer.free_gib;
    if (tokens && tokens.after !== null && !dead) put("tokens", same ? count(tokens.after) : guess(about(tokens.after)), same ? "as observed" : join(change(tokens), range(tokens, count)));
    else put("tokens", dead ? "none" : "not known", dead ? "it does not start" : "the log does not tell");
    if (requests && requests.after !== null && !dead) put("requests", guess(count(requests.after)), answer.request_tokens ? "of " + count(answer.request_tokens) + " tokens each" : "");
    else put("requests", dead ? "none" : "not known", "");
    if (free && free.after !== null && !dead) put("free", guess(gib(free.after)) + " GiB", join(same ? "as observed" : range(free, gib), answer.wanted_free_gib ? `wanted ${+answer.wanted_free_gib.toFixed(1)}` : ""));
    else put("free", dead ? "none" : "not known", "");
    out("equation").textContent = (answer.equations || []).join("\n");
    const limits = out("limits");
    limits.replaceChildren(...[...(answer.cautions || []), ...(answer.validity || [])].map((text) => Object.assign(document.createElement("li"), { textContent: text })));
    if (answer.host_gb && answer.host_gb.after) limits.prepend(Object.assign(document.createElement("li"), { textContent: `Host memory: about ${answer.host_gb.after.toFixed(1)} GB (10⁹ bytes) a rank` }));
    diff(answer);
    if (answer.figure && window.kvCharts) kvCharts.add(out("plot"), answer.figure);
    last = answer.figure || last;
  }
  let last = null;
  const quote = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : "'" + word.replace(/'/g, "'\\''") + "'");
  function diff(answer) {
    const box = out("diff-box"), lines = [["ctx", "python -m sglang.launch_server \\"]];
    (answer.flags || []).forEach((flag) => {
      const spell = (value) => flag.flag + (value === "" ? "" : " " + quote(value)) + " \\";
      if (flag.from !== null && flag.from !== undefined) lines.push(["del", spell(flag.from)]);
      if (flag.to !== null && flag.to !== undefined) lines.push(["add", spell(flag.to)]);
    });
    box.hidden = lines.length < 2;
    box.querySelector("pre").replaceChildren(...lines.map(([kind, text]) => Object.assign(document.createElement("span"), { className: kind, textContent: text })));
  }

  /* ---- ask, one question at a time, the last one wins ----------------------------------------------------- */

  let timer, asked = 0;
  async function ask() {
    const changed = scenario(), mine = ++asked;
    const query = new URLSearchParams(changed);
    query.set("launch", launch);
    let body;
    try {
      const response = await fetch(panel.dataset.whatif + "?" + query, { headers: { Accept: "application/json" } });
      body = await response.json();
      if (!response.ok) throw new Error(body.error || "The site could not answer.");
    } catch (problem) {
      if (mine !== asked) return;
      out("verdict").className = "notice notice--warning";
      out("verdict-text").textContent = problem instanceof SyntaxError || problem instanceof TypeError ? "The site could not be reached. Try again." : problem.message;
      return;
    }
    if (mine === asked) show(body, changed);
  }
  function outputs() {
    fields.forEach((field) => {
      const shown = document.getElementById(field.id + "-out");
      if (shown) shown.textContent = (+field.value).toFixed(3).replace(/0$/, "");
    });
  }
  function run() {
    outputs();
    clearTimeout(timer);
    timer = setTimeout(() => {
      history.replaceState(history.state, "", address(scenario()));
      ask();
    }, 60);
  }
  form.addEventListener("input", run);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(run));
  panel.querySelector("[data-whatif-link]").addEventListener("click", () => {
    const url = address(scenario());
    url.hash = "whatif";
    kvdiag.copy(url.href);
  });
  document.addEventListener("kvdiag:charts", () => { if (last) kvCharts.add(out("plot"), last); });
  const start = () => { const given = restore(); outputs(); ask(); if (given && location.hash === "#whatif") panel.scrollIntoView(); };
  // The panel stands far below the first screen: ask when it comes near, unless the address holds a scenario.
  if (new URLSearchParams(location.search).toString().includes("wf.") || !("IntersectionObserver" in window)) start();
  else {
    const near = new IntersectionObserver((entries) => { if (entries.some((entry) => entry.isIntersecting)) { near.disconnect(); start(); } }, { rootMargin: "600px" });
    near.observe(panel);
  }
})();
