"""The script of the reports: hover, filter, copy as Markdown, save charts; without it a page has the same figures."""

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
for (const mark of document.querySelectorAll(".mark[title]")) {
  mark.dataset.tip = mark.title;
  mark.setAttribute("aria-label", mark.textContent + ": " + mark.title);
  mark.removeAttribute("title");
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

function picture(svg) {  // A file of its own: with its colours, its background, and all that it shows.
  const copy = svg.cloneNode(true), seen = svg.getBBox(), view = svg.viewBox.baseVal;
  const left = Math.min(0, seen.x - 4), top = Math.min(0, seen.y - 4);
  const width = Math.max(view.width, seen.x + seen.width + 4) - left;
  const height = Math.max(view.height, seen.y + seen.height + 4) - top;
  for (const [name, value] of Object.entries({ viewBox: [left, top, width, height].join(" "), width, height })) {
    copy.setAttribute(name, value);
  }
  copy.setAttribute("style", "font-family: system-ui, sans-serif");
  for (const mark of copy.querySelectorAll("[data-tip]")) {
    const title = document.createElementNS(svg.namespaceURI, "title");
    title.textContent = mark.dataset.tip;
    mark.prepend(title);
  }
  const page = document.createElementNS(svg.namespaceURI, "rect");
  for (const [name, value] of Object.entries({ x: left, y: top, width, height, fill: "var(--page)" })) {
    page.setAttribute(name, value);
  }
  copy.prepend(page);
  const style = getComputedStyle(document.documentElement);
  const text = new XMLSerializer().serializeToString(copy);
  const colored = text.replace(/var\\((--[a-z0-9-]+)\\)/g, (_, name) => style.getPropertyValue(name).trim());
  return { text: colored, width, height };
}
function download(blob, name) {
  const link = document.createElement("a");
  link.download = name;
  link.href = URL.createObjectURL(blob);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
function save(svg, kind) {
  const { text, width, height } = picture(svg);
  const name = svg.getAttribute("aria-label").replace(/[^a-zA-Z0-9.]+/g, "-").slice(0, 80) + "." + kind;
  if (kind === "svg") return download(new Blob([text], { type: "image/svg+xml" }), name);
  const image = new Image(), canvas = document.createElement("canvas");
  canvas.width = Math.ceil(width * 3);
  canvas.height = Math.ceil(height * 3);
  image.onload = () => {
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => download(blob, name), "image/png");
  };
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
}
for (const tools of document.querySelectorAll(".save")) {
  tools.hidden = false;
  const svg = tools.parentNode.querySelector("svg");
  for (const button of tools.children) button.addEventListener("click", () => save(svg, button.dataset.save));
}
"""
