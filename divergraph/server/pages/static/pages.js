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

// The plot: the name of the point under the mouse, and a limit that moves with its counts.
const plot = document.querySelector("#along svg");
if (plot) {
  const near = document.querySelector("[data-near]");
  // Where the page is narrower than the plot, the first origin is what is to be seen of it.
  const room = plot.parentElement, origin = plot.querySelector("[data-state=origin]");
  if (origin) room.scrollLeft = origin.getBoundingClientRect().x - room.getBoundingClientRect().x - room.clientWidth / 2;
  plot.addEventListener("mousemove", event => {
    const best = nearestPoint(plot, ...inPicture(plot, event));
    plot.querySelector(".near")?.classList.remove("near");
    best?.classList.add("near");
    near.textContent = best ? best.querySelector("title").textContent : "";
  });
  plot.addEventListener("mouseleave", () => {
    plot.querySelector(".near")?.classList.remove("near");
    near.textContent = "";
  });

  const values = plot.dataset.values.split(",").map(part => part.split("*").map(Number)), lower = plot.dataset.lower === "1";
  const countOf = pairs => pairs.reduce((sum, [, count]) => sum + count, 0);
  const field = document.querySelector("#along [name=limit]"), count = document.querySelector("[data-beyond]");
  const move = limit => {
    showLimit(plot, limit);
    const beyond = countOf(values.filter(([value]) => isWorse(value, limit, lower))), number = new Intl.NumberFormat("en");
    const link = count.querySelector("a"), to = new URL(link.href);
    to.searchParams.set("where", `${link.dataset.where} ${link.dataset.metric}${lower ? "<" : ">"}${limit}`.trim());
    link.href = to;
    link.textContent = `${number.format(beyond)} of ${number.format(countOf(values))} ops`;
    count.querySelector("span").textContent = String(limit);
    count.hidden = false;
  };
  dragLimit(plot, limit => {
    field.value = limit;
    move(limit);
  });
  field.addEventListener("input", () => {
    if (field.value.trim() && Number.isFinite(Number(field.value))) move(Number(field.value));
  });
}
