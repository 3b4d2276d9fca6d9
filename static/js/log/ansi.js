/* A log line as data: [{ text, kind }]. Knows colours and nothing else: every other escape (links, titles, cursor
   moves) is dropped, and no markup is ever made of a line. Whoever shows it makes text nodes. */

// CSI with its parameters and final letter; OSC and the other strings up to their end; any other two-letter escape
const ESCAPE = /\x1b(?:\[([0-9;:?<=>]{0,64})[ -/]{0,8}([@-~])|[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?|[ -~]?)/g;
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

/* A progress bar rewrites its line with carriage returns: what it showed last is what stays. */
function lastState(text) {
  if (!text.includes("\r")) return text;
  const states = text.split("\r").filter((state) => state.replace(ESCAPE, "").trim() !== "");
  return states.length ? states[states.length - 1] : "";
}

export function tokens(line) {
  const text = lastState(line), out = [];
  let colour = "", bold = false, at = 0;
  const put = (piece) => {
    const clean = piece.replace(CONTROL, "");
    if (clean) out.push({ text: clean, kind: [colour, bold ? "a-bold" : ""].filter(Boolean).join(" ") });
  };
  ESCAPE.lastIndex = 0;
  for (let match = ESCAPE.exec(text); match; match = ESCAPE.exec(text)) {
    put(text.slice(at, match.index));
    at = ESCAPE.lastIndex;
    if (match[2] !== "m") continue;
    const codes = match[1].split(/[;:]/).map(Number);
    for (let n = 0; n < codes.length; n++) {
      const code = codes[n];
      if (code === 0) { colour = ""; bold = false; }
      else if (code === 1) bold = true;
      else if (code === 22) bold = false;
      else if (code === 39) colour = "";
      else if (code >= 30 && code <= 37) colour = "a-" + COLOURS[code - 30];
      else if (code >= 90 && code <= 97) colour = "a-" + COLOURS[code - 90];
      else if (code === 38 || code === 48) n += codes[n + 1] === 5 ? 2 : 4;
    }
  }
  put(text.slice(at));
  return out;
}
