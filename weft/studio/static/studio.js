// Interactive parts of the studio. Every page works without them.
"use strict";

const EVERY = 700;

function each(root, selector, act) { root.querySelectorAll(selector).forEach(act); }

async function follow(box) {
  while (box.isConnected) {
    await new Promise((wake) => setTimeout(wake, EVERY));
    let part;
    try { part = await fetch(box.dataset.poll, { credentials: "same-origin" }); } catch { continue; }
    if (!part.ok) continue;
    const shown = document.createElement("template");
    shown.innerHTML = await part.text();
    const state = shown.content.querySelector("[data-state]");
    if (state && state.dataset.state !== "running") { location.reload(); return; }
    if (!state) continue;
    const fresh = state.querySelectorAll("[data-live]"); // buttons and open details stay as they are
    each(box, "[data-live]", (part, i) => { if (fresh[i] && part.innerHTML !== fresh[i].innerHTML) part.innerHTML = fresh[i].innerHTML; });
  }
}

function kinds(column) {
  const choose = column.querySelector("select");
  const show = () => each(column, "[data-for]", (field) => { field.hidden = !field.dataset.for.split(" ").includes(choose.value); });
  choose.addEventListener("change", show);
  show();
}

function fill(part) { // the form of a column is loaded when its details are opened
  const details = part.closest("details");
  const load = async () => {
    if (!details.open || !part.isConnected) return;
    try {
      const got = await fetch(part.dataset.part, { credentials: "same-origin" });
      if (!got.ok || !part.isConnected) return;
      const shown = document.createElement("template");
      shown.innerHTML = await got.text();
      ready(shown.content);
      part.replaceWith(shown.content);
    } catch { /* its link remains */ }
  };
  details.addEventListener("toggle", load);
  load();
}

function number(value) { return Number(value.toPrecision(2)); }

function meaning(epsilon) {
  const right = Math.ceil(1000 / (1 + Math.exp(-epsilon))) / 10; // bounds are rounded up
  const told = right > 99.9 ? "practically all" : `at most ${right.toFixed(1)}% of`;
  return `An attacker who knows everyone else, and thinks it equally likely that a person is in the table or not, decides correctly in ${told} cases after seeing the result.`;
}

function budget(form) {
  const field = form.elements.epsilon, slider = form.querySelector("#slider"), said = form.querySelector("#epsilon-said");
  slider.hidden = false;
  const tell = () => {
    const epsilon = Number(field.value);
    if (!(epsilon > 0)) return;
    said.textContent = field.value;
    each(document, "[data-epsilon-said]", (place) => { place.textContent = field.value; });
    document.getElementById("meaning").textContent = meaning(epsilon);
    slider.setAttribute("aria-valuetext", `epsilon ${field.value}`);
    each(document, "[data-curve]", (box) => draw(box, epsilon));
  };
  slider.value = Math.log10(Number(field.value));
  slider.addEventListener("input", () => { field.value = number(10 ** Number(slider.value)); tell(); });
  field.addEventListener("input", () => { slider.value = Math.log10(Number(field.value)); tell(); });
  tell();
}

function svg(name, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function between(points, epsilon, key) {
  const x = Math.log(epsilon);
  for (let i = 1; i < points.length; i += 1) {
    const [a, b] = [points[i - 1], points[i]];
    if (epsilon <= b.epsilon || i === points.length - 1) {
      const [u, v] = [Math.log(a.epsilon), Math.log(b.epsilon)];
      const part = Math.min(Math.max((x - u) / (v - u), 0), 1);
      return Math.exp(Math.log(a[key]) + part * (Math.log(b[key]) - Math.log(a[key])));
    }
  }
  return points[0][key];
}

function draw(box, epsilon) {
  const points = JSON.parse(box.dataset.curve);
  if (!points.length) return;
  const width = Math.min(Math.max(box.clientWidth, 280), 640); // keeps the text size on a phone
  const [height, left, bottom] = [260, 56, 34];
  const ends = [points[0].epsilon, points[points.length - 1].epsilon].map(Math.log);
  const top = Math.max(...points.map((p) => Math.max(p.columns, p.pairs))) * 1.1;
  const x = (value) => left + (width - left - 12) * (Math.log(value) - ends[0]) / (ends[1] - ends[0]);
  const y = (value) => (height - bottom) * (1 - value / top) + 8;
  const page = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Expected error by budget" });
  for (const share of [0, 0.5, 1]) {
    page.append(svg("line", { class: "axis", x1: left, x2: width - 12, y1: y(top * share), y2: y(top * share) }));
    page.append(svg("text", { x: left - 6, y: y(top * share) + 4, "text-anchor": "end" }, `${(100 * top * share).toPrecision(2)}%`));
  }
  for (const p of points) page.append(svg("text", { x: x(p.epsilon), y: height - 8, "text-anchor": "middle" }, String(number(p.epsilon))));
  for (const key of ["columns", "pairs"]) {
    page.append(svg("path", { class: key, d: points.map((p, i) => `${i ? "L" : "M"}${x(p.epsilon)} ${y(p[key])}`).join("") }));
    const last = points[0];
    page.append(svg("text", { x: x(last.epsilon) + 8, y: y(last[key]) - 6 }, key === "columns" ? "single columns" : "pairs of columns"));
  }
  const here = Math.min(Math.max(epsilon, points[0].epsilon), points[points.length - 1].epsilon);
  page.append(svg("line", { class: "here", x1: x(here), x2: x(here), y1: 8, y2: height - bottom + 8 }));
  const errors = {};
  for (const key of ["columns", "pairs"]) {
    errors[key] = between(points, here, key);
    page.append(svg("circle", { class: `dot-${key}`, cx: x(here), cy: y(errors[key]), r: 5 }));
  }
  box.replaceChildren(page);
  const said = document.getElementById("buys-said");
  if (said) {
    const tell = (share) => `${(100 * share).toPrecision(2)}%`;
    const off = here === epsilon ? "" : ` (the forecast covers ${number(points[0].epsilon)} to ${number(points[points.length - 1].epsilon)})`;
    said.textContent = `At epsilon ${number(here)}${off}, the expected error is about ${tell(errors.columns)} of the rows for single columns and ${tell(errors.pairs)} for pairs of columns.`;
  }
}

function drop(form) {
  const field = form.elements.file;
  for (const kind of ["dragover", "dragenter"]) form.addEventListener(kind, (event) => { event.preventDefault(); form.classList.add("over"); });
  for (const kind of ["dragleave", "drop"]) form.addEventListener(kind, () => form.classList.remove("over"));
  form.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length) { field.files = event.dataTransfer.files; form.requestSubmit(); }
  });
}

function busy(form, event) {
  const button = event.submitter;
  if (event.defaultPrevented || !button || !button.dataset.busy) return;
  setTimeout(() => { button.disabled = true; button.textContent = button.dataset.busy; }, 0); // after the form is submitted
}

async function into(form, event) {
  event.preventDefault();
  const box = document.getElementById(form.dataset.into), button = form.querySelector("button");
  button.disabled = true;
  box.textContent = "Counting ...";
  try {
    const part = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)), credentials: "same-origin" });
    const shown = document.createElement("template");
    shown.innerHTML = await part.text();
    box.replaceChildren(shown.content);
    ready(box);
  } catch {
    box.textContent = "The studio does not respond. Check that it is still running in its terminal.";
  } finally { button.disabled = false; }
}

function ready(root) {
  each(root, "[data-poll]", follow);
  each(root, "[data-kinds]", kinds);
  each(root, "[data-part]", fill);
  each(root, "[data-budget]", budget);
  each(root, "[data-drop]", drop);
  each(root, "[data-copy]", (button) => button.addEventListener("click", async () => {
    const text = button.parentElement.querySelector("code").textContent;
    try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; } catch { button.textContent = "Select and copy it by hand"; }
  }));
  each(root, "[data-fill]", (button) => button.addEventListener("click", () => { const field = button.form.elements.rule; field.value = button.dataset.fill; field.focus(); }));
  each(root, "[data-into]", (form) => form.addEventListener("submit", (event) => into(form, event)));
  each(root, "[data-confirm]", (form) => form.addEventListener("submit", (event) => { if (!confirm(form.dataset.confirm)) event.preventDefault(); }));
  each(root, "form", (form) => form.addEventListener("submit", (event) => busy(form, event)));
  each(root, "[data-here]", (place) => { place.scrollIntoView(); place.focus({ preventScroll: true }); });
}

addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); }); // resets a busy button after going back

ready(document);
each(document, ".column:target:has(.tag.read)", (column) => { column.open = true; }); // it contains facts to review
