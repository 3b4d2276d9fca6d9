/* Draws the figures that reports/charts/ makes: resolves colour names, words that follow the unit switch, hover and
   what fits on a narrow screen. One template for all: no mode bar, no drag, hairline grid, no animation.

   Words in figures come from fixed lists; no <b>, <i> or <span>: Plotly makes style attributes of them and our content
   security policy refuses those. Weights are set with font.weight. */
(function () {
  "use strict";
  const NARROW = 620;

  const AXIS = {
    gridcolor: "@line", linecolor: "@line-2", zerolinecolor: "@line-2", tickcolor: "@line-2",
    tickfont: { size: 11, color: "@ink-3" }, title: { font: { size: 11, color: "@ink-3" }, standoff: 8 },
    fixedrange: true, automargin: false, zeroline: false, ticks: "", showline: false, ticklabelstandoff: 4,
  };
  const TEMPLATE = {
    font: { family: "@ui", size: 12, color: "@ink-2" },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 8, r: 8, t: 8, b: 28 }, bargap: 0.28, barcornerradius: 0, showlegend: false,
    hovermode: "closest", hoverdistance: 24, dragmode: false,
    hoverlabel: { bgcolor: "@ink", bordercolor: "@ink", font: { family: "@ui", size: 12, color: "@ink-inv" }, align: "left", namelength: -1 },
  };
  const CONFIG = { displayModeBar: false, responsive: false, scrollZoom: false, doubleClick: false, showTips: false };

  /* ---- colour names to colours ------------------------------------------------------------- */

  let probe;
  const seen = new Map();
  function css(name) {
    if (seen.has(name)) return seen.get(name);
    let value;
    if (name === "ui" || name === "mono") value = getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
    else {
      if (!probe) { probe = document.createElement("i"); probe.hidden = true; document.body.append(probe); }
      probe.style.color = "var(--" + name + ")";
      value = getComputedStyle(probe).color;
    }
    seen.set(name, value);
    return value;
  }
  function resolve(value) {
    if (typeof value === "string") return value[0] === "@" ? css(value.slice(1)) : value;
    if (Array.isArray(value)) return value.map(resolve);
    if (value && typeof value === "object") {
      const out = {};
      for (const key of Object.keys(value)) if (key !== "__proto__") out[key] = resolve(value[key]);
      return out;
    }
    return value;
  }

  /* ---- pools: colour and pattern together, the same on every page ------------------------------ */

  const PATTERNS = { state: ".", draft: "/", graphs: "|", work: "-", unexplained: "\\" };
  function bar(trace) {
    const pool = trace.pool, hollow = pool === "unexplained", colour = "@pool-" + pool;
    return Object.assign({ type: "bar", orientation: "h", width: 1, marker: {
      color: hollow ? "@surface" : colour,
      line: { color: pool === "free" ? "@pool-free-line" : hollow ? colour : "@surface", width: 1 },
      pattern: { shape: PATTERNS[pool] || "", fgcolor: hollow ? colour : "@surface", fgopacity: hollow ? 1 : 0.5, size: 5, solidity: 0.28, fillmode: "overlay" },
    } }, trace);
  }

  /* ---- units: one switch for the figures and tables of a panel -------------------------------- */

  const minus = (text) => text.replace("-", "−");
  const UNITS = {
    gib:    { name: "GiB", text: (g) => minus(g.toFixed(2)), suffix: " GiB", can: () => true },
    gb:     { name: "GB", text: (g) => minus((g * 1.073741824).toFixed(2)), suffix: " GB", can: () => true },
    share:  { name: "%", text: (g, s) => minus((g / s.opening * 100).toFixed(1)), suffix: " %", can: (s) => s && s.opening },
    tokens: { name: "tokens", text: (g, s) => minus(Math.round(g * 2 ** 30 / s.bytes_per_token).toLocaleString("en-US")), suffix: " tokens", can: (s) => s && s.bytes_per_token },
  };

  const canvas = document.createElement("canvas").getContext("2d");
  function widthOf(text, size, weight) {
    canvas.font = `${weight || 400} ${size || 12}px ${css("ui")}`;
    return canvas.measureText(text).width;
  }

  /* ---- a figure made ready for one width and one unit -------------------------------------------- */

  function hover(kv, unit, scale) {
    if (kv.series) return { hovertemplate: `%{x}<br>${kv.name} %{y}<extra></extra>` };
    const lines = [kv.name + (kv.gib === undefined ? "" : "  " + unit.text(kv.gib, scale) + unit.suffix)];
    if (kv.text) lines.push(kv.text);
    if (kv.gib !== undefined && scale && scale.opening && unit !== UNITS.share) lines.push(minus((kv.gib / scale.opening * 100).toFixed(1)) + " % of the first reading");
    if (kv.where) lines.push(kv.where);
    return { hoverinfo: "all", hovertemplate: lines.join("<br>") + "<extra></extra>" };
  }

  function ready(figure, width, unitName) {
    const narrow = width < NARROW, scale = figure.scale || null;
    let unit = UNITS[unitName] || UNITS.gib;
    if (!unit.can(scale)) unit = UNITS.gib;
    const layout = Object.assign({}, figure.layout, narrow ? figure.narrow : null);
    const margin = Object.assign({ l: 8, r: 8, t: 8, b: 28 }, layout.margin);
    const plotWidth = Math.max(40, width - margin.l - margin.r);
    const perUnit = (name) => {
      const axis = layout[name === "x2" ? "xaxis2" : "xaxis"] || {}, domain = axis.domain || [0, 1], range = axis.range || [0, 1];
      return plotWidth * (domain[1] - domain[0]) / (range[1] - range[0]);
    };
    const fits = (thing) => !thing.only || thing.only === (narrow ? "narrow" : "wide");
    const data = figure.data.filter(fits).map((trace) => {
      const { kv, only, pool, ...rest } = trace.pool ? bar(trace) : trace;
      return Object.assign(rest, kv ? hover(kv, unit, scale) : null, kv && kv.anchor ? { meta: kv.anchor } : null);
    });
    const annotations = [];
    for (const note of layout.annotations || []) {
      if (!fits(note)) continue;
      const { kv, only, ...rest } = note;
      if (kv) {
        const figureText = unit.text(kv.gib, scale), font = rest.font || {};
        const room = kv.span === undefined ? Infinity : kv.span * perUnit(kv.axis) - 6;
        const words = [kv.name ? kv.name + " " + figureText : figureText, figureText];
        const text = words.find((words) => widthOf(words, font.size, font.weight) <= room);
        if (!text) continue;
        rest.text = text;
      }
      annotations.push(rest);
    }
    // The y axis' words must not eat a phone's width.
    if (narrow && layout.yaxis && Array.isArray(layout.yaxis.ticktext)) {
      const most = margin.l - 14;
      layout.yaxis = Object.assign({}, layout.yaxis, { tickfont: { size: 11, color: "@ink" }, ticktext: layout.yaxis.ticktext.map((text) => {
        if (widthOf(text, 11) <= most) return text;
        let cut = text;
        while (cut.length > 4 && widthOf(cut + "…", 11) > most) cut = cut.slice(0, -1);
        return cut.trimEnd() + "…";
      }) });
    }
    layout.annotations = annotations;
    layout.margin = margin;
    layout.width = width;
    for (const key of Object.keys(layout)) if (/^[xy]axis\d*$/.test(key)) layout[key] = Object.assign({}, AXIS, layout[key]);
    return { data: resolve(data), layout: resolve(Object.assign({}, TEMPLATE, layout)) };
  }

  function draw(el, figure, unitName) {
    const made = ready(figure, el.clientWidth, unitName);
    return Plotly.react(el, made.data, made.layout, CONFIG);
  }

  /* ---- plots of a page: <div class="plot" data-figure="id of a JSON script"> -------------------------- */

  const plots = new Map();
  const read = (id) => { const script = document.getElementById(id); return script ? JSON.parse(script.textContent) : null; };
  function paint(plot) {
    if (!plot.isNear || !plot.el.clientWidth || !plot.figure) return;
    if (!plot.isDrawn) plot.el.replaceChildren();   // the still drawing makes room
    draw(plot.el, plot.figure, plot.unit);
    if (!plot.isDrawn && plot.el.on) {
      // a segment leads to its line in the log, and opens the finding that rests on it
      plot.el.on("plotly_click", (event) => {
        const anchor = event.points[0] && event.points[0].data.meta;
        if (anchor) document.dispatchEvent(new CustomEvent("kvdiag:line", { detail: anchor }));
      });
    }
    plot.isDrawn = true;
  }
  /* A live drawing takes a tenth of a second: the still one stays until the reader comes near. */
  const near = new IntersectionObserver((seenNow) => seenNow.forEach((one) => { if (one.isIntersecting) ensure(one.target); }), { rootMargin: "75% 0px" });
  function ensure(el) {
    const plot = plots.get(el);
    near.unobserve(el);
    if (!plot || plot.isNear) return;
    plot.isNear = true;
    paint(plot);
  }
  function add(el, figure) {
    if (!window.Plotly) return null;   // it did not arrive: the still drawing stays
    const plot = plots.get(el) || { el, unit: "gib" };
    plot.figure = figure;
    if (!plots.has(el)) near.observe(el);
    plots.set(el, plot);
    paint(plot);
    return plot;
  }
  function start() {
    if (!window.Plotly) return;
    document.querySelectorAll(".plot[data-figure]").forEach((el) => {
      const figure = read(el.dataset.figure);
      if (!figure) return;
      const plot = add(el, figure);
      plot.views = figure.views || { first: figure, second: read(el.dataset.figure + "-second") };
    });
  }
  let timer;
  const repaint = () => plots.forEach(paint);
  addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(repaint, 120); });
  document.addEventListener("kvdiag:theme", () => { seen.clear(); repaint(); });
  addEventListener("beforeprint", () => { seen.clear(); plots.forEach((plot) => { plot.isNear = true; }); repaint(); });

  document.addEventListener("click", (event) => {
    const button = event.target.closest(".seg [data-view], .seg [data-unit]");
    if (!button) return;
    const seg = button.closest(".seg");
    seg.querySelectorAll("button").forEach((other) => other.setAttribute("aria-pressed", other === button));
    if (button.dataset.view !== undefined && seg.dataset.plot) {
      const plot = plots.get(document.getElementById(seg.dataset.plot));
      if (plot && plot.views[button.dataset.view]) { plot.figure = plot.views[button.dataset.view]; paint(plot); }
    }
    if (button.dataset.unit) useUnit(seg, button.dataset.unit);
  });
  function useUnit(seg, unitName) {
    const panel = seg.closest(".panel"), unit = UNITS[unitName];
    let scale = null;
    panel.querySelectorAll(".plot[data-figure]").forEach((el) => {
      const plot = plots.get(el);
      if (plot) { plot.unit = unitName; scale = plot.figure.scale; paint(plot); }
    });
    if (!unit.can(scale)) return;
    panel.querySelectorAll("[data-gib]").forEach((cell) => { cell.textContent = unit.text(+cell.dataset.gib, scale); });
    panel.querySelectorAll("[data-unit-name]").forEach((cell) => { cell.textContent = unit.name; });
    try { localStorage.setItem("kvdiag-unit", unitName); } catch (refused) { /* kept for this page only */ }
  }
  function remembered() {
    let unitName;
    try { unitName = localStorage.getItem("kvdiag-unit"); } catch (refused) { return; }
    if (!UNITS[unitName] || unitName === "gib") return;
    document.querySelectorAll(`.seg[data-units] [data-unit="${unitName}"]`).forEach((button) => button.click());
  }

  start();
  remembered();
  window.kvCharts = { add, draw, ensure, resolve, plots, UNITS };
  document.dispatchEvent(new CustomEvent("kvdiag:charts"));
})();
