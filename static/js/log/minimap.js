/* The narrow picture of the whole log beside it: findings, facts, matches, and what is in sight. */

const SVG = "http://www.w3.org/2000/svg", MOST_MATCHES = 400;
const ORDER = ["fact", "info", "advice", "warning", "critical"];

function rect(kind, y, height) {
  const one = document.createElementNS(SVG, "rect");
  one.setAttribute("class", kind);
  one.setAttribute("x", 0); one.setAttribute("width", 46);
  one.setAttribute("y", y); one.setAttribute("height", height);
  return one;
}

export function minimapOf(state, element, goTo) {
  let view = null;
  const at = (line) => (line - 1) / state.total * 99;

  /* marks, the worst above the others, and the search's matches */
  function draw() {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", "0 0 46 100");
    svg.setAttribute("preserveAspectRatio", "none");
    view = rect("mm-view", 0, 100);
    svg.append(view);
    Array.from(state.marks[state.file]).sort((a, b) => ORDER.indexOf(a[1]) - ORDER.indexOf(b[1]))
      .forEach(([line, mark]) => svg.append(rect("mm-" + mark, at(line), 0.8)));
    state.matches.slice(0, MOST_MATCHES).forEach((line) => { const one = rect("mm-find", at(line), 0.5); one.setAttribute("x", 30); svg.append(one); });
    element.replaceChildren(svg);
  }
  /* the lines in sight */
  function look([first, last]) {
    if (!view) return;
    view.setAttribute("y", at(first));
    view.setAttribute("height", Math.max(1.5, (last - first + 1) / state.total * 99));
  }
  element.addEventListener("click", (event) => {
    const box = element.getBoundingClientRect();
    goTo(Math.round((event.clientY - box.top) / box.height * state.total));
  });
  return { draw, look };
}
