/* The WebAssembly module in a worker of its own: requests as promises, in turn.
 *
 *   const engine = await Engine.start(bytes)       the module's bytes, gzipped
 *   await engine.give(path, buffer)                hands a file over; the buffer is gone afterwards
 *   const { said, bytes } = await engine.ask({ do: "predict", slice: 3 })
 *   engine.stop()                                  whoever waits is refused with `Engine.STOPPED`
 */
(function (global) {
  "use strict";

  /** What the worker runs: its text is handed over, since a page from a disk may load no other script into a worker.
   * It knows nothing of what is around it. */
  function work() {
    let module = null;

    function placed(bytes) {
      const place = module.reserve(bytes.length);
      new Uint8Array(module.memory.buffer, place, bytes.length).set(bytes);
      return place;
    }

    const text = (place, length) => new TextDecoder().decode(new Uint8Array(module.memory.buffer, place, length));

    const acts = {
      async start({ bytes }) {
        const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
        module = (await WebAssembly.instantiate(await new Response(unpacked).arrayBuffer(), {})).instance.exports;
        return {};
      },
      give({ path, bytes }) {
        const name = new TextEncoder().encode(path);
        const content = new Uint8Array(bytes);
        module.give(placed(name), name.length, placed(content), content.length);
        return {};
      },
      ask({ request }) {
        const asked = new TextEncoder().encode(JSON.stringify(request));
        const worked = module.ask(placed(asked), asked.length);
        const said = JSON.parse(text(module.answer(), module.answer_length()));
        if (!worked) throw new Error(said.error);
        const bytes = new Uint8Array(module.memory.buffer, module.bytes(), module.bytes_length()).slice();
        return { said, bytes, memory: module.memory.buffer.byteLength };
      },
    };

    self.onmessage = async ({ data }) => {
      try {
        const result = await acts[data.act](data);
        self.postMessage({ number: data.number, result }, result.bytes ? [result.bytes.buffer] : []);
      } catch (error) {
        // A module that trapped has said why before.
        const trapped = error instanceof WebAssembly.RuntimeError;
        const words = trapped && module.panic_length() ? text(module.panic(), module.panic_length()) : "";
        const said = words ? `The engine stopped: ${words}` : error.message;
        self.postMessage({ number: data.number, error: said, trapped });
      }
    };
  }

  const STOPPED = "stopped";

  class Engine {
    static async start(bytes) {
      const engine = new Engine();
      await engine.send({ act: "start", bytes });
      return engine;
    }

    constructor() {
      const url = URL.createObjectURL(new Blob([`(${work})()`], { type: "text/javascript" }));
      this.worker = new Worker(url);
      URL.revokeObjectURL(url);
      this.waiting = new Map();
      this.count = 0;
      this.memory = 0;
      this.dead = false;
      this.worker.onmessage = ({ data }) => this.heard(data);
      this.worker.onerror = (event) => this.stop(event.message || "the worker failed");
    }

    heard({ number, result, error, trapped }) {
      const { resolve, reject } = this.waiting.get(number);
      this.waiting.delete(number);
      if (result) {
        this.memory = result.memory || this.memory;
        resolve(result);
        return;
      }
      reject(new Error(error));
      if (trapped) this.stop(error);
    }

    send(message, moved = []) {
      if (this.dead) return Promise.reject(new Error(STOPPED));
      const number = (this.count += 1);
      return new Promise((resolve, reject) => {
        this.waiting.set(number, { resolve, reject });
        this.worker.postMessage({ ...message, number }, moved);
      });
    }

    give(path, buffer) {
      return this.send({ act: "give", path, bytes: buffer }, [buffer]);
    }

    ask(request) {
      return this.send({ act: "ask", request });
    }

    stop(reason = STOPPED) {
      this.dead = true;
      this.worker.terminate();
      for (const { reject } of this.waiting.values()) reject(new Error(reason));
      this.waiting.clear();
    }
  }
  Engine.STOPPED = STOPPED;

  /* Bytes that come as scripts: `bring` is called by them, `fetched` by whoever wants them. */
  const brought = new Map();

  function bring(name, files) {
    brought.get(name).resolve(files.map(([file, base64]) => ({ path: file, bytes: global.Multivalued.masks.bytesOf(base64) })));
  }

  /** The files that the script NAME.js brings; a script is loaded once for each time it is asked for, so that nobody
   * holds the bytes twice. */
  function fetched(name) {
    return new Promise((resolve, reject) => {
      const script = document.createElement("script");
      const end = (act) => (value) => {
        script.remove();
        brought.delete(name);
        act(value);
      };
      brought.set(name, { resolve: end(resolve) });
      script.src = `${name.split("/").map(encodeURIComponent).join("/")}.js`;
      script.onerror = () => end(reject)(new Error(`${name}.js: cannot be loaded; it belongs beside the page`));
      document.head.append(script);
    });
  }

  Object.assign(global.Multivalued, { Engine, bring, fetched });
})(self);
