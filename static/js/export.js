/* Charts as PNG and SVG, tables as CSV. Made in the browser from what is shown; nothing is sent. */
(function () {
  "use strict";

  function save(name, blob) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  /* A spreadsheet runs cells that begin like a formula; a quote before them keeps them text. Numbers stay numbers. */
  function cell(text) {
    let value = text.replace(/\s+/g, " ").trim();
    const number = value.replace(/,/g, "").replace("−", "-");
    if (/^-?\d+(\.\d+)?$/.test(number)) return number;
    if (/^[=+\-@\t\r]/.test(value)) value = "'" + value;
    return /[",\n]/.test(value) ? '"' + value.replace(/"/g, '""') + '"' : value;
  }
  function csv(table) {
    const rows = [];
    table.querySelectorAll("tr").forEach((row) => {
      const cells = [];
      row.querySelectorAll("th, td").forEach((one) => {
        cells.push(cell(one.textContent));
        for (let n = 1; n < one.colSpan; n++) cells.push("");
      });
      rows.push(cells.join(","));
    });
    return "\ufeff" + rows.join("\r\n") + "\r\n";
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-export]");
    if (!button) return;
    const kind = button.dataset.export, name = "kvdiag-" + (button.dataset.name || "chart");
    const menu = button.closest("details");
    if (menu) menu.open = false;
    if (kind === "csv") {
      const table = document.getElementById(button.dataset.table);
      if (table) save(name + ".csv", new Blob([csv(table)], { type: "text/csv" }));
      return;
    }
    const plot = document.getElementById(button.dataset.for);
    if (!plot || !window.Plotly) return;
    window.kvCharts.ensure(plot);
    const size = { width: plot.clientWidth, height: plot.clientHeight };
    const background = getComputedStyle(document.body).getPropertyValue("--surface");
    const probe = document.createElement("i");
    probe.style.color = background;
    document.body.append(probe);
    const colour = getComputedStyle(probe).color;
    probe.remove();
    const figure = { data: plot.data, layout: Object.assign({}, plot.layout, { paper_bgcolor: colour }) };
    Plotly.toImage(figure, Object.assign({ format: kind, scale: kind === "png" ? 2 : 1 }, size)).then((url) => {
      if (kind === "svg") {
        const comma = url.indexOf(","), body = url.slice(comma + 1);
        const text = /;base64/.test(url.slice(0, comma)) ? atob(body) : decodeURIComponent(body);
        save(name + ".svg", new Blob([text], { type: "image/svg+xml" }));
      } else {
        fetchless(url, name);
      }
    }, () => window.kvdiag && kvdiag.toast("The browser could not draw the picture"));
  });
  function fetchless(url, name) {
    const bytes = atob(url.slice(url.indexOf(",") + 1)), all = new Uint8Array(bytes.length);
    for (let at = 0; at < bytes.length; at++) all[at] = bytes.charCodeAt(at);
    save(name + ".png", new Blob([all], { type: "image/png" }));
  }
})();
