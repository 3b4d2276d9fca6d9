/* Asks before what cannot be undone: a button's data-confirm holds the question. */
(function () {
  "use strict";
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-confirm]");
    if (button && !window.confirm(button.dataset.confirm)) event.preventDefault();
  });
})();
