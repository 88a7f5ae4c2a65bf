/* An image, a model and what it says: loads files into the engine, predicts slices, and keeps what came. Draws nothing;
 * whoever made it is told by `told(what)` with "busy", "image", "slice", "whole", "end" or "error". */
(function (global) {
  "use strict";

  const { Engine, fetched, files } = global.Multivalued;
  /** Volumes of no more pixels are predicted whole at once; of larger ones the slice that is looked at. */
  const WHOLE_AT_ONCE = 4e6;
  const SHIPPED = { lidc: "LIDC nodules (lidc)", shapes: "Shapes (shapes)" };

  class Study {
    constructor(told) {
      this.told = told;
      this.engine = null;
      this.models = new Map(Object.keys(SHIPPED).map((name) => [name, { name, label: SHIPPED[name], script: `models/${name}` }]));
      this.model = null;
      this.clear();
    }

    clear() {
      this.image = null;
      this.facts = null;
      this.masks = [];
      this.readers = [];
      this.values = new Map();
      this.predictions = [];
      this.whole = null;
      this.slice = 0;
      this.wantsAll = false;
      this.busy = null;
    }

    /** Adds a model of files that were given, or of a script beside the page. */
    addModel(model) {
      const key = SHIPPED[model.name] && !model.script ? `${model.name}, given` : model.name;
      this.models.set(key, { label: model.name, ...model });
      return key;
    }

    /** Models that came with the page, before the shipped ones; the key of the first. */
    putFirst(models) {
      const shipped = this.models;
      this.models = new Map();
      const keys = models.map((model) => {
        const known = model.script.startsWith("models/") && shipped.get(model.name);
        this.models.set(model.name, known || { label: model.name, ...model });
        return model.name;
      });
      for (const [key, model] of shipped) if (!this.models.has(key)) this.models.set(key, model);
      return keys[0];
    }

    async started() {
      if (this.engine && !this.engine.dead) return this.engine;
      const [{ bytes }] = await fetched("engine");
      this.engine = await Engine.start(bytes);
      this.model = null;
      return this.engine;
    }

    async give(folder, list) {
      for (const one of list) await this.engine.give(`${folder}/${one.path}`, await one.file.arrayBuffer());
    }

    /** Opens a model by its key, unless it is open. */
    async openModel(key) {
      await this.started();
      if (this.model && this.model.key === key) return;
      const chosen = this.models.get(key);
      const list = chosen.script ? files.given(await fetched(chosen.script)) : chosen.files;
      await this.engine.ask({ do: "forget", folder: "model" });
      this.model = null;
      await this.give(`model/${chosen.name}`, list);
      const { said } = await this.engine.ask({ do: "model", folder: `model/${chosen.name}`, name: chosen.name });
      this.model = { key, ...said };
      await this.engine.ask({ do: "forget", folder: "model" });
    }

    /** Opens an image with a model and predicts it. */
    open(key, image, masks, series = null) {
      return this.run("Reading", async (turn) => {
        this.clear();
        this.busy = { words: "Loading the model", turn };
        this.told("busy");
        await this.openModel(key);
        if (!image) return;
        this.image = image;
        this.masks = masks;
        const list = image.script ? files.given(await fetched(image.script)) : image.files;
        await this.engine.ask({ do: "forget", folder: "image" });
        await this.give("image", list);
        const paths = series ? [`image/${image.paths[0]}/series-${series}`] : image.paths.map((path) => `image/${path}`);
        const { said } = await this.engine.ask({ do: "image", files: paths, name: image.name });
        if (turn.over) return;
        if (said.series) {
          this.choices = said.series;
          this.told("series");
          return;
        }
        this.facts = { ...said, memory: this.engine.memory };
        this.predictions = Array(said.slices).fill(null);
        this.slice = Math.floor(said.slices / 2);
        this.wantsAll = said.slices * said.width * said.height <= WHOLE_AT_ONCE;
        await this.readMasks();
        await this.valuesOf(this.slice);
        this.told("image");
        await this.predictWanted(turn);
      });
    }

    /** Reads the readers' masks; one that does not fit is told of, the others are shown. */
    async readMasks() {
      const { width, height } = this.facts;
      this.readers = [];
      this.refused = [];
      for (const mask of this.masks) {
        try {
          await this.give("readers", [mask]);
          const { said, bytes } = await this.engine.ask({ do: "reader", file: `readers/${mask.path}` });
          const stride = Math.ceil((width * height) / 8) * said.classes;
          const name = files.readerName(mask, this.image, this.readers.length + 1);
          this.readers.push({ name, of: (z) => bytes.subarray(z * stride, (z + 1) * stride) });
        } catch (error) {
          if (error.message === Engine.STOPPED) throw error;
          this.refused.push(error.message.replace(/^readers\//, ""));
        }
      }
      await this.engine.ask({ do: "forget", folder: "readers" });
    }

    async valuesOf(z) {
      if (!this.values.has(z)) {
        const { bytes } = await this.engine.ask({ do: "slice", slice: z });
        // A few slices beside the one that is looked at are enough.
        if (this.values.size > 24) this.values.delete(this.values.keys().next().value);
        this.values.set(z, new Float32Array(bytes.buffer));
      }
      return this.values.get(z);
    }

    /** Goes to a slice; predicts it where it is not. */
    async look(z) {
      this.slice = Math.max(0, Math.min(this.facts.slices - 1, z));
      const wanted = this.slice;
      try {
        await this.valuesOf(wanted);
      } catch (error) {
        if (error.message !== Engine.STOPPED) this.fail(error);
        return;
      }
      if (this.slice !== wanted) return;
      this.told("slice");
      if (!this.predictions[wanted] && !this.busy && !this.cancelled) await this.more();
    }

    more() {
      return this.run("Predicting", (turn) => this.predictWanted(turn));
    }

    predictAll() {
      this.wantsAll = true;
      this.cancelled = false;
      return this.more();
    }

    /** The slice that is looked at first, then those beside it. */
    nextSlice() {
      const open = (z) => this.predictions[z] === null;
      if (open(this.slice)) return this.slice;
      if (!this.wantsAll) return -1;
      let best = -1;
      this.predictions.forEach((one, z) => {
        if (open(z) && (best < 0 || Math.abs(z - this.slice) < Math.abs(best - this.slice))) best = z;
      });
      return best;
    }

    async predictWanted(turn) {
      for (let z = this.nextSlice(); z >= 0 && !turn.over; z = this.nextSlice()) {
        const done = this.predictions.filter(Boolean).length;
        const all = this.wantsAll ? this.facts.slices : done + 1;
        this.busy = { words: all > 1 ? `Predicting slice ${done + 1} of ${all}` : "Predicting", done, all, turn };
        this.told("busy");
        const { said, bytes } = await this.engine.ask({ do: "predict", slice: z });
        if (turn.over) return;
        const stride = bytes.length / said.hypotheses.length;
        const hypotheses = said.hypotheses.map((one, at) => ({
          probability: one.probability, mask: bytes.subarray(at * stride, (at + 1) * stride),
        }));
        this.predictions[z] = { hypotheses, draws: said.draws, stands: said.stands, loss: said.list_loss };
        this.facts.memory = this.engine.memory;
        if (z === this.slice) this.told("slice");
      }
      if (turn.over || !this.predictions.every(Boolean)) return;
      this.busy = { words: "Putting the slices together", turn };
      this.told("busy");
      this.whole = (await this.engine.ask({ do: "whole" })).said;
      this.told("whole");
    }

    /** Runs one thing at a time; the last one wins. */
    async run(words, act) {
      if (this.busy) this.busy.turn.over = true;
      const turn = { over: false };
      this.cancelled = false;
      this.busy = { words, turn };
      this.told("busy");
      try {
        await act(turn);
      } catch (error) {
        if (!turn.over && error.message !== Engine.STOPPED) this.fail(error);
      }
      if (turn.over) return;
      this.busy = null;
      this.told("end");
    }

    fail(error) {
      // The folders are the engine's own.
      this.error = error.message.replace(/\b(image|readers|model)\//g, "");
      this.told("error");
    }

    /** Stops predicting. Slices that came stay; the one on its way is waited for where there are several, and given up
     * with the engine where it is the only one. */
    async cancel() {
      if (!this.busy) return;
      this.busy.turn.over = true;
      this.busy = null;
      this.cancelled = true;
      this.wantsAll = false;
      if (!this.predictions.some(Boolean)) {
        if (this.engine) this.engine.stop();
        this.engine = null;
      }
      this.told("end");
    }

    /** Masks and the JSON of `predict`, as [name, bytes]; of all hypotheses, or as `predict --list` writes them. */
    async results(list = null) {
      const { said } = await this.engine.ask({ do: "save", folder: "out", rank: null, list });
      const results = [];
      for (const name of said.files) results.push([name, (await this.engine.ask({ do: "read", file: `out/${name}` })).bytes]);
      return results;
    }
  }

  Object.assign(global.Multivalued, { Study });
})(self);
