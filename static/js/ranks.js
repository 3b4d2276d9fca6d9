/* Every rank, a column each: says which one is pointed at, what it has free, and how it differs from the most. */
(function () {
  "use strict";
  const part = document.querySelector("[data-ranks]"), data = document.getElementById("ranks-told");
  if (!part || !data) return;
  const { names, free, group, groups } = JSON.parse(data.textContent);
  const drawing = part.querySelector(".ranks__drawing"), told = part.querySelector("[data-ranks-told]"), cursor = part.querySelector(".ranks__cursor");
  const usual = free[group.indexOf(0)];
  let at = -1;
  const minus = (text) => text.replace("-", "−");

  function point(index) {
    at = Math.max(0, Math.min(names.length - 1, index));
    cursor.hidden = false;
    cursor.style.insetInlineStart = (at + 0.5) / names.length * 100 + "%";
    const name = document.createElement("b");
    name.textContent = names[at];
    const parts = [free[at] === null ? "free memory not known" : `${minus(free[at].toFixed(2))} GiB free`];
    if (group[at] === 0) parts.push(`as ${groups[0]} of ${names.length}`);
    else if (free[at] !== null && usual !== null) {
      const apart = free[at] - usual;
      parts.push(`${Math.abs(apart).toFixed(2)} ${apart < 0 ? "less" : "more"} than ${groups[0]} others`);
    }
    told.replaceChildren(name, ": " + parts.join(", "));
  }
  const indexOf = (event) => { const box = drawing.getBoundingClientRect(); return Math.floor((event.clientX - box.left) / box.width * names.length); };
  drawing.addEventListener("pointermove", (event) => point(indexOf(event)));
  drawing.addEventListener("pointerdown", (event) => point(indexOf(event)));
  drawing.addEventListener("keydown", (event) => {
    const odd = (step) => { for (let index = at + step; index >= 0 && index < names.length; index += step) if (group[index]) return index; return at; };
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: names.length - 1, PageDown: odd(1), PageUp: odd(-1) }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    point(to);
  });
})();
