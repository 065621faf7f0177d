"use strict";
// Shows the recorded episodes. Texts are only ever put into the page as text: none of them can become markup.
(() => {
  const episodes = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const root = document.documentElement;
  const make = (tag, text = "", kind = "") => {
    const node = document.createElement(tag);
    node.textContent = text;
    if (kind) node.className = kind;
    return node;
  };

  $("theme").hidden = false;
  $("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  if (!episodes.length) return;
  $("browser").hidden = false;

  const FILTERS = {
    scenario: "Scenario", method: "Method", trial: "Trial", row: "Trained through", measure: "Measure", split: "Split",
    outcome: "Outcome", end: "End", strategies: "Strategy",
  };
  const chosen = {};
  const valuesOf = (episode, name) => [episode[name]].flat().filter((value) => value !== "");
  for (const [name, title] of Object.entries(FILTERS)) {
    const values = [...new Set(episodes.flatMap((episode) => valuesOf(episode, name)))];
    if (values.length < 2 && episodes.every((episode) => valuesOf(episode, name).length === values.length)) continue;
    const select = make("select");
    select.name = name;
    select.append(new Option("all", ""), ...values.map((value) => new Option(value, value)));
    select.addEventListener("change", () => { chosen[name] = select.value; filter(); });
    const label = make("label", title);
    label.append(select);
    $("filters").append(label);
  }
  const search = make("input");
  search.type = "search";
  search.name = "text";
  search.placeholder = "task, prompt, reply or feedback";
  const label = make("label", "Text");
  label.append(search);
  $("filters").append(label);
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  search.addEventListener("input", () => filter());

  const texts = episodes.map(() => null); // what the search looks through, made when first needed
  const textOf = (k) => texts[k] ??= [
    episodes[k].task, ...episodes[k].turns.flatMap((turn) => [turn.news, turn.text, turn.feedback, turn.served]),
  ].join("\n").toLowerCase();

  const items = episodes.map((episode, k) => {
    const item = make("li");
    item.id = `e${k}`;
    item.setAttribute("role", "option");
    item.setAttribute("aria-selected", "false");
    item.append(make("b", episode.outcome, episode.outcome), ` ${episode.method} ${episode.trial}`);
    item.append(make("span", [episode.row, episode.measure, episode.split, episode.task].filter(Boolean).join(" · ")));
    item.addEventListener("click", () => select(k));
    return item;
  });
  $("list").append(...items);

  let visible = episodes.map((_, k) => k);
  let selected = -1;

  function filter() {
    const wanted = search.value.toLowerCase();
    visible = [];
    episodes.forEach((episode, k) => {
      const kept = Object.entries(chosen).every(([name, value]) => !value || valuesOf(episode, name).includes(value))
        && (!wanted || textOf(k).includes(wanted));
      items[k].hidden = !kept;
      if (kept) visible.push(k);
    });
    $("count").textContent = `${visible.length} of ${episodes.length} episodes.`;
    if (!visible.includes(selected)) select(visible.length ? visible[0] : -1);
  }

  function select(k) {
    if (selected >= 0) items[selected].setAttribute("aria-selected", "false");
    selected = k;
    if (k < 0) {
      $("list").removeAttribute("aria-activedescendant");
      $("episode").replaceChildren(make("p", "No episode passes these filters."));
      return;
    }
    items[k].setAttribute("aria-selected", "true");
    $("list").setAttribute("aria-activedescendant", items[k].id);
    const { offsetTop: top, offsetHeight: height } = items[k];
    const list = $("list");
    const above = top - list.offsetTop;
    if (above < list.scrollTop) list.scrollTop = above;
    else if (above + height > list.scrollTop + list.clientHeight) list.scrollTop = above + height - list.clientHeight;
    $("episode").replaceChildren(...told(episodes[k]));
    $("episode").scrollTop = 0;
  }

  function told(episode) {
    const title = make("h3");
    title.append(make("b", episode.outcome, episode.outcome), ` ${episode.method}, task ${episode.task}`);
    const facts = [
      `trial ${episode.trial}`, `row ${episode.row}`, episode.measure, episode.split, `attempt ${episode.attempt}`,
      episode.score === null ? "no score" : `score ${episode.score}`, `status ${episode.status}`,
      episode.end && `end ${episode.end}`,
    ].filter(Boolean).join(" · ");
    return [title, make("p", facts), make("code", episode.show), ...episode.turns.map(turnOf)];
  }

  function turnOf(turn, k) {
    const block = make("div", "", "turn");
    const said = (name, text, kind) => text && block.append(make("p", name), make("pre", text, kind));
    said(`${k}. ${turn.seat} sees`, turn.news);
    said(`answers (${[turn.finish, turn.served].filter(Boolean).join(", ")})`, turn.text || "(nothing)", "said");
    said(turn.reward === null ? "is told" : `earns ${turn.reward}, is told`, turn.feedback || (turn.reward === null ? "" : "(nothing)"));
    block.querySelectorAll("pre").forEach((node) => { node.dir = "auto"; });
    return block;
  }

  function step(by) {
    if (!visible.length) return;
    const place = visible.indexOf(selected) + by;
    select(visible[Math.min(Math.max(place, 0), visible.length - 1)]);
  }
  const KEYS = {
    ArrowDown: () => step(1), j: () => step(1), ArrowUp: () => step(-1), k: () => step(-1),
    Home: () => step(-visible.length), End: () => step(visible.length),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|SELECT)$/.test(event.target.tagName);
    if (event.key === "Escape" && typing) $("list").focus();
    else if (event.key === "/" && !typing) search.focus();
    else if (KEYS[event.key] && !typing && (event.target === $("list") || /^[jk]$/.test(event.key))) KEYS[event.key]();
    else return;
    event.preventDefault();
  });
  filter();
})();
