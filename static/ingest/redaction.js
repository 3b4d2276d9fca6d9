/* Hides in the browser what must not leave it, with the list of patterns that the server uses and publishes. */
(function () {
  "use strict";
  const SLICE = 64 * 1024;
  const BEGIN_KEY = /-----BEGIN [A-Z ]{0,24}PRIVATE KEY-----/, END_KEY = "-----END ";
  const MASKED = /^\[(?:\d+ characters|[a-z_]{3,20})\]?/;
  const breathe = () => new Promise((resolve) => setTimeout(resolve));
  let list;

  /* The patterns, compiled; one that this browser cannot compile is left to the server. */
  function patterns() {
    list = list || fetch("/api/patterns.json").then((answer) => answer.json()).then((body) => body.patterns.flatMap((pattern) => {
      try {
        return [{ ...pattern, search: new RegExp(pattern.expression, pattern.flags), kept: pattern.keep ? new RegExp(`^(?:${pattern.keep})$`) : null }];
      } catch (unknown) { return []; }
    }));
    return list;
  }

  /* Hides the lines of one upload after another; pseudonyms stay the same throughout. found: kind → what to show of it. */
  class Masker {
    constructor(known) { this.known = known; this.names = new Map(); this.found = new Map(); this.inKey = false; this.line = 0; }

    /* `some` are the patterns that may match in this part of the text. */
    mask(text, some) {
      this.line++;
      if (this.inKey) {
        if (!text.includes(END_KEY)) return text.trim() ? "[private_key]" : text;
        this.inKey = false;
        return text.slice(text.indexOf(END_KEY));
      }
      const key = text.includes("PRIVATE KEY") && BEGIN_KEY.exec(text);
      if (key && !text.slice(key.index + key[0].length).includes(END_KEY)) {
        this.inKey = true;
        this.count("private_key", key[0], "[private_key]");
        text = text.slice(0, key.index + key[0].length);
      }
      const lower = text.toLowerCase();
      for (const pattern of some) {
        if (pattern.literals.length && !pattern.literals.some((literal) => lower.includes(literal))) continue;
        text = text.replace(pattern.search, (all, stays, hidden) => {
          if (MASKED.test(hidden) || (pattern.kept && pattern.kept.test(hidden.toLowerCase()))) return all;
          const instead = this.instead(pattern.replacement, hidden);
          this.count(pattern.kind, hidden, instead);
          return stays + instead;
        });
      }
      return text;
    }

    instead(form, value) {
      if (!form.includes("{n}")) return form.replace("{length}", String(value.length));
      if (!this.names.has(form)) this.names.set(form, new Map());
      const names = this.names.get(form), letter = (n) => String.fromCharCode(n);
      if (!names.has(value)) {
        const n = names.size, letters = n < 26 ? letter(97 + n) : letter(96 + Math.floor(n / 26) % 26) + letter(97 + n % 26);
        names.set(value, form.replace("{n}", /^(addr|mail)/.test(form) ? String(n + 1) : letters));
      }
      return names.get(value);
    }

    count(kind, hidden, instead) {
      const known = this.found.get(kind);
      if (known) known.count++;
      else this.found.set(kind, { kind, title: title(kind), count: 1, line: this.line, sample: shortened(hidden), instead });
    }
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
