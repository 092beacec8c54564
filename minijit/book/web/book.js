// The theme, the menu, the search, and keys. Pages are complete without it.
"use strict";

const root = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");
const kept = (() => { try { return localStorage.getItem("theme"); } catch { return null; } })();
if (kept) root.dataset.theme = kept;

const theme = () => root.dataset.theme || (dark.matches ? "dark" : "light");

let rows = null;      // the search index, once it is there
let waiting = [];     // what is to be done then

// search.js calls this: it is a script, for pages read from a disk may not fetch.
function found(index) {
  rows = index.map(([page, chapter, anchor, title, text]) =>
    ({ page, chapter, anchor, title, text, low: text.toLowerCase() }));
  waiting.splice(0).forEach((then) => then());
}

function withIndex(then) {
  if (rows) return then();
  waiting.push(then);
  if (waiting.length > 1) return;
  const script = document.createElement("script");
  script.src = root.dataset.start + "web/search.js";
  document.head.append(script);
}

function score(row, words) {
  let total = 0;
  for (const word of words) {
    const title = (row.title + " " + row.chapter).toLowerCase();
    const whole = new RegExp("(^|[^\\w])" + word.replace(/[^\w]/g, "\\$&") + "($|[^\\w])", "g");
    const uses = (row.low.match(whole) || []).length;
    const here = (title.includes(word) ? 20 : 0) + 3 * Math.min(uses, 6)
      + (row.low.includes(word) ? 1 : 0);
    if (!here) return 0;
    total += here;
  }
  return total;
}

function snippet(row, word) {
  const at = Math.max(row.low.indexOf(word), 0);
  const from = Math.max(at - 60, 0);
  const span = document.createElement("span");
  span.append((from ? "..." : "") + row.text.slice(from, at));
  const mark = document.createElement("mark");
  mark.textContent = row.text.slice(at, at + word.length);
  if (row.low.includes(word)) span.append(mark, row.text.slice(at + word.length, at + 100) + "...");
  return span;
}

function show(box, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  box.replaceChildren();
  box.hidden = !words.length;
  if (!words.length) return;
  const hits = rows.map((row) => [score(row, words), row]).filter(([n]) => n)
    .sort((a, b) => b[0] - a[0]).slice(0, 30);
  const count = document.createElement("p");
  count.setAttribute("role", "status");
  count.textContent = hits.length ? `${hits.length} sections` : `nothing has "${text}"`;
  box.append(count);
  for (const [, row] of hits) {
    const link = document.createElement("a");
    link.href = root.dataset.start + row.page + "#" + encodeURIComponent(row.anchor);
    const name = document.createElement("b");
    name.textContent = row.title === row.chapter ? row.title : `${row.chapter}: ${row.title}`;
    link.append(name, snippet(row, words[0]));
    link.addEventListener("click", () => { box.hidden = true; });
    box.append(link);
  }
}

document.addEventListener("DOMContentLoaded", () => {
  const button = document.getElementById("theme");
  const name = () => {
    button.textContent = theme() === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Use the ${button.textContent.toLowerCase()} theme`);
  };
  button.addEventListener("click", () => {
    root.dataset.theme = theme() === "dark" ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* none kept */ }
    name();
  });
  dark.addEventListener("change", name);
  name();

  const menu = document.getElementById("menu");
  const side = document.getElementById("side");
  if (menu) menu.addEventListener("click", () => {
    menu.setAttribute("aria-expanded", side.classList.toggle("open"));
  });
  const here = side && side.querySelector("[aria-current]");
  if (here) side.scrollTop = here.offsetTop - side.clientHeight / 3;

  const words = document.getElementById("words");
  const box = document.getElementById("found");
  const search = () => withIndex(() => show(box, words.value.trim()));
  words.addEventListener("input", search);
  words.addEventListener("focus", () => withIndex(() => {}));
  document.getElementById("find").addEventListener("submit", (event) => {
    event.preventDefault();
    search();
    const first = box.querySelector("a");
    if (first) first.focus();
  });
  document.addEventListener("keydown", (event) => {
    const typing = /INPUT|TEXTAREA/.test(document.activeElement.tagName);
    const keys = !typing && !event.ctrlKey && !event.metaKey && !event.altKey;
    if (event.key === "Escape") { box.hidden = true; }
    if (event.key === "/" && keys) {
      event.preventDefault();
      words.focus();
    }
    const way = { n: ".way .next a", p: ".way .back a" }[event.key];
    const link = keys && way && document.querySelector(way);
    if (link) link.click();
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && !box.hidden && (typing || box.contains(document.activeElement))) {
      event.preventDefault();
      const places = [words, ...box.querySelectorAll("a")];
      const at = places.indexOf(document.activeElement) + step;
      places[Math.min(Math.max(at, 0), places.length - 1)].focus();
    }
  });

  followSections();
  document.querySelectorAll(".cell > pre:first-of-type:not(.out)").forEach(copyButton);
  document.querySelectorAll("figure img").forEach((image) => {
    image.addEventListener("click", () => zoom(image));
  });
});

// The section that is read stands out among those beside the page.
function followSections() {
  const links = [...document.querySelectorAll(".here a")];
  const heads = links.map((link) =>
    document.getElementById(decodeURIComponent(link.hash.slice(1))));
  const mark = () => {
    const above = heads.filter((head) => head && head.getBoundingClientRect().top < 120);
    links.forEach((link, n) => {
      link.classList.toggle("now", above.length > 0 && heads[n] === above[above.length - 1]);
    });
  };
  addEventListener("scroll", mark, { passive: true });
  mark();
}

function copyButton(code) {
  const button = document.createElement("button");
  button.className = "copy";
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(code.innerText.trimEnd() + "\n");
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  code.parentElement.append(button);
}

// A picture in its full size: many a graph is wider than the text.
function zoom(image) {
  const dialog = document.createElement("dialog");
  const paper = image.closest("figure").classList.contains("paper");
  dialog.className = paper ? "zoom paper" : "zoom";
  const large = image.cloneNode();
  const scale = Math.max(1.5, (innerWidth - 60) / image.width);
  large.style.height = "auto";
  large.style.width = `${Math.min(scale * image.width, image.naturalWidth)}px`;
  dialog.append(large);
  dialog.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
