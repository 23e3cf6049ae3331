"use strict";
// What makes pages handier; each of them works without.

// A job that goes on: its page is fetched again when its process tells something.
const follow = place => {
  const source = new EventSource(place.dataset.events);
  let waiting = false;
  const refresh = async () => {
    waiting = false;
    const answer = await fetch(location.href);
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("live");
    if (!fresh) return location.reload();
    place.replaceChildren(...fresh.childNodes);
    document.title = page.title;
  };
  const soon = () => {
    if (!waiting) setTimeout(refresh, 400);
    waiting = true;
  };
  source.addEventListener("message", soon);
  source.addEventListener("end", () => {
    source.close();
    soon();
  });
};
const live = document.querySelector("[data-events]");
if (live) follow(live);

// A choice is sent at once.
for (const field of document.querySelectorAll("[data-sends]"))
  field.addEventListener("change", () => field.form.requestSubmit());

// Fields without a value need not stand in the address.
for (const form of document.querySelectorAll("form[method=get]"))
  form.addEventListener("formdata", event => {
    for (const [name, value] of [...event.formData]) if (!value) event.formData.delete(name);
  });

for (const field of document.querySelectorAll("[data-selects]")) field.addEventListener("focus", () => field.select());

document.addEventListener("keydown", event => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key !== "/" || event.ctrlKey || event.metaKey || typing) return;
  const field = document.querySelector("[data-find]") ?? document.querySelector("input[type=search]");
  if (!field) return;
  event.preventDefault();
  field.focus();
});

// The name of the nearest point under the mouse.
const plot = document.querySelector("#along svg");
if (plot) {
  const said = document.querySelector("#along .hint");
  const usual = said?.textContent;
  plot.addEventListener("mousemove", event => {
    const box = plot.getBoundingClientRect();
    const [x, y] = [event.clientX - box.x, event.clientY - box.y];
    let best = null, least = 24 * 24;
    for (const point of plot.querySelectorAll(".point")) {
      const far = (point.cx.baseVal.value - x) ** 2 + (point.cy.baseVal.value - y) ** 2;
      if (far <= least) [best, least] = [point, far];
    }
    plot.querySelector(".near")?.classList.remove("near");
    best?.classList.add("near");
    if (said) said.textContent = best ? best.querySelector("title").textContent : usual;
  });
  plot.addEventListener("mouseleave", () => {
    plot.querySelector(".near")?.classList.remove("near");
    if (said) said.textContent = usual;
  });
}
