/* A page's own script: pictures in their places, a table of cases that sorts and filters, names on dots. It finds what
 * to show in the element "data" and draws with the viewer's component (hypotheses.js). */
(function () {
  "use strict";

  const { make, tile, side } = Multivalued;
  const { pictures = {}, groups = [], table = null, reload = null } = JSON.parse(document.getElementById("data").textContent);
  const articles = [...document.querySelectorAll("article.case")];
  const all = (selector) => [...document.querySelectorAll(selector)];

  /* Pictures */

  const MOST_ALONE = 8;
  const isEmpty = (mask) => Array.isArray(mask) && mask.length < 2;

  /** A picture with words below it. */
  function view(into, shown, title, options) {
    const figure = make("figure.view");
    into.append(figure);
    tile(figure, shown, { ...options, label: `${title} of ${shown.title}: enlarge` });
    figure.append(make("figcaption", {}, title));
    return figure;
  }

  function fill(article) {
    const shown = pictures[article.dataset.case];
    if (!shown || article.dataset.filled) return;
    article.dataset.filled = "yes";
    const views = article.querySelector(".views");
    const { readers, hypotheses, stands } = shown;
    // Raters' masks may stand in the place of hypotheses.
    const ofRaters = hypotheses.some((one) => one.name);
    view(views, shown, "Image", { shows: "image", whole: true, pixels: 220 });
    if (readers.length) {
      const drawn = readers.filter((one) => !isEmpty(one.mask)).length;
      const count = `${readers.length} reader${readers.length === 1 ? "" : "s"}`;
      view(views, shown, drawn < readers.length ? `${count}, ${readers.length - drawn} marked nothing` : count, { shows: "readers", pixels: 220 });
    }
    if (!hypotheses.length) return;
    const until = ofRaters ? { until: 1 } : {};
    view(views, shown, ofRaters ? `${hypotheses.length} raters` : "Model", { shows: "outline", pixels: 220, ...until });
    view(views, shown, ofRaters ? "Share of raters" : "Mean probability", { shows: "mean", pixels: 220, ...until });
    view(views, shown, "Disagreement", { shows: "disagreement", pixels: 220, ...until });
    const strip = article.querySelector(".strip");
    const listed = stands || hypotheses.slice(0, MOST_ALONE).map((one, rank) => ({ rank, probability: one.probability }));
    for (const { rank, probability } of listed) {
      const { told, colour, mask } = hypotheses[rank];
      const figure = view(strip, shown, told || side.percent(probability), { shows: rank, pixels: 96, ...until });
      const bar = make("span.part", { "aria-hidden": "true" }, make("i"));
      bar.firstChild.style.width = `${ofRaters ? 100 : 100 * probability}%`;
      if (ofRaters) bar.firstChild.style.background = colour;
      figure.lastChild.before(bar);
      if (isEmpty(mask)) figure.append(make("span.empty", {}, "nothing there"));
    }
    const words = stands ? `${stands.length} that stand for all ${hypotheses.length}` : `and ${hypotheses.length - listed.length} more`;
    if (hypotheses.length > listed.length) strip.append(make("p.more", {}, words));
  }

  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) fill(entry.target);
  }, { rootMargin: "600px" });
  articles.forEach((article) => near.observe(article));
  addEventListener("beforeprint", () => articles.filter((one) => !one.hidden).forEach(fill));

  /** Shows the cases of a group, in its order. */
  function choose(at) {
    const group = groups[at];
    all(".chooser button").forEach((button) => button.setAttribute("aria-pressed", Number(button.dataset.group) === at));
    const about = document.getElementById("about");
    if (about) about.textContent = group.about;
    for (const article of articles) article.hidden = !group.cases.includes(Number(article.dataset.case));
    const gallery = document.getElementById("gallery");
    for (const number of group.cases) gallery.append(document.getElementById(`case-${number}`));
  }

  if (groups.length) choose(0);
  all(".chooser button").forEach((button) => button.addEventListener("click", () => choose(Number(button.dataset.group))));

  /** The case that the address names is shown, whatever group it is in. */
  function follow() {
    const article = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!article || !article.matches("article.case")) return;
    const group = groups.findIndex((one) => one.cases.includes(Number(article.dataset.case)));
    if (article.hidden && group >= 0) choose(group);
    fill(article);
    article.scrollIntoView({ block: "start" });
    article.focus({ preventScroll: true });
  }
  addEventListener("hashchange", follow);
  follow();

  /* The table */

  const STEP = 25;
  const order = new Intl.Collator("en", { numeric: true });
  const score = (value) => (value === null ? "–" : value.toFixed(3));
  const size = (value) => (value < 99.5 && value % 1 ? value.toFixed(1) : Math.round(value).toLocaleString("en"));
  const WRITTEN = {
    name: (text, number) => (pictures[number] ? make("a", { href: `#case-${number}` }, text) : text),
    text: (text) => text,
    score,
    count: (value) => String(value),
    share: (value) => (value === null ? "–" : side.percent(value)),
    area: ([median, low, high]) => (median === null ? "–" : make("span", {}, size(median), make("small", {}, ` (${size(low)} to ${size(high)})`))),
  };
  /** Writes the table anew, where there is one; sorted by the GED until told otherwise. */
  let find = () => {};

  if (table) {
    const { columns, rows } = table;
    const state = { by: Math.max(0, columns.findIndex((one) => one.title === "GED")), falling: true, found: "", count: STEP };
    const value = (number, by) => (columns[by].kind === "area" ? rows[number][by][0] : rows[number][by]);
    const compared = (a, b) => {
      const [x, y] = [value(a, state.by), value(b, state.by)];
      // What is not known comes last, whichever way.
      if (x === null || y === null) return (x === null) - (y === null);
      const sign = state.falling ? -1 : 1;
      return sign * (typeof x === "number" ? x - y : order.compare(x, y)) || a - b;
    };
    const search = make("input", { type: "search", placeholder: "Find a case", "aria-label": "Find a case by its name",
      input: () => { state.found = search.value; state.count = STEP; write(); } });
    const said = make("output");
    // The arrow stays with the last word.
    const headed = (title) => {
      const words = title.split(" ");
      const last = words.pop();
      return [words.map((word) => `${word} `).join(""), make("span", {}, last, make("i", { "aria-hidden": "true" }))];
    };
    const heads = columns.map((one, by) => make("th", { scope: "col", title: one.about, class: one.kind },
      make("button", { type: "button", click: () => {
        state.falling = state.by === by ? !state.falling : one.kind !== "name" && one.kind !== "text";
        state.by = by;
        write();
      } }, ...headed(one.title))));
    const body = make("tbody");
    const more = make("button", { type: "button", click: () => { state.count += 4 * STEP; write(); } }, `${4 * STEP} more`);
    const everything = make("button", { type: "button", click: () => { state.count = rows.length; write(); } }, "All");
    document.getElementById("table").append(
      make("div.finder", {}, search, said),
      make("div.wide", {}, make("table.cases", {}, make("thead", {}, make("tr", {}, ...heads)), body)),
      make("div.finder", {}, more, everything));

    const line = (number) => make("tr", {
      mouseenter: () => mark(number, true), mouseleave: () => mark(number, false),
    }, ...columns.map((one, by) => make(by ? "td" : "th", { scope: by ? null : "row", class: one.kind },
      WRITTEN[one.kind](rows[number][by], number))));

    const write = () => {
      const words = state.found.toLowerCase().split(/\s+/).filter(Boolean);
      const fits = (number) => words.every((word) => String(rows[number][0]).toLowerCase().includes(word));
      const found = rows.map((_, number) => number).filter(fits).sort(compared);
      body.replaceChildren(...found.slice(0, state.count).map(line));
      heads.forEach((head, by) => {
        if (by === state.by) head.setAttribute("aria-sort", state.falling ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
      });
      const shown = Math.min(found.length, state.count);
      said.textContent = `${shown} of ${found.length}${found.length < rows.length ? " found" : ""}`;
      more.hidden = shown + STEP >= found.length;
      everything.hidden = shown >= found.length;
    };
    find = (text) => {
      search.value = state.found = text;
      state.count = STEP;
      write();
      search.scrollIntoView({ block: "center" });
      search.focus({ preventScroll: true });
    };
    write();
  }

  /* Dots */

  const tip = make("div.tip", { role: "status", hidden: true });
  document.body.append(tip);
  const circles = {};
  for (const circle of all("circle[data-case]")) (circles[circle.dataset.case] = circles[circle.dataset.case] || []).push(circle);

  function mark(number, on) {
    for (const circle of circles[number] || []) circle.classList.toggle("on", on);
  }

  function tell(circle) {
    const number = circle.dataset.case;
    if (!table) return;
    const facts = table.columns.map((one, by) => [one, table.rows[number][by]]).filter(([one]) => one.kind === "score").slice(0, 2);
    tip.replaceChildren(make("b", {}, table.rows[number][0]), ...facts.map(([one, value]) => make("span", {}, `${one.title} ${score(value)}`)),
      make("small", {}, pictures[number] ? "click: pictures" : "click: its line in the table"));
    tip.hidden = false;
    const [dot, own] = [circle.getBoundingClientRect(), tip.getBoundingClientRect()];
    const left = Math.max(8, Math.min(innerWidth - own.width - 8, dot.left + dot.width / 2 - own.width / 2));
    const above = dot.top - own.height - 8;
    tip.style.left = `${left}px`;
    tip.style.top = `${above > 4 ? above : dot.bottom + 8}px`;
    mark(number, true);
  }

  for (const group of all("g.case")) {
    group.addEventListener("pointerover", (event) => event.target.dataset.case && tell(event.target));
    group.addEventListener("pointerout", (event) => {
      tip.hidden = true;
      mark(event.target.dataset.case, false);
    });
    group.addEventListener("click", (event) => {
      const number = event.target.dataset.case;
      if (!number || !table) return;
      tip.hidden = true;
      if (pictures[number]) location.hash = `case-${number}`;
      else find(String(table.rows[number][0]));
    });
  }

  /* A page that is still being written */

  /** Longest time in milliseconds since it was written: whoever writes it is gone then. */
  const PATIENCE = 120000;

  if (reload) {
    // All at once, so that the page is as high as before, and the place that is looked at stays.
    articles.forEach(fill);
    const again = setInterval(() => {
      if (document.querySelector("dialog[open]")) return;
      if (Date.now() - reload.written < PATIENCE) location.reload();
      else clearInterval(again);
    }, reload.every);
  }
})();
