/* The page: what is dropped becomes a study, and a study a picture with its hypotheses. */
(function (global) {
  "use strict";

  const { Study, files, windows, make, masks, hypotheses } = global.Multivalued;
  const element = (id) => document.getElementById(id);
  const FOLDER = "a folder…";
  /** How many hypotheses the engine's short list has at most. */
  const SHORT = 5;

  class Viewer {
    constructor() {
      this.study = new Study((what) => this.heard(what));
      this.images = [];
      this.masks = [];
      this.at = 0;
      this.shown = null;
      this.scope = "volume";
      this.modelKey = "lidc";
      this.problems = [];
      this.listen();
      this.fillModels();
    }

    /** What came with the page: models, images. */
    async begin({ models, images } = {}) {
      if (models && models.length) this.modelKey = this.study.putFirst(models);
      this.fillModels();
      if (!images || !images.length) return;
      const listed = [];
      for (const one of images) {
        const list = files.given(await global.Multivalued.fetched(one.script));
        listed.push(...list);
      }
      await this.take(listed);
    }

    listen() {
      const on = (id, name, act) => element(id).addEventListener(name, act);
      const choose = (input) => () => {
        element(input).value = "";
        element(input).click();
      };
      on("open", "click", choose("file-input"));
      on("choose", "click", choose("file-input"));
      on("choose-folder", "click", choose("folder-input"));
      on("example", "click", () => this.example());
      for (const id of ["file-input", "folder-input"]) on(id, "change", (event) => this.take(files.chosen(event.target.files)));
      on("model", "change", () => this.chooseModel(element("model").value));
      on("images", "change", () => this.openAt(Number(element("images").value)));
      on("cancel", "click", () => this.study.cancel());
      on("all", "click", () => (this.study.engine ? this.study.predictAll() : this.openAt(this.at)));
      on("slice", "input", () => this.study.look(Number(element("slice").value) - 1));
      on("preset", "change", () => this.setWindow(this.presets[element("preset").value]));
      for (const id of ["level", "width"]) on(id, "change", () => this.typedWindow());
      on("save-masks", "click", () => this.save(true));
      on("save-json", "click", () => this.save(false));
      on("help", "click", () => element("keys").showModal());
      element("scope").addEventListener("change", (event) => {
        this.scope = event.target.value;
        this.draw();
      });
      element("view").addEventListener("window", (event) => this.tellWindow(event.detail), true);
      document.addEventListener("keydown", (event) => this.key(event));
      const over = (event) => {
        event.preventDefault();
        document.body.classList.toggle("over", event.type === "dragover");
      };
      for (const name of ["dragover", "dragleave", "drop"]) document.addEventListener(name, over);
      document.addEventListener("drop", async (event) => this.take(await files.dropped(event.dataTransfer)));
    }

    fillModels() {
      const options = [...this.study.models].map(([key, one]) => make("option", { value: key }, one.label));
      element("model").replaceChildren(...options, make("option", { value: FOLDER }, "Model folder…"));
      element("model").value = this.modelKey;
    }

    async chooseModel(key) {
      if (key === FOLDER) {
        element("model").value = this.modelKey;
        element("folder-input").value = "";
        element("folder-input").click();
        return;
      }
      this.modelKey = key;
      if (this.images.length) await this.openAt(this.at);
    }

    /** Files that were dropped, chosen, or came with the page. */
    async take(list) {
      this.problems = [];
      const channels = this.study.model ? this.study.model.channels : 1;
      const { model, images, masks: readers } = await files.sorted(list, channels);
      if (model) {
        this.modelKey = this.study.addModel(model);
        this.fillModels();
      }
      if (images.length) {
        this.images = images;
        this.masks = readers;
        await this.openAt(0);
      } else if (readers.length && this.images.length) {
        this.masks = [...this.masks, ...readers];
        await this.openAt(this.at);
      } else if (model) await (this.images.length ? this.openAt(this.at) : this.study.open(this.modelKey, null, []));
      else this.problem(list.length ? "There is no image among these files." : "There is no file in it.");
    }

    async openAt(at, series = null) {
      this.at = at;
      this.problems = [];
      element("images-field").hidden = this.images.length < 2;
      element("images").replaceChildren(...this.images.map((one, k) => make("option", { value: k }, one.name)));
      element("images").value = at;
      const image = this.images[at];
      await this.study.open(this.modelKey, image, files.masksOf(image, this.images, this.masks), series);
    }

    async example() {
      this.modelKey = "shapes";
      element("model").value = this.modelKey;
      await this.take([{ path: "triangle.png", file: new Blob([masks.bytesOf(global.Multivalued.EXAMPLE)]) }]);
    }

    problem(words) {
      this.problems.push(words);
      this.fillNotices();
    }

    heard(what) {
      const { study } = this;
      if (what === "error") this.problem(study.error);
      if (what === "series") this.askSeries();
      if (what === "image") this.openedImage();
      if (what === "slice" || what === "whole") this.draw();
      this.fillBar();
      if (what === "image" || what === "end") this.fillNotices();
    }

    askSeries() {
      const one = (words, at) => make("button", { type: "button", click: () => this.openAt(this.at, at + 1) }, words);
      element("notices").replaceChildren(make("div.notice.choice", {}, make("b", {}, "The folder has several series. Open"), ...this.study.choices.map(one)));
    }

    openedImage() {
      const { facts, values, slice } = this.study;
      document.body.classList.remove("empty");
      element("start").hidden = true;
      element("view").hidden = element("below").hidden = false;
      this.isCt = facts.channels === 1 && windows.isCt(facts.range, facts.dicom);
      this.presets = windows.presets(facts.range, values.get(slice), facts.dicom);
      element("preset").replaceChildren(...Object.keys(this.presets).map((name) => make("option", {}, name)), make("option", { hidden: true }, "custom"));
      this.window = Object.values(this.presets)[0];
      element("slices").hidden = facts.slices === 1;
      Object.assign(element("slice"), { max: facts.slices, value: slice + 1 });
      this.draw();
      this.tellWindow(this.window);
    }

    /** Draws the slice that is looked at, with what is known of it. */
    draw() {
      const data = this.data();
      if (!data) return;
      if (this.shown) this.shown.show(data);
      else this.shown = hypotheses(element("view"), data, { keys: document.body, wheel: (event) => this.wheel(event) });
      const { facts, slice } = this.study;
      element("slice").value = slice + 1;
      element("slice").setAttribute("aria-valuetext", `slice ${slice + 1} of ${facts.slices}`);
      element("slice-words").textContent = `${slice + 1} of ${facts.slices}`;
      document.title = `${facts.name} · Multivalued`;
    }

    data() {
      const { facts, slice, values, predictions, readers, model, whole, busy, cancelled } = this.study;
      if (!facts || !values.has(slice)) return null;
      const said = predictions[slice];
      const volume = facts.slices > 1 && this.scope === "volume" && whole && whole.volume;
      const spacing = facts.spacing ? facts.spacing.slice(0, 2) : null;
      const data = {
        title: facts.slices > 1 ? `${facts.name}, slice ${slice + 1} of ${facts.slices}` : facts.name,
        width: facts.width, height: facts.height, spacing, classes: model ? model.classes : 1,
        image: { values: values.get(slice), channels: facts.channels, window: this.window, range: facts.range, unit: this.isCt && facts.dicom ? "HU" : "" },
        hypotheses: said ? said.hypotheses : null,
        readers: readers.map(({ name, of }) => ({ name, mask: of(slice) })),
        draws: said ? said.draws : null,
        stands: said ? said.stands : null,
        loss: said ? said.loss : null,
        note: busy ? "Computing the hypotheses…" : cancelled ? "Cancelled." : "No hypotheses yet.",
      };
      if (volume && said) Object.assign(data, this.volumeData(volume, said));
      return data;
    }

    /** What is shown of whole volumes in one slice. */
    volumeData(volume, said) {
      const { whole, slice } = this.study;
      const unit = whole.unit || "voxels";
      const size = (one) => (whole.unit ? one[whole.unit] : one.voxels).reduce((sum, k) => sum + k, 0);
      return {
        hypotheses: volume.hypotheses.map((one) => ({
          probability: one.probability, mask: said.hypotheses[one.members[slice]].mask, size: size(one),
        })),
        draws: volume.draws,
        // Whole volumes are few already: nearly equal ones count as one.
        stands: null,
        nothing: "not in this slice",
        measure: { unit, sentence: `Volume ${whole.words}` },
      };
    }

    fillBar() {
      const { study } = this;
      const { facts, busy } = study;
      const bar = element("bar");
      element("progress").hidden = !busy;
      if (busy) {
        element("progress-words").textContent = `${busy.words}…`;
        if (busy.all > 1) Object.assign(bar, { max: busy.all, value: busy.done });
        else bar.removeAttribute("value");
      }
      document.body.classList.toggle("busy", Boolean(busy));
      const complete = Boolean(facts && study.whole);
      for (const id of ["save-masks", "save-json"]) {
        element(id).hidden = !facts;
        element(id).disabled = !complete;
        element(id).title = complete ? "" : facts && facts.slices > 1 ? "Predict all slices first" : "";
      }
      this.fillSaved(complete);
      if (!facts) return;
      element("all").hidden = Boolean(busy) || complete;
      element("all").textContent = facts.slices > 1 ? "Predict all slices" : "Predict";
      element("model").title = study.model && study.model.expects ? `Expects ${study.model.expects}` : "";
      element("scope").hidden = !(complete && facts.slices > 1);
      for (const input of element("scope").querySelectorAll("input")) input.checked = input.value === this.scope;
      const size = `${facts.width} × ${facts.height}${facts.slices > 1 ? ` × ${facts.slices}` : ""}`;
      const spacing = facts.spacing ? ` · ${facts.spacing.slice(0, facts.slices > 1 ? 3 : 2).map((mm) => Number(mm.toPrecision(3))).join(" × ")} mm` : "";
      element("facts").replaceChildren(make("b", {}, facts.name), ` ${size}${spacing}`);
      element("memory").textContent = facts.memory ? `The engine has ${Math.round(facts.memory / 1048576)} MB.` : "";
    }

    /** What is saved: all hypotheses unless the short list is chosen, where there is one. */
    fillSaved(complete) {
      const said = complete && this.study.facts.slices === 1 ? this.study.predictions[0] : null;
      const choice = element("saved");
      choice.hidden = !(said && said.stands);
      if (choice.hidden) {
        choice.replaceChildren();
        return;
      }
      const chosen = choice.value || "all";
      choice.replaceChildren(make("option", { value: "all" }, `of all ${said.hypotheses.length}`), make("option", { value: "list" }, `of the ${said.stands.length} listed`));
      choice.value = chosen;
    }

    fillNotices() {
      const { facts, refused } = this.study;
      const warnings = facts ? facts.warnings : [];
      const list = [];
      for (const words of this.problems) list.push(make("div.notice.error", { role: "alert" }, make("b", {}, "This did not work. "), words));
      for (const words of facts ? refused : []) list.push(make("div.notice.error", {}, make("b", {}, "Reader’s mask left out. "), words));
      if (warnings.length) list.push(make("div.notice.warning", {}, make("b", {}, "Unlike the training data: "), `${warnings.join("; ")}. Probabilities may be far off.`));
      const close = () => make("button.close", { type: "button", "aria-label": "Dismiss", click: (event) => event.target.parentElement.remove() }, "×");
      list.forEach((one) => one.append(close()));
      element("notices").replaceChildren(...list);
    }

    wheel(event) {
      const { facts } = this.study;
      if (!facts || facts.slices === 1) return false;
      event.preventDefault();
      this.turned = (this.turned || 0) + event.deltaY * (event.deltaMode === 1 ? 40 : 1);
      if (Math.abs(this.turned) >= 40) {
        this.study.look(this.study.slice + Math.sign(this.turned));
        this.turned = 0;
      }
      return true;
    }

    key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey || element("keys").open) return;
      const field = event.target.closest && event.target.closest("input, select, textarea");
      if (field && (field.type === "range" || field.type === "number" || field.tagName === "SELECT")) return;
      const { study } = this;
      const count = study.facts ? study.facts.slices : 0;
      const step = (by) => count > 1 && study.look(study.slice + by);
      const acts = {
        PageUp: () => step(-1), PageDown: () => step(1), ",": () => step(-1), ".": () => step(1),
        Home: () => step(-count), End: () => step(count),
        "[": () => this.at > 0 && this.openAt(this.at - 1),
        "]": () => this.at < this.images.length - 1 && this.openAt(this.at + 1),
        w: () => this.nextWindow(),
        "?": () => element("keys").showModal(),
      };
      if (!acts[event.key] || (count < 2 && /Page|Home|End|^[,.]$/.test(event.key))) return;
      acts[event.key]();
      event.preventDefault();
    }

    nextWindow() {
      if (!this.presets) return;
      const names = Object.keys(this.presets);
      this.setWindow(this.presets[names[(names.indexOf(element("preset").value) + 1) % names.length]]);
    }

    typedWindow() {
      const [level, width] = ["level", "width"].map((id) => Number(element(id).value));
      if (Number.isFinite(level) && width > 0) this.setWindow([level - width / 2, level + width / 2]);
    }

    setWindow(window) {
      this.tellWindow(window);
      this.shown.set({ window });
    }

    /** Names the window, and keeps it for the next slice. */
    tellWindow(window) {
      this.window = window;
      const same = (other) => other.every((end, k) => Math.abs(end - window[k]) < 1e-6 * (1 + Math.abs(end)));
      const name = Object.keys(this.presets).find((one) => same(this.presets[one]));
      element("preset").value = name || "custom";
      const digits = Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(window[1] - window[0]))));
      element("level").value = Number(((window[0] + window[1]) / 2).toFixed(digits));
      element("width").value = Number((window[1] - window[0]).toFixed(digits));
    }

    async save(all) {
      const { name } = this.study.facts;
      try {
        // As `predict --list 5` has it.
        const list = await this.study.results(element("saved").value === "list" ? SHORT : null);
        const [, json] = list[list.length - 1];
        if (all) files.save(`${name}-prediction.zip`, files.zipped(list));
        else files.save("prediction.json", new Blob([json], { type: "application/json" }));
      } catch (error) {
        this.problem(error.message);
      }
    }
  }

  // After given.js, which follows these scripts.
  document.addEventListener("DOMContentLoaded", () => {
    const viewer = new Viewer();
    global.Multivalued.viewer = viewer;
    viewer.begin(global.Multivalued.given).catch((error) => viewer.problem(error.message));
  });
})(self);
