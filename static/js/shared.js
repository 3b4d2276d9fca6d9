/* Counts that somebody, not a scanner, looks at a shared report: a POST from the page, once a session. */
(function () {
  "use strict";
  const form = document.querySelector("[data-seen]");
  if (form) fetch(form.action, { method: "POST", body: new FormData(form), credentials: "same-origin" }).catch(() => {});
})();
