/* What the parts of the log viewer share: the log's files, the marks in them, and what the reader has chosen. */

export function stateOf(panel) {
  const data = JSON.parse(document.getElementById("log-data").textContent);
  const marks = data.files.map(() => new Map());
  data.marks.forEach(([file, line, mark]) => marks[file] && marks[file].set(line, mark));
  const several = data.files.length > 1;
  return {
    panel, data, marks,
    file: 0,
    wrap: true,
    isFolded: true,
    rows: null,                 // the lines a filter keeps; null for all
    query: "", matches: [], match: -1,
    target: null,               // { file, first, last }: the lines the address names
    lastClicked: null,

    get total() { return this.data.files[this.file].lines; },
    get isVirtual() { return !this.isFolded || Boolean(this.rows); },
    /* rows of the virtual list, and which line a row is */
    get count() { return this.rows ? this.rows.length : this.total; },
    lineAt(index) { return this.rows ? this.rows[index] : index + 1; },
    /* the row of a line, or of the next one that is kept */
    indexOf(line) {
      if (!this.rows) return line - 1;
      let low = 0, high = this.rows.length;
      while (low < high) { const middle = (low + high) >> 1; if (this.rows[middle] < line) low = middle + 1; else high = middle; }
      return low;
    },
    anchorOf(line) { return several ? `F${this.file + 1}L${line}` : `L${line}`; },
    isTarget(line) { return Boolean(this.target) && this.target.file === this.file && this.target.first <= line && line <= this.target.last; },
    markOf(line) { return this.marks[this.file].get(line); },
  };
}
