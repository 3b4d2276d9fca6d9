/* What would be hidden in a text, found in the browser with the list the server publishes. Nothing is sent. */
(function () {
  "use strict";
  const SLICE = 256 * 1024;
  const breathe = () => new Promise((resolve) => setTimeout(resolve));
  let list;

  /* The patterns, compiled; one that this browser cannot compile is left to the server. */
  function patterns() {
    list = list || fetch("/api/patterns.json").then((answer) => answer.json()).then((body) => body.patterns.flatMap((pattern) => {
      try {
        return [{ ...pattern, expression: new RegExp(pattern.regex, "gmu" + (pattern.ignore_case ? "i" : "")) }];
      } catch (unknown) { return []; }
    }));
    return list;
  }

  /* Pieces of about 256 KiB that end at a line end, with the number of their first line. */
  function* slices(text) {
    let from = 0, line = 1;
    while (from < text.length) {
      let to = Math.min(text.length, from + SLICE);
      if (to < text.length) { const end = text.lastIndexOf("\n", to); to = end > from ? end + 1 : to; }
      const piece = text.slice(from, to);
      yield { piece, line };
      for (let at = piece.indexOf("\n"); at >= 0; at = piece.indexOf("\n", at + 1)) line++;
      from = to;
    }
  }

  function mayMatch(pattern, lower) {
    const literals = pattern.literals || [];
    return !literals.length || literals.some((literal) => lower.includes(literal.toLowerCase()));
  }

  /* What stands for the value of one match: group "secret" where the pattern names one, else all of it. */
  function hidden(match) {
    return match.groups && match.groups.secret !== undefined ? match.groups.secret : match[0];
  }

  function shortened(value) {
    const shown = value.length > 12 ? value.slice(0, 3) + "…" + value.slice(-1) : value.slice(0, 2) + "…";
    return shown.replace(/\s+/g, " ");
  }

  /* Counts by kind: [{ kind, title, count, line, sample }], most important first. Stops when `isWanted` says so. */
  async function find(text, isWanted) {
    const known = await patterns(), found = new Map();
    for (const { piece, line } of slices(text)) {
      const lower = piece.toLowerCase(), taken = [];
      for (const pattern of known) {
        if (!mayMatch(pattern, lower)) continue;
        for (const match of piece.matchAll(pattern.expression)) {
          const start = match.index, end = start + match[0].length;
          if (!match[0] || taken.some((other) => start < other.end && end > other.start)) continue;
          taken.push({ start, end });
          const kind = pattern.kind;
          if (!found.has(kind)) {
            const before = piece.slice(0, start).split("\n").length - 1;
            found.set(kind, { kind, title: pattern.title || words(kind), count: 0, line: line + before, sample: shortened(hidden(match)) });
          }
          found.get(kind).count++;
        }
      }
      await breathe();
      if (!isWanted()) return [];
    }
    return [...found.values()];
  }

  function words(kind) {
    const text = kind.replace(/_/g, " ").replace(/\bip\b/, "IP").replace(/\bapi\b/, "API").replace(/\burl\b/, "URL");
    return text[0].toUpperCase() + text.slice(1);
  }

  window.kvRedaction = { find, patterns, slices };
})();
