/* The API's page: a token pasted into its field stands in the examples. It goes nowhere else. */
(function () {
  "use strict";
  const field = document.querySelector("[data-token]");
  if (!field) return;
  const asked = field.dataset.token, examples = Array.from(document.querySelectorAll("code[id]"));
  const texts = examples.map((code) => code.textContent);
  const fill = () => {
    const token = /^kvd_[\w-]+$/.test(field.value.trim()) ? field.value.trim() : asked;
    examples.forEach((code, place) => { code.textContent = texts[place].replaceAll(asked, token); });
  };
  field.addEventListener("input", fill);
  fill(); // a browser that comes back to the page keeps the field
})();
