/* The folded log: the excerpt that the server made, whose gaps open. */

const AROUND = 8;         // lines shown on either side of the one that is gone to
const OPENED = 200;       // lines a gap opens at once
const PROGRESS = /\d+%\|.*\|\s*[\d.]+[kMG]?\/[\d.]+/;

export const countWords = (n) => n.toLocaleString("en-US") + (n === 1 ? " line" : " lines");

export function foldedOf(state, source, rows, list, chooseFile) {
  const { $, $$, toast } = window.kvdiag;
  const rangeOf = (button) => button.dataset.gap.split(",").map(Number);

  function gapOf(first, last) {
    const gap = document.createElement("li"), button = document.createElement("button");
    gap.className = "log__gap";
    button.type = "button";
    button.dataset.gap = [state.file, first, last].join(",");
    button.textContent = countWords(last - first + 1);
    gap.append(button);
    return gap;
  }

  /* shows the lines from first to last of a gap; the first of the new rows, or null */
  async function openGap(button, first, last) {
    const [place, from, to] = rangeOf(button);
    if (place !== state.file) await chooseFile(place);
    let lines;
    try { lines = await source.texts(first, last); } catch (failed) { toast("These lines could not be loaded"); return null; }
    const gap = button.closest(".log__gap"), parts = [];
    if (first > from) parts.push(gapOf(from, first - 1));
    lines.forEach(([line, text], at) => {
      // of a progress bar that was printed line by line the last state is enough; the others stay a gap
      const run = button.dataset.whole ? 0 : runOfProgress(lines, at);
      if (run === 0) parts.push(rows.rowOf(line, text));
      else if (run > 0) parts.push(progressGap(line, line + run - 1));
    });
    if (last < to && lines.length) parts.push(gapOf(last + 1, to));
    gap.replaceWith(...parts);
    return parts.find((part) => !part.classList.contains("log__gap"));
  }

  const isProgress = (entry) => Boolean(entry) && PROGRESS.test(entry[1]);
  /* 0: a line to show; n: the first of n states to fold; -1: within such a run. Runs of fewer than three stay. */
  function runOfProgress(lines, at) {
    if (!isProgress(lines[at]) || !isProgress(lines[at + 1])) return 0;
    let first = at, last = at;
    while (isProgress(lines[first - 1])) first--;
    while (isProgress(lines[last + 1])) last++;
    const target = state.target && state.target.file === state.file ? state.target : null;
    if (last - first < 2 || (target && lines[first][0] <= target.last && target.first < lines[last][0])) return 0;
    return at === first ? last - first : -1;
  }
  function progressGap(first, last) {
    const gap = gapOf(first, last), button = gap.firstChild;
    button.dataset.whole = "1";
    button.textContent = `${countWords(last - first + 1)} of a progress bar, folded to its last state`;
    return gap;
  }

  list.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-gap]");
    if (!button) return;
    const [, from, to] = rangeOf(button);
    const first = await openGap(button, from, to - from < 300 ? to : from + OPENED - 1);
    if (first) $("a", first).focus({ preventScroll: true });
  });

  function gapAround(line) {
    return $$("[data-gap]", list).find((button) => {
      const [place, from, to] = rangeOf(button);
      return place === state.file && from <= line && line <= to;
    });
  }

  /* the row of a line, its gap opened where it lies in one; null where it cannot be had */
  async function reach(line, last = line) {
    const shown = document.getElementById(state.anchorOf(line));
    if (shown) return shown;
    const gap = gapAround(line);
    if (!gap) return null;
    const [, from, to] = rangeOf(gap), around = last > line ? 3 : AROUND;
    await openGap(gap, Math.max(from, line - around), Math.min(to, last + around));
    return document.getElementById(state.anchorOf(line));
  }

  /* of several files the excerpt is one list: where a file's part begins */
  const partOf = (file) => $$("[data-gap], li[id]", list).find((part) => (part.dataset.gap || "").startsWith(file + ",") || part.id.startsWith(`F${file + 1}L`));

  return { list, reach, partOf };
}
