/* The unfolded log: a list over any number of rows, of which only those in sight are in the page.

   Rows are as high as their text, so where a row far away lies is not known, and need not be. One row is the anchor: it
   stands `y` pixels below the upper edge of the view, and the others stand above and below it by their own heights.
   Scrolling by the wheel moves the anchor by as many pixels as the view; a longer way (the scroll bar, Home, End) is a
   share of all rows. The scroll bar follows: its place is a share too, and is put right when scrolling has ended. */

const TALLEST = 6_000_000;  // pixels; a browser's own limit is 16 to 33 million
const MARGIN = 600;         // pixels of rows kept ready above and below the view
const LEAP = 3;             // views: a longer way at once is a leap to a share of the log
const ROOM = 300;           // pixels the scroll bar keeps on either side while there are more rows
const QUIET_MS = 140;

export function virtualOf(state, source, rows, scroll, onMove) {
  const space = document.createElement("div"), list = document.createElement("ol");
  space.className = "log__space";
  list.className = "log__body log__body--virtual";
  space.append(list);

  let anchor = { index: 0, y: 0 };
  let isPinned = false;       // to the log's end, until somebody scrolls
  let shown = new Map();      // row number → element
  let heights = new Map();    // row number → its height, once it was measured
  let usual = 20;             // of a row that was not measured
  let last = 0;               // where the scroll bar stood
  let edges = { top: 0, bottom: 0, first: 0, end: 0 };  // of the rows in the page, from the view's upper edge
  let quiet = 0;

  const heightOf = (index) => heights.get(index) || usual;

  /* ---- the rows around the anchor ------------------------------------------------------------------------- */

  function wanted() {
    const view = scroll.clientHeight;
    let first = anchor.index, above = anchor.y, end = anchor.index, below = anchor.y;
    while (first > 0 && above > -MARGIN) above -= heightOf(--first);
    while (end < state.count && below < view + MARGIN) below += heightOf(end++);
    return { first, end };
  }
  function fill(first, end) {
    const kept = new Map();
    for (let index = first; index < end; index++) {
      const line = state.lineAt(index), text = source.known(line), old = shown.get(index);
      if (old && (old.dataset.open === undefined || text === null)) { kept.set(index, old); continue; }
      const row = rows.rowOf(line, text);
      if (text === null) row.dataset.open = "";
      kept.set(index, row);
    }
    // rows that stay are not taken out: what is selected or has the focus remains so
    const stay = new Set(kept.values());
    Array.from(list.children).forEach((row) => { if (!stay.has(row)) row.remove(); });
    let at = list.firstChild;
    kept.forEach((row) => { if (row === at) at = at.nextSibling; else list.insertBefore(row, at); });
    shown = kept;
  }
  function measure() {
    let sum = 0, measured = 0;
    shown.forEach((row, index) => {
      const height = row.getBoundingClientRect().height;
      if (!height) return;
      heights.set(index, height);
      sum += height; measured++;
    });
    return measured ? sum / measured : usual;
  }
  /* puts the list where the anchor wants it; the log's ends stay at the view's */
  function place(first, end) {
    let top = anchor.y, bottom = anchor.y;
    for (let index = first; index < anchor.index; index++) top -= heightOf(index);
    for (let index = anchor.index; index < end; index++) bottom += heightOf(index);
    let by = 0;
    if (end === state.count && bottom < scroll.clientHeight) by = scroll.clientHeight - bottom;
    if (first === 0 && top + by > 0) by = -top;
    anchor.y += by;
    edges = { top: top + by, bottom: bottom + by, first, end };
    list.style.insetBlockStart = scroll.scrollTop + edges.top + "px";
  }
  const isCovered = (margin) =>
    (edges.first === 0 || edges.top <= -margin) && (edges.end === state.count || edges.bottom >= scroll.clientHeight + margin);

  function draw() {
    for (let round = 0; round < 4; round++) {
      if (isPinned) anchor = { index: state.count - 1, y: scroll.clientHeight - heightOf(state.count - 1) };
      const { first, end } = wanted();
      fill(first, end);
      measure();
      place(first, end);
      if (isCovered(MARGIN / 2) && !(isPinned && edges.bottom > scroll.clientHeight + 1)) break;
    }
    onMove();
  }

  /* after scrolling the uppermost row in sight is the anchor: what is loaded above it does not move it */
  function settleAnchor() {
    let y = edges.top;
    for (let index = edges.first; index < edges.end; index++) {
      const height = heightOf(index);
      if (y + height > 0) { anchor = { index, y }; return; }
      y += height;
    }
  }

  /* ---- texts that are still to come ------------------------------------------------------------------------- */

  let loading = null;
  async function load() {
    const mine = loading = {};
    for (let before = ""; ;) {
      const missing = [];
      shown.forEach((row, index) => { if (row.dataset.open !== undefined) missing.push(state.lineAt(index)); });
      if (!missing.length || missing.join() === before) return;
      before = missing.join();
      try {
        if (state.rows) await source.scattered(missing);
        else await source.texts(missing[0], missing[missing.length - 1]);
      } catch (failed) { return; }
      if (loading !== mine) return;
      draw();
    }
  }

  /* ---- scrolling ----------------------------------------------------------------------------------------------- */

  const limit = () => Math.max(0, space.offsetHeight - scroll.clientHeight);
  const isAtTop = () => edges.first === 0 && edges.top >= 0;
  const isAtEnd = () => edges.end === state.count && edges.bottom <= scroll.clientHeight + 1;

  function leap() {
    const share = limit() ? scroll.scrollTop / limit() : 0;
    if (share >= 1) return toEnd();
    const at = share * Math.max(0, state.count - scroll.clientHeight / usual), index = Math.floor(at);
    anchor = { index, y: (index - at) * usual };
  }
  /* the scroll bar to where the rows are; they stay where they are in the view */
  function follow() {
    const most = limit(), above = anchor.index - anchor.y / heightOf(anchor.index);
    let to = above / Math.max(1, state.count - scroll.clientHeight / usual) * most;
    if (edges.first === 0) to = -edges.top;
    else if (edges.end === state.count) to = most - (edges.bottom - scroll.clientHeight);
    else to = Math.min(most - ROOM, Math.max(ROOM, to));
    scroll.scrollTop = Math.round(to);
    last = scroll.scrollTop;
    list.style.insetBlockStart = last + edges.top + "px";
  }
  function onScroll() {
    const by = scroll.scrollTop - last, isByHand = performance.now() - turned < 300;
    last = scroll.scrollTop;
    if (!by) return;
    isPinned = false;
    const isLeap = Math.abs(by) > LEAP * scroll.clientHeight || (!isByHand && (last <= 0 || last >= limit() - 1));
    if (isLeap) leap();
    else {
      anchor.y -= by;
      edges.top -= by;
      edges.bottom -= by;
    }
    if (isLeap || !isCovered(MARGIN / 3) || edges.top > 0 || edges.bottom < scroll.clientHeight) { draw(); settleAnchor(); load(); }
    else { settleAnchor(); onMove(); }
    clearTimeout(quiet);
    // there is more than the scroll bar has room for: make some
    if ((last < 2 && !isAtTop()) || (last > limit() - 2 && !isAtEnd())) follow();
    else quiet = setTimeout(follow, QUIET_MS);
  }
  let turned = -1e9;
  const byHand = () => { turned = performance.now(); };
  ["wheel", "touchmove", "keydown"].forEach((kind) => scroll.addEventListener(kind, byHand, { passive: true }));
  scroll.addEventListener("scroll", () => { if (space.isConnected) onScroll(); }, { passive: true });
  scroll.addEventListener("keydown", (event) => {
    if (!space.isConnected || event.target !== scroll || !["Home", "End"].includes(event.key)) return;
    event.preventDefault();
    if (event.key === "Home") toTop(); else toEnd();
    draw();
    follow();
    load().then(follow);
  });

  /* ---- from outside ------------------------------------------------------------------------------------------------ */

  function forget() {
    shown.clear();
    heights.clear();
  }
  function layOut() {
    space.style.blockSize = Math.max(1, Math.min(state.count * usual, TALLEST), edges.bottom - edges.top) + "px";
  }
  /* draws anew: another file, filter, width or wrapping */
  async function show() {
    forget();
    isPinned = false;
    anchor = { index: Math.max(0, Math.min(anchor.index, state.count - 1)), y: anchor.y };
    if (!state.count) {
      list.replaceChildren(Object.assign(document.createElement("li"), { className: "log__none", textContent: "No line fits these filters." }));
      list.style.insetBlockStart = 0;
      space.style.blockSize = "100%";
      return;
    }
    edges = { top: 0, bottom: 0, first: 0, end: 0 };
    layOut();
    draw();
    await load();
    usual = measure();
    draw();
    layOut();
    follow();
  }
  /* puts a line into the view's upper third */
  async function goTo(line) {
    if (!state.count) return;
    isPinned = false;
    anchor = { index: Math.min(state.indexOf(line), state.count - 1), y: scroll.clientHeight / 3 };
    draw();
    await load();
    follow();
  }
  function toTop() {
    isPinned = false;
    anchor = { index: 0, y: 0 };
  }
  const toEnd = () => { isPinned = true; };
  /* other marks or matches: the rows are made again, their heights stay */
  function refresh() {
    shown.clear();
    draw();
    load();
  }
  let width = 0;
  new ResizeObserver(() => {
    if (!space.isConnected || scroll.clientWidth === width) return;
    width = scroll.clientWidth;
    if (state.count) { heights.clear(); draw(); load(); }
  }).observe(scroll);
  list.addEventListener("log:grown", draw);

  /* the first and the last line in sight */
  function inSight() {
    let y = edges.top, first = null, end = null;
    for (let index = edges.first; index < edges.end; index++) {
      const height = heightOf(index);
      if (first === null && y + height > 0) first = index;
      if (y < scroll.clientHeight) end = index;
      y += height;
    }
    return first === null ? [1, state.total] : [state.lineAt(first), state.lineAt(end)];
  }

  return { space, show, goTo, toTop, refresh, inSight };
}
