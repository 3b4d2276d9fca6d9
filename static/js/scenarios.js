/* The what-if panel keeps its scenario in the page's address; keeping it for good sends what stands there. */
(function () {
  "use strict";
  const form = document.querySelector("[data-keep-scenario]");
  if (form) form.addEventListener("submit", () => { form.elements.scenario.value = location.search; });
})();
