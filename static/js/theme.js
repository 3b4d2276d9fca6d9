/* The chosen colour scheme, set before the first paint. Without a choice the system's own holds. */
(function () {
  "use strict";
  const root = document.documentElement;
  root.classList.add("js");
  try {
    const chosen = localStorage.getItem("kvdiag-theme");
    if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  } catch (refused) { /* storage is off: the system's scheme it is */ }
})();
