/* Where the lines come from: ranges, single lines and searches, asked of the server and kept for a while. */

const PAGE = 400, MOST_PAGES = 40, MOST_SINGLE = 5000, AT_ONCE = 200;

export function sourceOf(state, address) {
  const pages = new Map(), single = new Map();
  const ask = async (path) => {
    const response = await fetch(address + path, { headers: { Accept: "application/json" } });
    const body = await response.json();
    if (!response.ok) throw new Error(typeof body.error === "string" ? body.error : "The log could not be read");
    return body;
  };
  const place = (line) => Math.floor((line - 1) / PAGE);

  function pageOf(number) {
    const key = state.file + ":" + number;
    if (pages.has(key)) return pages.get(key);
    const first = number * PAGE + 1, page = { lines: null };
    page.ready = ask(`?file=${state.file}&from=${first}&to=${first + PAGE - 1}`)
      .then((body) => { page.lines = new Map(body.lines); }, (failed) => { pages.delete(key); throw failed; });
    pages.set(key, page);
    if (pages.size > MOST_PAGES) pages.delete(pages.keys().next().value);
    return page;
  }

  /* [[number, text]] of a range */
  async function texts(first, last) {
    const found = [], wanted = [];
    for (let number = place(first); number <= place(last); number++) wanted.push(pageOf(number));
    await Promise.all(wanted.map((page) => page.ready));
    for (let line = first; line <= last; line++) {
      const lines = wanted[place(line) - place(first)].lines;
      if (lines.has(line)) found.push([line, lines.get(line)]);
    }
    return found;
  }

  /* fetches lines that lie apart, so that `known` has them */
  async function scattered(lines) {
    const missing = lines.filter((line) => !single.has(state.file + ":" + line)).slice(0, AT_ONCE);
    if (!missing.length) return;
    const file = state.file, body = await ask(`/lines?file=${file}&n=${missing.join(",")}`);
    if (single.size > MOST_SINGLE) single.clear();
    body.lines.forEach(([line, text]) => single.set(file + ":" + line, text));
  }

  /* a line's text where it is here already, else null */
  function known(line) {
    const key = state.file + ":" + line;
    if (single.has(key)) return single.get(key);
    const page = pages.get(state.file + ":" + place(line));
    return page && page.lines && page.lines.has(line) ? page.lines.get(line) : null;
  }

  const find = (parameters) => ask("/find?" + new URLSearchParams({ file: state.file, ...parameters }));

  return { texts, scattered, known, find };
}
