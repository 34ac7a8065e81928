"""The script of the reports: hover, filter, copy as Markdown; without it the page shows the same figures."""

SCRIPT = """
"use strict";
const hover = document.createElement("div");
hover.id = "hover";
hover.hidden = true;
document.body.append(hover);
for (const title of document.querySelectorAll(".tip > title")) {
  title.parentNode.dataset.tip = title.textContent;  // Shown by this script at once, on a touch too.
  title.parentNode.setAttribute("aria-label", title.textContent);
  title.remove();
}
function show(event) {
  const mark = event.target.closest && event.target.closest("[data-tip]");
  hover.hidden = !mark;
  if (!mark) return;
  hover.textContent = mark.dataset.tip;
  const width = document.documentElement.clientWidth;
  const left = Math.max(4, Math.min(event.clientX + 12, width - hover.offsetWidth - 4));
  hover.style.left = left + window.scrollX + "px";
  const below = event.clientY + 16 + hover.offsetHeight < window.innerHeight;
  hover.style.top = event.clientY + window.scrollY + (below ? 16 : -hover.offsetHeight - 10) + "px";
}
for (const kind of ["pointermove", "pointerdown"]) document.addEventListener(kind, show);

const text = (cell) => cell.textContent.trim();
function filter(frame, wanted) {
  const words = wanted.toLowerCase().split(/\\s+/).filter(Boolean);
  const rows = [...frame.querySelectorAll("tbody tr")];
  for (const row of rows) {
    const said = [...row.cells].map(text).join(" ").toLowerCase();
    row.hidden = !words.every((word) => said.includes(word));
    row.style.display = row.hidden ? "none" : "";
  }
  const seen = rows.filter((row) => !row.hidden).length;
  frame.querySelector(".count").textContent = seen < rows.length ? seen + " of " + rows.length + " rows" : "";
}
function markdown(table) {
  const line = (cells) => "| " + cells.map((cell) => text(cell).replace(/\\|/g, "\\\\|")).join(" | ") + " |";
  const head = [...table.tHead.rows[0].cells];
  const rows = [...table.tBodies[0].rows].filter((row) => !row.hidden);
  const rule = "| " + head.map((cell, at) => at && !cell.classList.contains("text") ? "--:" : ":--").join(" | ") + " |";
  return [line(head), rule, ...rows.map((row) => line([...row.cells]))].join("\\n") + "\\n";
}
async function copy(words) {
  try { await navigator.clipboard.writeText(words); } catch {
    const area = document.createElement("textarea");
    area.value = words;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
for (const frame of document.querySelectorAll(".frame")) {
  const table = frame.querySelector("table"), input = frame.querySelector("input");
  const button = frame.querySelector("button");
  frame.querySelector(".tools").hidden = false;
  if (input) input.addEventListener("input", () => filter(frame, input.value));
  button.addEventListener("click", async () => {
    const before = button.textContent;
    await copy(markdown(table));
    button.textContent = "copied";
    setTimeout(() => { button.textContent = before; }, 1500);
  });
}
"""
