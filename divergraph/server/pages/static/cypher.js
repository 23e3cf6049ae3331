"use strict";
// Words of the schema for what is typed: offered behind a colon or point and with Ctrl+Space.

const MOST = 2000; // letters before the cursor that decide

for (const field of document.querySelectorAll("textarea[data-words]")) {
  const list = document.createElement("ul");
  Object.assign(list, {id: "words", hidden: true, className: "graph-hits"});
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Words of the schema");
  field.after(list);
  field.setAttribute("aria-autocomplete", "list");
  field.setAttribute("aria-controls", list.id);
  let chosen = 0, word = "", turn = 0;

  const close = () => {
    turn++;
    list.hidden = true;
    field.removeAttribute("aria-activedescendant");
  };
  const choose = number => {
    const entries = [...list.children];
    chosen = (number + entries.length) % entries.length;
    entries.forEach((entry, place) => entry.setAttribute("aria-selected", place === chosen));
    entries[chosen].scrollIntoView({block: "nearest"});
    field.setAttribute("aria-activedescendant", entries[chosen].id);
  };
  const take = number => {
    const end = field.selectionStart;
    field.setRangeText(list.children[number].textContent, end - word.length, end, "end");
    close();
  };
  const option = (text, place) => {
    const entry = document.createElement("li");
    Object.assign(entry, {id: `word-${place}`, textContent: text});
    entry.setAttribute("role", "option");
    entry.addEventListener("mousedown", event => {
      event.preventDefault(); // the cursor stays in the text
      take(place);
    });
    return entry;
  };
  const offer = async () => {
    const mine = ++turn;
    const before = field.value.slice(0, field.selectionStart).slice(-MOST);
    const answer = await fetch(`${field.dataset.words}?${new URLSearchParams({before})}`);
    if (mine !== turn || !answer.ok) return;
    const offered = await answer.json();
    if (mine !== turn) return;
    word = offered.word;
    const words = offered.words.filter(each => each !== word);
    if (!words.length) return close();
    list.replaceChildren(...words.map(option));
    list.hidden = false;
    choose(0);
  };

  field.addEventListener("input", event => {
    const goesOn = !list.hidden && (/^\w$/.test(event.data ?? "") || event.inputType === "deleteContentBackward");
    if (goesOn || /^[:.$]$/.test(event.data ?? "")) offer();
    else close();
  });
  field.addEventListener("blur", close);
  field.addEventListener("keydown", event => {
    if (event.key === " " && event.ctrlKey) offer();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) field.form.requestSubmit();
    else if (list.hidden) return;
    else if (event.key === "ArrowDown") choose(chosen + 1);
    else if (event.key === "ArrowUp") choose(chosen - 1);
    else if (event.key === "Enter" || event.key === "Tab") take(chosen);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  });
}
