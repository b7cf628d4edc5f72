// Texts in the viewer's language: English is the key, the page brings the translations.

let catalogue = null;

function known() {
  if (catalogue === null) {
    const holder = document.getElementById("ff-texts");
    catalogue = holder ? JSON.parse(holder.textContent) : {};
  }
  return catalogue;
}

/** Return `text` in the viewer's language, with `values` at its {names}. */
export function t(text, values = {}) {
  const translated = known()[text] ?? text;
  return translated.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}
