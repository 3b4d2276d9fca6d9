/* A line of the log as an element. Its text becomes text nodes, and never markup. */

import { tokens } from "./ansi.js";

const LONG = 2000;
const CLOCK = /^(?=\[|[A-Z][a-z]{2} )(?:[A-Z][a-z]{2} +\d+ [\d:]{8} \S+ \S+: ?)?(?:\[[^\]\n]{8,60}\])?/;
const BAD = /(?:error|exception)\b|\b(?:traceback|critical|fatal|out of memory)\b/i;

export function rowsOf(state) {
  function span(kind, text) {
    const part = document.createElement("span");
    part.className = kind;
    part.textContent = text;
    return part;
  }

  /* text nodes for one token, with the search's matches marked */
  function spread(into, text, kind) {
    const plain = state.query && state.query[0] !== "/" ? state.query.toLowerCase() : "";
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
    const found = tokens(cut ? text.slice(0, LONG) : text);
    const clock = found.length && CLOCK.exec(found[0].text);
    if (clock && clock[0]) {
      code.append(span("ts", clock[0]));
      found[0] = { text: found[0].text.slice(clock[0].length), kind: found[0].kind };
    }
    found.forEach((token) => token.text && spread(code, token.text, token.kind));
    if (cut) {
      const more = document.createElement("button");
      more.type = "button";
      more.className = "log__more";
      more.textContent = `show ${(text.length - LONG).toLocaleString("en-US")} more letters`;
      more.addEventListener("click", () => {
        code.dataset.whole = "1";
        fill(code, text);
        code.dispatchEvent(new CustomEvent("log:grown", { bubbles: true }));
      });
      code.append(" ", more);
    }
  }

  function dress(row, line) {
    const mark = state.markOf(line), classes = [];
    if (mark) classes.push("m-" + mark);
    if (mark && mark !== "fact") classes.push("hit");
    if (state.isTarget(line)) classes.push("is-target");
    if (state.matches[state.match] === line) classes.push("is-match");
    row.className = classes.join(" ");
  }

  /* the element of a line; text is null where it is still to come */
  function rowOf(line, text) {
    const row = document.createElement("li"), number = document.createElement("a"), code = document.createElement("code");
    row.id = state.anchorOf(line);
    row.dataset.line = line;
    number.href = "#" + row.id;
    number.textContent = line;
    if (text === null) { code.textContent = "…"; code.className = "quiet"; }
    else { fill(code, text); if (BAD.test(text.slice(0, 400))) code.classList.add("err"); }
    dress(row, line);
    row.append(document.createElement("i"), number, code);
    return row;
  }

  const lineOf = (row) => +(row.dataset.line || (row.id.match(/L(\d+)$/) || [])[1] || 0);

  return { rowOf, fill, dress, lineOf };
}
