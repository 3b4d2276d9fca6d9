/* The report page: walking findings and errors, the side list, open details for print and anchors. */
(function () {
  "use strict";
  const { $, $$, keys } = window.kvdiag;

  /* ---- n and p walk the findings ----------------------------------------------------------- */

  const findings = $$(".finding");
  function walk(step) {
    if (!findings.length) return false;
    const current = document.activeElement && document.activeElement.closest(".finding");
    const at = findings.indexOf(current);
    const next = findings[at === -1 ? (step > 0 ? 0 : findings.length - 1) : (at + step + findings.length) % findings.length];
    next.open = true;
    $("summary", next).focus({ preventScroll: true });
    next.scrollIntoView({ block: "start" });
    return true;
  }
  keys.set("n", () => walk(1));
  keys.set("p", () => walk(-1));

  /* ---- ? shows the keys ---------------------------------------------------------------------- */

  const help = $("#keys-help");
  keys.set("?", () => (help ? (help.showModal(), true) : false));

  /* ---- anchors open what they point into --------------------------------------------------------- */

  function openTarget() {
    let target = null;
    try { target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1))); } catch (bad) { return; }
    for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
  }
  addEventListener("hashchange", openTarget);
  openTarget();

  /* ---- a clicked segment: its line in the log, and the finding that rests on it ------------------------- */

  document.addEventListener("kvdiag:line", (event) => {
    const link = findings.map((finding) => $(`.lines a[href="#${event.detail}"]`, finding)).find(Boolean);
    if (link) link.closest(".finding").open = true;
    location.hash = event.detail;
  });

  /* ---- the side list follows the reader --------------------------------------------------------------- */

  const links = $$(".side li a"), targets = links.map((link) => document.getElementById(link.hash.slice(1))).filter(Boolean);
  if (targets.length && "IntersectionObserver" in window) {
    const visible = new Set();
    const isAtEnd = () => scrollY + innerHeight >= document.documentElement.scrollHeight - 2 && scrollY > 0;
    function mark() {
      // the last sections are too short to come to the top: at the page's end the last one counts
      const current = isAtEnd() ? targets[targets.length - 1] : targets.find((target) => visible.has(target));
      if (!current) return;
      links.forEach((link) => (link.hash === "#" + current.id ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
    }
    const watch = new IntersectionObserver((entries) => {
      entries.forEach((entry) => (entry.isIntersecting ? visible.add(entry.target) : visible.delete(entry.target)));
      mark();
    }, { rootMargin: "-64px 0px -55% 0px" });
    targets.forEach((target) => watch.observe(target));
    let wasAtEnd = false;
    addEventListener("scroll", () => { if (isAtEnd() !== wasAtEnd) { wasAtEnd = !wasAtEnd; mark(); } }, { passive: true });
  }

  /* ---- paper shows everything --------------------------------------------------------------------------- */

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = $$("details:not([open])").filter((part) => part.matches(".finding, .fold"));
    closed.forEach((part) => { part.open = true; });
  });
  addEventListener("afterprint", () => { closed.forEach((part) => { part.open = false; }); closed = []; });
})();
