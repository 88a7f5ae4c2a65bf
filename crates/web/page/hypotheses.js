/* One image with its weighted hypotheses: the picture, the strip of hypotheses, and what one does with them.
 *
 *   const shown = Multivalued.hypotheses(element, data, options)
 *
 * Classic scripts, in this order: masks.js, stage.js, paint.js, side.js, hypotheses.js; styles: hypotheses.css. Nothing is
 * fetched. The element's content is replaced.
 *
 * data = {
 *   title: "LIDC-IDRI-0005, slice 3",      said to screen readers, and written below in print
 *   width, height,                         in pixels
 *   image: { url: "data:image/png;base64,…" }                          a picture of that size, or
 *          { grey: BYTES } or { rgb: BYTES }                           Uint8Array or base64, or
 *          { values: Float32Array, channels, window: [low, high], range: [min, max], unit: "HU" }
 *                                                                      with window and level
 *   classes: 1,                            planes of each mask
 *   names: ["lesion"],                     of the classes, where they have any
 *   spacing: [0.7, 0.7] or null,           millimetres of a pixel, columns first; [2, 2, "px"]: in another unit of areas
 *   hypotheses: [{ probability, mask }],   in any order; masks.js says what a mask may be; null while unknown. With a
 *                                          name and a colour they are told apart in tiles
 *   stands: [{ rank, probability }],       the short list: hypotheses by their place, with the probability of all that
 *                                          each stands for. It is shown first, and all on demand. May be missing
 *   loss: 0.01,                            the GED between all hypotheses and the short list, where it is known
 *   readers: [{ mask, name, weight }],     may be missing
 *   draws: 16 or null,                     how many draws the probabilities were counted from
 *   note: "…"                              a sentence instead of the strip, where there are no hypotheses
 *   nothing: "not in this slice"           what an empty mask is called; "nothing there" unless given
 *   measure: { unit: "ml", sentence }      what hypotheses are measured by in place of their area: each has a `size` in
 *                                          that unit, and the sentence says how they are distributed
 * }
 * options = {
 *   mode: "outline", "fill", "mean" or "disagreement"
 *   until: 0.9                             which share of the probability is shown of all hypotheses; a short list is
 *                                          shown whole at first
 *   keys: element                          whose keys are listened to; the element unless given
 *   wheel: "zoom", "page" (zooms with Ctrl only), or a function(event) that returns true where it took the event
 *   compact: true                          without mode, slider and area: for many on a page
 *   selected: function(index or null)      is told what is isolated, by the place in data.hypotheses
 * }
 * shown.show(data)    another image; zoom stays where the size does, and so do mode and slider
 * shown.select(rank)  isolates a hypothesis by its rank in the list that is shown, from 0; null shows all
 * shown.set({ mode, until, readers: true, window: [low, high], short: true })
 * shown.state         { mode, until, readers, window, short, selected, visible } as they are
 * shown.stage         the canvas' zoom: fit(), zoomBy(factor), look([x, y, width, height])
 * shown.destroy()
 *
 *   Multivalued.dialog(data, options)      the same over the page, until Escape
 *   Multivalued.tile(element, data, options)   one small picture, which opens the dialog; options besides those above:
 *     shows: "all" (the outlines of hypotheses and readers), "image", "readers", "outline", "mean", "disagreement", or the
 *            rank of a hypothesis
 *     whole: true                          all of the image, not the part around the outlines, which is framed
 *     pixels: 160                          the edge it is drawn for
 *     label: "…"                           said to screen readers
 */
(function (global) {
  "use strict";

  const { masks, paint, side, make, Stage } = global.Multivalued;
  const { percent, areaText } = side;
  const MODES = { outline: "Outlines", fill: "Filled", mean: "Mean probability", disagreement: "Disagreement" };

  /** What is drawn of data: planes, areas and outlines, the most probable first. */
  function prepared(data) {
    const pixels = data.width * data.height;
    const classes = data.classes || 1;
    const entry = (one, index) => {
      const planes = masks.planesOf(one.mask, pixels, classes);
      return { index, probability: one.probability, name: one.name, colour: one.colour, size: one.size, planes };
    };
    const hypotheses = (data.hypotheses || []).map(entry).sort((a, b) => b.probability - a.probability || a.index - b.index);
    const readers = (data.readers || []).map((one, index) => entry(one.mask === undefined ? { mask: one } : one, index));
    return { classes, hypotheses, readers };
  }

  /** Planes and outlines for one class, or for all together. */
  function chooseClass(entries, chosen, data) {
    for (const one of entries) {
      one.plane = chosen < 0 ? masks.union(one.planes) : one.planes[chosen];
      one.area = masks.areaOf(one.plane);
      one.path = paint.pathOf(masks.loopsOf(one.plane, data.width, data.height));
    }
  }

  class View {
    constructor(element, data, options = {}) {
      this.options = options;
      this.element = element;
      this.state = { mode: options.mode || "outline", until: 1, readers: true, window: null, short: true, selected: null, visible: 0 };
      // Each list has its own place of the slider: a short one is seen whole at first.
      this.untils = { short: 1, all: options.until || 0.9 };
      this.hovered = null;
      this.chosenClass = -1;
      this.build();
      this.keys = options.keys || element;
      this.listener = (event) => this.key(event);
      this.keys.addEventListener("keydown", this.listener);
      this.show(data);
    }

    destroy() {
      this.keys.removeEventListener("keydown", this.listener);
      this.stage.destroy();
      this.element.replaceChildren();
    }

    build() {
      const { options } = this;
      this.canvas = make("canvas", { tabindex: "0", role: "img" });
      this.readout = make("output.readout", { "aria-hidden": "true" });
      this.legend = make("div.legend");
      const button = (text, label, act) => make("button", { type: "button", "aria-label": label, title: label, click: act }, text);
      const zoom = make("div.zoom", {},
        button("+", "Zoom in (+)", () => this.stage.zoomBy(1.5)),
        button("−", "Zoom out (−)", () => this.stage.zoomBy(1 / 1.5)),
        button("⤢", "Whole image (f)", () => this.stage.fit()),
        button("◎", "Zoom to the outlines (o)", () => this.stage.look(this.box)));
      const stage = make("div.stage", {}, this.canvas, this.legend, this.readout, zoom);
      this.tools = make("div.tools");
      this.facts = make("div.facts");
      this.lists = make("fieldset.lists", {}, make("legend.unseen", {}, "Listed"));
      this.strip = make("div.strip", { role: "group", "aria-label": "Hypotheses, the most probable first" });
      this.live = make("div.unseen", { "aria-live": "polite" });
      this.caption = make("p.caption");
      this.element.replaceChildren(
        make("section.hypotheses" + (options.compact ? ".compact" : ""), {}, this.tools, stage,
          make("div.side", {}, this.facts, this.lists, this.strip), this.caption, this.live));
      this.stage = new Stage(this.canvas, {
        paint: (context, scale) => this.paint(context, scale),
        pixel: (x, y) => this.tellPixel(x, y),
        click: (x, y) => this.clicked(x, y),
        drag: (event, dx, dy) => this.dragged(event, dx, dy),
        wheel: (event) => this.wheeled(event),
      });
      this.buildTools();
    }

    buildTools() {
      const mode = (name) => make("label", {},
        make("input", { type: "radio", name: `mode-${View.count}`, value: name, change: () => this.set({ mode: name }) }),
        make("span", {}, MODES[name]));
      this.modes = make("fieldset.modes", {}, make("legend.unseen", {}, "Shown as"), ...Object.keys(MODES).map(mode));
      this.slider = make("input", { type: "range", min: "1", max: "100", step: "1", id: `until-${View.count}`,
        input: () => this.set({ until: this.slider.value / 100 }) });
      this.until = make("output", { for: `until-${View.count}` });
      this.readerBox = make("input", { type: "checkbox", change: () => this.set({ readers: this.readerBox.checked }) });
      this.readerText = make("span");
      this.readerLabel = make("label.readers", {}, this.readerBox, this.readerText);
      this.classBox = make("select", { "aria-label": "Class", change: () => this.setClass(Number(this.classBox.value)) });
      const list = (short) => {
        const input = make("input", { type: "radio", name: `list-${View.count}`, value: short ? "short" : "all", change: () => this.set({ short }) });
        this.lists.append(make("label", {}, input, make("span")));
      };
      [true, false].forEach(list);
      this.tools.append(this.modes, make("label.until", {}, make("span", {}, "Show until"), this.slider, this.until), this.readerLabel, this.classBox);
      View.count += 1;
    }

    /** Another image, or the same with hypotheses. */
    show(data) {
      this.data = data;
      const { classes, hypotheses, readers } = prepared(data);
      // Hypotheses that have just come are said aloud, and those of another slice.
      const isNews = hypotheses.length && (!this.everything || !this.everything.length || this.caption.textContent !== (data.title || ""));
      Object.assign(this, { classes, everything: hypotheses, readers });
      this.state.selected = this.hovered = null;
      this.state.window = data.image.window || null;
      const image = data.image;
      if (image.url && !image.loaded) {
        const loaded = new Image();
        loaded.onload = () => {
          image.loaded = loaded;
          if (this.data === data) this.setClass(this.chosenClass);
        };
        loaded.src = image.url;
      }
      this.classBox.replaceChildren(make("option", { value: "-1" }, "all classes"),
        ...Array.from({ length: this.classes }, (_, k) => make("option", { value: k }, (data.names || [])[k] || `class ${k + 1}`)));
      this.classBox.hidden = this.classes === 1;
      this.readerLabel.hidden = !this.readers.length;
      this.readerText.textContent = this.readers.length === 1 ? "Reader" : `${this.readers.length} readers`;
      this.caption.textContent = data.title || "";
      this.setClass(this.chosenClass < this.classes ? this.chosenClass : -1);
      if (isNews) this.live.textContent = `${this.description()} The most probable: ${this.wordsOf(0)}.`;
    }

    setClass(chosen) {
      this.chosenClass = chosen;
      this.classBox.value = chosen;
      const all = [...this.everything, ...this.readers];
      chooseClass(all, chosen, this.data);
      this.box = paint.boxAround(all.map((one) => one.plane), this.data.width, this.data.height);
      this.maps = {};
      this.rebase();
      this.fillList();
      side.fillFacts(this);
      this.set({});
    }

    /** Whether the short list is shown: there is one, and nobody asked for all. */
    get isShort() {
      return Boolean(this.data.stands && this.state.short);
    }

    /** The hypotheses that are listed and outlined: those that stand for all, or all. */
    fillList() {
      const { data, everything } = this;
      const short = (data.stands || []).map(({ rank, probability }) => ({ ...everything.find((one) => one.index === rank), probability }));
      this.hypotheses = this.isShort ? short.sort((a, b) => b.probability - a.probability) : everything;
      this.state.until = this.untils[this.isShort ? "short" : "all"];
      this.lists.hidden = !data.stands;
      const words = [`Short list of ${short.length}`, `All ${everything.length}`];
      this.lists.querySelectorAll("span").forEach((span, at) => (span.textContent = words[at]));
      Object.assign(this, side.fillStrip(this));
    }

    /** The image's own pixels, drawn anew where the window changes. */
    rebase() {
      const { data } = this;
      const aspect = data.spacing ? data.spacing[1] / data.spacing[0] : 1;
      if (data.image.url && !data.image.loaded) {
        const blank = document.createElement("canvas");
        [blank.width, blank.height] = [data.width, data.height];
        this.base = blank;
      } else this.base = paint.baseOf(data.image, data.width, data.height, this.state.window);
      this.stage.show(this.base, aspect);
    }

    set(changes) {
      const other = changes.short !== undefined && changes.short !== this.state.short;
      Object.assign(this.state, changes);
      const { state } = this;
      if (other) {
        const index = state.selected === null ? null : this.hypotheses[state.selected].index;
        this.fillList();
        const rank = this.hypotheses.findIndex((one) => one.index === index);
        this.select(rank < 0 ? null : rank);
        this.live.textContent = `${this.hypotheses.length} hypotheses are listed`;
      }
      if (changes.until !== undefined) this.untils[this.isShort ? "short" : "all"] = changes.until;
      if (changes.window) this.rebase();
      state.visible = masks.countUntil(this.hypotheses.map((one) => one.probability), state.until);
      if (changes.until !== undefined && state.selected !== null && state.selected >= state.visible) this.select(null);
      for (const input of this.modes.querySelectorAll("input")) input.checked = input.value === state.mode;
      for (const input of this.lists.querySelectorAll("input")) input.checked = (input.value === "short") === this.isShort;
      this.slider.value = Math.round(100 * state.until);
      // Maps are of all hypotheses.
      this.slider.disabled = !this.hypotheses.length || state.mode === "mean" || state.mode === "disagreement";
      this.readerBox.checked = state.readers;
      this.until.textContent = `${Math.round(100 * state.until)} % · ${state.visible} of ${this.hypotheses.length}`;
      this.slider.setAttribute("aria-valuetext", `${Math.round(100 * state.until)} % of the probability, ${state.visible} of ${this.hypotheses.length} hypotheses`);
      this.canvas.setAttribute("aria-label", this.description());
      this.cards.forEach((card, rank) => card.classList.toggle("beyond", rank >= state.visible));
      this.rest.textContent = this.beyondText();
      side.fillLegend(this);
      this.stage.draw();
    }

    beyondText() {
      const beyond = this.hypotheses.slice(this.state.visible);
      if (!beyond.length) return "";
      return `${beyond.length} more with ${percent(beyond.reduce((sum, one) => sum + one.probability, 0))}`;
    }

    description() {
      const { data, everything: hypotheses } = this;
      if (!hypotheses.length) return `${data.title || "Image"}, ${data.width} by ${data.height} pixels`;
      const empty = hypotheses.find((one) => !one.area);
      return `${data.title || "Image"}, ${data.width} by ${data.height} pixels, ${hypotheses.length} hypotheses` +
        (empty ? `, ${side.nothing(data, empty)} with ${percent(empty.probability)}` : "") + `. ${side.sizeSentence(this)}.`;
    }

    /** Isolates a hypothesis by rank. */
    select(rank) {
      const { state, hypotheses } = this;
      state.selected = rank !== null && rank < hypotheses.length ? rank : null;
      this.cards.forEach((card, at) => card.setAttribute("aria-pressed", at === state.selected));
      if (state.selected !== null) this.cards[state.selected].scrollIntoView({ block: "nearest", inline: "nearest" });
      this.live.textContent = state.selected === null ? "All hypotheses" : this.wordsOf(state.selected);
      if (this.options.selected) this.options.selected(state.selected === null ? null : hypotheses[rank].index);
      this.emphasise();
    }

    /** Isolates a hypothesis by its rank among all; where the short list has it not, all are listed. */
    selectOf(rank) {
      const { index } = this.everything[rank];
      const place = () => this.hypotheses.findIndex((one) => one.index === index);
      if (place() < 0) this.set({ short: false });
      this.select(place());
    }

    hover(entry) {
      this.hovered = entry;
      this.emphasise();
    }

    emphasise() {
      const one = this.isolated();
      this.facts.querySelectorAll("[data-rank]").forEach((stem) => stem.classList.toggle("on", Boolean(one) && !this.readers.includes(one) && one.index === this.everything[stem.dataset.rank].index));
      this.stage.draw();
    }

    isolated() {
      return this.hovered || (this.state.selected === null ? null : this.hypotheses[this.state.selected]);
    }

    wordsOf(rank) {
      const one = this.hypotheses[rank];
      return `Hypothesis ${rank + 1} of ${this.hypotheses.length}: ${percent(one.probability)}, ${one.area ? `area ${areaText(one.area, this.data.spacing)}` : side.nothing(this.data, one)}${side.measured(this.data, one)}`;
    }

    key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const field = event.target.closest("input, select, textarea, [role=slider]");
      if (field && field.type !== "checkbox" && field.type !== "radio" && field.type !== "button") return;
      const { state, hypotheses } = this;
      const turn = (by) => {
        if (!hypotheses.length) return;
        this.select(state.selected === null ? (by > 0 ? 0 : hypotheses.length - 1) : (state.selected + by + hypotheses.length) % hypotheses.length);
      };
      const names = Object.keys(MODES);
      const acts = {
        Escape: () => this.select(null),
        0: () => this.select(null),
        n: () => turn(1),
        p: () => turn(-1),
        m: () => this.set({ mode: names[(names.indexOf(state.mode) + 1) % names.length] }),
        r: () => this.set({ readers: !state.readers }),
        a: () => this.set({ short: !state.short }),
        o: () => this.stage.look(this.box),
      };
      const digit = Number(event.key);
      if (digit >= 1 && digit <= 9) this.select(state.selected === digit - 1 ? null : digit - 1);
      else if (acts[event.key]) acts[event.key]();
      else if (event.target === this.canvas && this.stage.key(event)) event.preventDefault();
      else if (["+", "-", "=", "f"].includes(event.key)) this.stage.key(event);
      else return;
      if (event.key === "Escape") return;
      event.preventDefault();
    }

    wheeled(event) {
      const { wheel } = this.options;
      if (typeof wheel === "function") return !event.ctrlKey && wheel(event);
      return wheel === "page" && !event.ctrlKey;
    }

    /** With Shift or the right button: level by going up and down, window by going left and right. */
    dragged(event, dx, dy) {
      if (!this.state.window || !(event.shiftKey || event.buttons === 2)) return false;
      const [low, high] = this.state.window;
      const range = this.data.image.range || [low, high];
      const step = (range[1] - range[0]) / 600;
      const [level, width] = [(low + high) / 2 - dy * step, Math.max(step, high - low + 2 * dx * step)];
      this.set({ window: [level - width / 2, level + width / 2] });
      this.element.dispatchEvent(new CustomEvent("window", { detail: this.state.window }));
      return true;
    }

    /** The most probable visible hypothesis whose inside was clicked; outside of all of them, all. */
    clicked(x, y) {
      const at = Math.floor(y) * this.data.width + Math.floor(x);
      const inside = this.hypotheses.slice(0, this.state.visible).map((one, rank) => [one, rank]).filter(([one]) => one.plane[at]);
      if (!inside.length) return this.select(null);
      const next = inside.findIndex(([, rank]) => rank === this.state.selected) + 1;
      this.select(next < inside.length ? inside[next][1] : null);
    }

    tellPixel(x, y) {
      if (x === null || x === undefined) {
        this.readout.textContent = "";
        return;
      }
      const at = y * this.data.width + x;
      const { image } = this.data;
      const parts = [`${x}, ${y}`];
      if (image.values) parts.push(`${Number(image.values[at * (image.channels || 1)].toPrecision(5))}${image.unit ? ` ${image.unit}` : ""}`);
      if (this.everything.length) parts.push(`inside with ${percent(this.map("mean").values[at])}`);
      this.readout.textContent = parts.join(" · ");
    }

    map(mode) {
      if (!this.maps[mode]) {
        // Of all, whatever is listed.
        const shares = this.everything.map((one) => one.probability);
        const all = this.everything.map((one) => (this.chosenClass < 0 ? one.planes : [one.plane]));
        const values = mode === "mean" ? masks.meanOf(this.everything.map((one) => one.plane), shares) : masks.entropyOf(all, shares);
        this.maps[mode] = { values, canvas: null };
      }
      return this.maps[mode];
    }

    paint(context, scale) {
      const { state, hypotheses, readers, data } = this;
      const one = this.isolated();
      const isReader = readers.includes(one);
      // Lines have a width of screen pixels, whatever the zoom.
      const ratio = this.stage.scale / scale;
      const line = (path, style, pixels, dash) =>
        paint.outline(context, path, style, pixels * ratio, this.stage.scale, dash && dash.map((length) => length * ratio));
      const isMap = state.mode === "mean" || state.mode === "disagreement";
      if (isMap && hypotheses.length && !one) {
        const map = this.map(state.mode);
        map.canvas = map.canvas || paint.mapOf(map.values, data.width, data.height);
        context.drawImage(map.canvas, 0, 0);
      }
      const all = isMap ? [] : hypotheses.slice(0, state.visible);
      const drawn = isReader ? [] : one ? [one] : [...all].reverse();
      // The least probable first: what matters more lies above.
      for (const { path, area, probability } of drawn) {
        if (!area) continue;
        // What is looked at alone is seen well, however improbable it is.
        const shown = one ? Math.max(0.3, probability) : probability;
        if (state.mode === "fill") {
          context.fillStyle = paint.colour(shown, one ? 0.5 : 0.12 + 0.3 * paint.strength(shown));
          context.fill(path, "evenodd");
        }
        line(path, paint.colour(shown), state.mode === "fill" && !one ? 0.8 : paint.width(shown));
      }
      for (const reader of isReader ? [one] : state.readers ? readers : []) {
        if (reader.area) line(reader.path, paint.READER, isReader ? 2.4 : 1.6, isReader ? null : [5, 3]);
      }
    }
  }
  View.count = 0;

  /** The same in a window over the page, until Escape or its button. */
  function dialog(data, options = {}) {
    const content = make("div");
    const close = make("button.close", { type: "button", "aria-label": "Close", click: () => shell.close() }, "×");
    const shell = make("dialog.hypotheses-dialog", { "aria-label": data.title || "Hypotheses" },
      make("header", {}, make("h2", {}, data.title || ""), close), content);
    document.body.append(shell);
    shell.showModal();
    const view = new View(content, data, { keys: shell, ...options });
    shell.addEventListener("close", () => {
      view.destroy();
      shell.remove();
    });
    view.canvas.focus();
    return view;
  }

  /** What all tiles of an image share: found once. */
  const known = new WeakMap();
  function partsOf(data) {
    if (!known.has(data)) {
      const { hypotheses, readers } = prepared(data);
      const all = [...hypotheses, ...readers];
      chooseClass(all, -1, data);
      const box = paint.boxAround(all.map((one) => one.plane), data.width, data.height);
      known.set(data, { hypotheses, readers, box, base: paint.baseOf(data.image, data.width, data.height) });
    }
    return known.get(data);
  }

  /** Draws what a tile shows. */
  function paintTile(canvas, data, { shows = "all", whole = false, until = 0.9 }) {
    const { stands } = data;
    const { hypotheses, readers, box, base } = partsOf(data);
    const part = whole ? [0, 0, data.width, data.height] : box;
    paint.thumbnail(canvas, base, part, null);
    const context = canvas.getContext("2d");
    const scale = Math.min(canvas.width / part[2], canvas.height / part[3]);
    const shares = hypotheses.map((one) => one.probability);
    const isMap = shows === "mean" || shows === "disagreement";
    if (isMap && hypotheses.length) {
      const values = shows === "mean" ? masks.meanOf(hypotheses.map((one) => one.plane), shares) : masks.entropyOf(hypotheses.map((one) => one.planes), shares);
      context.drawImage(paint.mapOf(values, data.width, data.height), 0, 0);
    }
    const one = hypotheses[shows];
    if (one) paint.outline(context, one.path, one.colour || paint.colour(Math.max(0.3, one.probability)), 4, scale);
    if (shows === "all" || shows === "outline") {
      const all = hypotheses.slice(0, masks.countUntil(shares, until));
      const listed = stands ? stands.map(({ rank, probability }) => ({ ...hypotheses[rank], probability })) : all;
      listed.sort((a, b) => a.probability - b.probability).forEach((one, at) => {
        // Coloured lines that share their way lie inside of each other.
        const wide = one.colour ? Math.min(10, 3 + 2 * (listed.length - 1 - at)) : 2 * paint.width(one.probability);
        paint.outline(context, one.path, one.colour || paint.colour(one.probability), wide, scale);
      });
    }
    if (shows === "all") for (const one of readers) paint.outline(context, one.path, paint.READER, 3, scale, [10, 6]);
    if (shows === "readers") for (const one of readers) paint.outline(context, one.path, paint.READER, 4, scale);
    if (whole && box[2] < 0.6 * data.width) {
      context.strokeStyle = "rgba(255,255,255,.75)";
      context.lineWidth = 2 / scale;
      context.strokeRect(...box);
    }
  }

  /** A small picture of a part of the image, which opens the dialog. */
  function tile(element, data, options = {}) {
    const pixels = options.pixels || 160;
    const canvas = make("canvas", { width: 2 * pixels, height: 2 * pixels, "aria-hidden": "true" });
    const { shows = "all", ...others } = options;
    const open = () => {
      const view = dialog(data, MODES[shows] ? { ...others, mode: shows } : others);
      // What the tile shows, larger.
      if (!options.whole) view.stage.look(view.box);
      if (Number.isInteger(shows)) view.selectOf(shows);
    };
    const button = make("button.hypotheses-tile", { type: "button", "aria-label": options.label || `Enlarge ${data.title || "the image"}`, click: open }, canvas);
    element.append(button);
    const { image } = data;
    if (image.url && !image.loaded) {
      const loaded = new Image();
      loaded.onload = () => {
        image.loaded = loaded;
        paintTile(canvas, data, options);
      };
      loaded.src = image.url;
    } else paintTile(canvas, data, options);
    return button;
  }

  Object.assign(global.Multivalued, { View, dialog, tile, hypotheses: (element, data, options) => new View(element, data, options) });
})(self);
