/* Hides in the browser what must not leave it, with the list of patterns that the server uses and publishes. */
(function () {
  "use strict";
  const SLICE = 64 * 1024;
  const BEGIN_KEY = /-----BEGIN [A-Z ]{0,24}PRIVATE KEY(?: BLOCK)?-----/, END_KEY = "-----END ", KEY_LINES = 400;
  const KEY_BODY = /[A-Za-z0-9+/]{16}|Proc-Type:|DEK-Info:|Comment:|Version:/;
  const MASKED = /^["']?\[(?:\d+ characters|[a-z_]{3,20})(?:\]['",;:)}\]]*)?$/;
  const QUOTED_REST = { "'": /^(\s{0,8})([^\s"']{1,200})(?=')/, '"': /^(\s{0,8})([^\s"']{1,200})(?=")/ };
  const BLANK_LINES = 2; /* between a name and its value */
  const breathe = () => new Promise((resolve) => setTimeout(resolve));
  let list;

  /* The patterns, compiled; one that this browser cannot compile is left to the server. */
  function patterns() {
    list = list || fetch("/api/patterns.json").then((answer) => answer.json()).then((body) => body.patterns.flatMap((pattern) => {
      try {
        return [{ ...pattern, search: new RegExp(pattern.expression, pattern.flags), behind: pattern.after ? new RegExp(pattern.after) : null, kept: pattern.keep ? new RegExp(`^(?:${pattern.keep})$`) : null }];
      } catch (unknown) { return []; }
    }));
    return list;
  }

  /* Hides the lines of one upload after another; pseudonyms stay the same throughout. found: kind → what to show of it. */
  class Masker {
    constructor(known) {
      this.known = known; this.names = new Map(); this.found = new Map(); this.line = 0;
      this.keyLines = 0; this.expected = []; this.open = null; this.blank = 0;
    }

    /* `some` are the patterns that may match in this part of the text. What goes on from line to line is hidden too:
       a private key, a value on the line behind its name, the rest of a quoted value that was broken. */
    mask(text, some) {
      this.line++;
      if (this.keyLines) {
        const ends = text.includes(END_KEY) || this.keyLines > KEY_LINES || (text.trim().split(/\s+/).length > 2 && !KEY_BODY.test(text));
        if (!ends) { this.keyLines++; return text.trim() ? "[private_key]" : text; }
        this.keyLines = 0;
        text = text.slice(Math.max(0, text.indexOf(END_KEY)));
      }
      const key = text.includes("PRIVATE KEY") && BEGIN_KEY.exec(text);
      if (key && !text.slice(key.index + key[0].length).includes(END_KEY)) {
        this.keyLines = 1; this.expected = []; this.open = null;
        this.count("private_key", key[0], "[private_key]");
        text = text.slice(0, key.index + key[0].length);
      }
      if (!text.trim()) {
        if (++this.blank > BLANK_LINES) { this.expected = []; this.open = null; }
        return text;
      }
      const raw = text, lower = raw.toLowerCase(), { expected, open } = this;
      const named = (pattern) => !pattern.literals.length || pattern.literals.some((literal) => lower.includes(literal));
      this.expected = []; this.open = null; this.blank = 0;
      const rest = open && QUOTED_REST[open.quote].exec(text);
      if (rest && !MASKED.test(rest[2])) text = rest[1] + this.instead(open.pattern.replacement, rest[2]) + text.slice(rest[0].length);
      for (const pattern of expected) {
        const before = text;
        text = this.hide(text, pattern);
        if (text !== before) break;
      }
      for (const pattern of some) if (!pattern.behind && named(pattern)) text = this.hide(text, pattern);
      this.expected = some.filter((pattern) => pattern.behind && named(pattern) && pattern.behind.test(raw));
      return text;
    }

    hide(text, pattern) {
      return text.replace(pattern.search, (all, stays, hidden, at) => {
        const last = stays.slice(-1);
        if (QUOTED_REST[last] && at + all.length === text.length) this.open = { quote: last, pattern };
        if (MASKED.test(hidden) || (pattern.kept && pattern.kept.test(hidden.toLowerCase()))) return all;
        const instead = this.instead(pattern.replacement, hidden);
        this.count(pattern.kind, hidden, instead);
        return stays + instead;
      });
    }

    instead(form, value) {
      if (!form.includes("{n}")) return form.replace("{length}", String(value.length));
      if (!this.names.has(form)) this.names.set(form, new Map());
      const names = this.names.get(form);
      if (!names.has(value)) {
        const n = names.size;
        names.set(value, form.replace("{n}", /^(addr|mail|mac)/.test(form) ? String(n + 1) : letters(n)));
      }
      return names.get(value);
    }

    count(kind, hidden, instead) {
      const known = this.found.get(kind);
      if (known) known.count++;
      else this.found.set(kind, { kind, title: title(kind), count: 1, line: this.line, sample: shortened(hidden), instead });
    }
  }

  /* a … z, aa … zz, aaa … */
  function letters(number) {
    let found = "";
    for (let n = number + 1; n; n = Math.floor((n - 1) / 26)) found = String.fromCharCode(97 + (n - 1) % 26) + found;
    return found;
  }

  const TITLES = { api_key: "API key", env_secret: "Secret in the environment", hf_token: "Hugging Face token", jwt: "Web token", url_credentials: "Credentials in an address", url_secret: "Secret in an address", ip_address: "Address", gcp_key: "Google key", aws_key: "AWS key" };
  function title(kind) {
    const words = kind.replace(/_/g, " ");
    return TITLES[kind] || words[0].toUpperCase() + words.slice(1);
  }

  /* Enough of a value to know it again, not enough to use it. */
  function shortened(value) {
    const quiet = value.replace(/\s+/g, " ");
    return quiet.length > 24 ? quiet.slice(0, 4) + "…" : quiet.slice(0, Math.min(3, Math.ceil(quiet.length / 3))) + "…";
  }

  /* The text with everything hidden, in slices that leave the page time to answer; null when no longer wanted. */
  async function hide(text, masker, isWanted) {
    const out = [];
    for (let from = 0; from < text.length;) {
      let to = Math.min(text.length, from + SLICE);
      if (to < text.length) { const end = text.indexOf("\n", to); to = end < 0 ? text.length : end + 1; }
      const piece = text.slice(from, to), lower = piece.toLowerCase();
      const some = masker.known.filter((pattern) => !pattern.literals.length || pattern.literals.some((literal) => lower.includes(literal)));
      const lines = piece.split("\n"), last = lines.pop();
      out.push(lines.map((line) => masker.mask(line, some) + "\n").join(""), last ? masker.mask(last, some) : "");
      from = to;
      await breathe();
      if (!isWanted()) return null;
    }
    return out.join("");
  }

  window.kvRedaction = { hide, masker: async () => new Masker(await patterns()) };
})();
