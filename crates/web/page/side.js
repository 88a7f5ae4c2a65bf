/* What stands beside the picture: the strip of hypotheses, the distribution of areas, the legend; and how numbers are
 * written. */
(function (global) {
  "use strict";

  const { masks, paint } = global.Multivalued;

  /** An element of the page: tag.class, attributes (functions are listeners), children. */
  function make(what, attributes = {}, ...children) {
    const [tag, ...classes] = what.split(".");
    const element = document.createElement(tag);
    if (classes.length) element.className = classes.join(" ");
    for (const [name, value] of Object.entries(attributes)) {
      if (typeof value === "function") element.addEventListener(name, value);
      else if (value === true) element.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }

  /** "23 %", "0.4 %": one digit where there would be none. */
  function percent(probability) {
    const value = 100 * probability;
    if (value > 0 && value < 0.1) return "< 0.1 %";
    return `${value < 9.95 && value > 0 ? value.toFixed(1) : Math.round(value)} %`;
  }

  /** How an area is counted: in mm² where a pixel's size is known, or in the unit that the spacing names. */
  function areaUnit(spacing) {
    return spacing ? { name: spacing[2] || "mm²", scale: spacing[0] * spacing[1] } : { name: "px", scale: 1 };
  }

  function areaText(pixels, spacing) {
    const { name, scale } = areaUnit(spacing);
    const value = pixels * scale;
    return `${value.toFixed(spacing && value < 9.95 ? 1 : 0)} ${name}`;
  }

  /** "Area 84 px, 90 %: 61 to 120": the median, and where the middle nine tenths lie. "Nothing there: 97 %; else 75 px"
   * where that is the median. */
  function areaSentence(hypotheses, spacing) {
    const sizes = hypotheses.map((one) => ({ size: one.area, probability: one.probability }));
    if (sizes.length && masks.quantile(sizes, 0.5) === 0) {
      const sum = (list) => list.reduce((total, one) => total + one.probability, 0);
      const rest = sizes.filter((one) => one.size > 0);
      const empty = `Nothing there: ${percent(1 - sum(rest) / sum(sizes))}`;
      return rest.length ? `${empty}; else ${areaText(masks.quantile(rest, 0.5), spacing)}` : empty;
    }
    const [middle, low, high] = [0.5, 0.05, 0.95].map((level) => areaText(masks.quantile(sizes, level), spacing));
    return `Area ${middle}, 90 %: ${low.split(" ")[0]} to ${high.split(" ")[0]}`;
  }

  /** What an empty mask is called; of a volume without anything it is no matter of the slice. */
  const nothing = (data, one) => (data.measure && one && one.size === 0 ? "nothing there" : data.nothing || "nothing there");

  const sizeText = (size, unit) => `${size < 9.95 && size % 1 ? size.toPrecision(2) : Math.round(size)} ${unit}`;

  /** ", 2.1 ml": the size of a hypothesis, where it is not measured by its area. */
  const measured = (data, one) => (data.measure && one.size ? `, ${sizeText(one.size, data.measure.unit)}` : "");

  /** The sentence on sizes. */
  const sizeSentence = ({ data, everything }) => (data.measure ? data.measure.sentence : areaSentence(everything, data.spacing));

  /** A card of the strip. Empty masks have no picture of their own: "nothing there". */
  function card(view, one, rank) {
    const { data, base, box } = view;
    const key = make("span.key", { "aria-hidden": "true" }, rank < 9 ? String(rank + 1) : "");
    const bar = make("span.bar", { "aria-hidden": "true" }, make("i"));
    bar.firstChild.style.width = `${Math.max(0.5, 100 * one.probability)}%`;
    bar.firstChild.style.background = paint.colour(one.probability);
    const here = one.area ? areaText(one.area, data.spacing) : nothing(data, one);
    const small = data.measure && one.size ? `${sizeText(one.size, data.measure.unit)}, ${one.area ? `${here} here` : here}` : here;
    const text = make("span.text", {}, make("b", {}, percent(one.probability)), bar,
      make("small", {}, one.name ? `${one.name} · ${small}` : small));
    let picture = make("span.none", { "aria-hidden": "true" }, "∅");
    if (one.area) {
      picture = make("canvas", { width: "112", height: "112", "aria-hidden": "true" });
      paint.thumbnail(picture, base, box, one.path, paint.colour(Math.max(0.2, one.probability)));
    }
    return make("button.card" + (one.area ? "" : ".nothing"), {
      type: "button", "aria-pressed": "false", "aria-label": view.wordsOf(rank),
      mouseenter: () => view.hover(one), mouseleave: () => view.hover(null),
      focus: () => view.hover(one), blur: () => view.hover(null),
      click: () => view.select(view.state.selected === rank ? null : rank),
    }, key, picture, text);
  }

  /** What the short list is, and what it loses. */
  function standing({ hypotheses, loss }, count) {
    const lost = Number.isFinite(loss) ? ` As a set they are ${loss.toFixed(3)} away from all (GED).` : "";
    return `These ${count} stand for all ${hypotheses.length}: each has the probability of those nearest to it.${lost}`;
  }

  /** Fills the strip; returns the cards by rank and the line on what the slider leaves out. */
  function fillStrip(view) {
    const { data, hypotheses, readers, strip } = view;
    const cards = hypotheses.map((one, rank) => card(view, one, rank));
    const rest = make("p.rest");
    const empty = cards.filter((one) => one.classList.contains("nothing"));
    const others = cards.filter((one) => !empty.includes(one));
    const stands = view.isShort ? make("p.note.stands", {}, standing(data, hypotheses.length)) : null;
    strip.replaceChildren(...empty, ...others, rest, ...(stands ? [stands] : []));
    if (!hypotheses.length) strip.append(make("p.note", {}, data.note || "No hypotheses"));
    if (readers.length) {
      const chip = (one, at) => make("button.reader", {
        type: "button", mouseenter: () => view.hover(one), mouseleave: () => view.hover(null),
        focus: () => view.hover(one), blur: () => view.hover(null),
      }, one.name || `reader ${at + 1}`, make("small", {}, one.area ? areaText(one.area, data.spacing) : nothing(data)));
      strip.append(make("div.chips", { role: "group", "aria-label": "Readers" }, ...readers.map(chip)));
    }
    return { cards, rest };
  }

  const SVG = "http://www.w3.org/2000/svg";
  function svg(tag, attributes) {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  }

  /** The sentence on areas, with a stem for each hypothesis over an axis of areas: of all, whatever is listed. */
  function fillFacts(view) {
    const { data, everything: hypotheses, readers, facts } = view;
    facts.replaceChildren();
    if (!hypotheses.length) return;
    const { name, scale } = areaUnit(data.spacing);
    const { measure } = data;
    const sizeOf = (one) => (measure ? one.size : one.area);
    const beside = measure ? [] : readers;
    const largest = Math.max(measure ? 1e-6 : 1, ...[...hypotheses, ...beside].map(sizeOf)) * 1.04;
    const tallest = Math.max(...hypotheses.map((one) => one.probability));
    const [width, height, foot] = [300, 52, 14];
    const x = (area) => 6 + (area / largest) * (width - 12);
    const sizes = hypotheses.map((one) => ({ size: sizeOf(one), probability: one.probability }));
    const plot = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "areas", "aria-hidden": "true" });
    const [low, high] = [masks.quantile(sizes, 0.05), masks.quantile(sizes, 0.95)].map(x);
    plot.append(svg("rect", { x: low - 2, y: 0, width: high - low + 4, height: height - foot, class: "band" }));
    plot.append(svg("line", { x1: 0, x2: width, y1: height - foot, y2: height - foot, class: "axis" }));
    hypotheses.forEach((one, rank) => {
      const tall = Math.max(2, (one.probability / tallest) * (height - foot - 4));
      const stem = svg("rect", { x: x(sizeOf(one)) - 2, y: height - foot - tall, width: 4, height: tall, rx: 1.5, fill: paint.colour(one.probability) });
      stem.dataset.rank = rank;
      stem.addEventListener("mouseenter", () => view.hover(one));
      stem.addEventListener("mouseleave", () => view.hover(null));
      plot.append(stem);
    });
    for (const one of beside) plot.append(svg("circle", { cx: x(one.area), cy: height - foot, r: 3, class: "reader" }));
    const label = (text, at, anchor) => {
      const element = svg("text", { x: at, y: height - 2, "text-anchor": anchor });
      element.textContent = text;
      plot.append(element);
    };
    label("0", 4, "start");
    label(measure ? sizeText(largest / 1.04, measure.unit) : areaText(largest / 1.04, data.spacing), width - 2, "end");
    const counted = data.draws ? ` · counted from ${data.draws} draws` : "";
    const inPixels = data.spacing && !measure ? `, a pixel here is ${Number(scale.toPrecision(2))} ${name}` : "";
    facts.append(make("p", {}, make("b", {}, sizeSentence(view)),
      make("small", {}, `${hypotheses.length} hypothes${hypotheses.length === 1 ? "is" : "es"}${counted}${inPixels}`)), plot);
  }

  /** What colours mean, in the corner of the picture. */
  function fillLegend(view) {
    const { legend, state, hypotheses, readers } = view;
    legend.replaceChildren();
    if (!hypotheses.length) return;
    const isMap = state.mode === "mean" || state.mode === "disagreement";
    if (isMap) {
      const ends = state.mode === "mean" ? ["0 %", "100 % inside"] : ["all agree", "half and half"];
      const ramp = make("i.ramp");
      ramp.style.background = `linear-gradient(90deg, ${[0, 0.25, 0.5, 1].map((t) => paint.colour(t * t, 0.2 + 0.66 * t)).join(",")})`;
      legend.append(make("span", {}, ends[0]), ramp, make("span", {}, ends[1]));
    } else {
      for (const probability of [0.03, 0.25, 0.8]) {
        const line = make("i.line");
        line.style.borderTop = `${paint.width(probability)}px solid ${paint.colour(probability)}`;
        legend.append(line, make("span", {}, `${100 * probability} %`));
      }
    }
    if (readers.length && state.readers) legend.append(make("i.line.dashed"), make("span", {}, "readers"));
  }

  const side = { percent, areaText, areaSentence, sizeSentence, nothing, measured, fillStrip, fillFacts, fillLegend };
  Object.assign(global.Multivalued, { make, side });
})(self);
