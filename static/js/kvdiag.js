/* Small behaviours that every page may use, bound by data-* attributes. Pages read without them. */
(function () {
  "use strict";
  const $ = (selector, root) => (root || document).querySelector(selector);
  const $$ = (selector, root) => Array.from((root || document).querySelectorAll(selector));

  /* ---- one polite voice: toasts and announcements --------------------------------------- */

  let region;
  function say(text) {
    if (!region) {
      region = document.createElement("div");
      region.className = "vh";
      region.setAttribute("role", "status");
      document.body.append(region);
    }
    region.textContent = text;
  }
  function toast(text) {
    const note = document.createElement("div");
    note.className = "toast";
    note.textContent = text;
    document.body.append(note);
    setTimeout(() => note.remove(), 1600);
    say(text);
  }

  /* ---- copy: data-copy names the element, data-copy-text holds the text itself --------------- */

  function copy(text) {
    const refused = () => toast("The browser refused. Select the text and copy it by hand");
    (navigator.clipboard ? navigator.clipboard.writeText(text) : Promise.reject()).then(() => toast("Copied"), refused);
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy], [data-copy-text], [data-copy-link]");
    if (!button) return;
    if (button.dataset.copyText !== undefined) return copy(button.dataset.copyText);
    if (button.dataset.copyLink !== undefined) return copy(new URL(button.dataset.copyLink || location.href, location.href).href);
    copy(document.getElementById(button.dataset.copy).textContent.trim());
  });

  /* ---- light and dark ------------------------------------------------------------------------ */

  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const announceTheme = () => document.dispatchEvent(new CustomEvent("kvdiag:theme"));
  $$("[data-theme-switch]").forEach((button) => {
    const mark = () => button.setAttribute("aria-pressed", isDark());
    mark();
    button.addEventListener("click", () => {
      const theme = isDark() ? "light" : "dark";
      document.documentElement.dataset.theme = theme;
      try { localStorage.setItem("kvdiag-theme", theme); } catch (refused) { /* kept for this page only */ }
      mark();
      announceTheme();
    });
  });
  system.addEventListener("change", announceTheme);

  /* ---- keys --------------------------------------------------------------------------------- */

  const typing = (event) => event.target.closest("input, textarea, select, [contenteditable]") || event.metaKey || event.ctrlKey || event.altKey;
  const keys = new Map();
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || typing(event) || document.querySelector("dialog[open]")) return;
    const act = keys.get(event.key);
    if (act && act(event) !== false) event.preventDefault();
  });

  /* ---- menus close on Escape and on a click elsewhere -------------------------------------------- */

  const menus = () => $$("details.menu[open], details.navmenu[open]");
  document.addEventListener("click", (event) => menus().forEach((menu) => { if (!menu.contains(event.target)) menu.open = false; }));
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    menus().forEach((menu) => { menu.open = false; $("summary", menu).focus(); });
  });

  /* ---- dialogs: data-dialog opens, forms with method=dialog close ----------------------------------- */

  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-dialog]");
    if (opener) document.getElementById(opener.dataset.dialog).showModal();
    if (event.target.matches("dialog")) event.target.close();
  });

  /* ---- filters: data-filter names a container whose [data-words] rows are kept or hidden ---------------- */

  $$("[data-filter]").forEach((input) => {
    const container = document.getElementById(input.dataset.filter);
    const rows = $$("[data-words]", container), none = $("[data-none]", container);
    const run = () => {
      const wanted = input.value.trim().toLowerCase();
      let kept = 0;
      rows.forEach((row) => { row.hidden = wanted !== "" && !row.dataset.words.toLowerCase().includes(wanted); kept += !row.hidden; });
      if (none) none.hidden = kept > 0;
      // a match inside a folded part must be seen
      if (wanted) $$("details", container).forEach((part) => { if ($("[data-words]:not([hidden])", part)) part.open = true; });
    };
    input.addEventListener("input", run);
    if (input.value) run();
  });

  const search = $("#topq");
  if (search) keys.set("/", () => search.focus());

  window.kvdiag = { $, $$, say, toast, copy, keys, isDark };
})();
