// The bar of what can be done with ticked rows: it shows when there are any, and says how many.

import { t } from "./texts.js";

const bar = document.getElementById("ticked");
const compare = bar?.querySelector("[value=compare]");

function show() {
  const count = document.querySelectorAll("input[form=ticked]:checked").length;
  bar.hidden = count === 0;
  bar.querySelector("[role=status]").textContent = count === 1 ? t("1 job selected") : t("{n} jobs selected", { n: count });
  compare.disabled = count < 2 || count > 5;
}

if (bar) {
  show();
  document.addEventListener("change", show);
  document.body.addEventListener("htmx:afterSettle", show);
  window.addEventListener("pageshow", show);
}
