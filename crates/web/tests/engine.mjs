// The viewer's WebAssembly module in Node: what worker.js does in a browser.
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";

export class Engine {
  constructor(file) {
    const module = new WebAssembly.Module(gunzipSync(readFileSync(file)));
    this.imports = WebAssembly.Module.imports(module).length;
    this.module = new WebAssembly.Instance(module, {}).exports;
  }

  placed(bytes) {
    const place = this.module.reserve(bytes.length);
    new Uint8Array(this.module.memory.buffer, place, bytes.length).set(bytes);
    return place;
  }

  give(path, bytes) {
    const name = new TextEncoder().encode(path);
    this.module.give(this.placed(name), name.length, this.placed(bytes), bytes.length);
  }

  text(place, length) {
    return new TextDecoder().decode(new Uint8Array(this.module.memory.buffer, place, length));
  }

  ask(request) {
    const { module } = this;
    const asked = new TextEncoder().encode(JSON.stringify(request));
    let worked;
    try {
      worked = module.ask(this.placed(asked), asked.length);
    } catch (error) {
      throw new Error(`${JSON.stringify(request)}: ${error.message}: ${this.text(module.panic(), module.panic_length())}`);
    }
    const said = JSON.parse(this.text(module.answer(), module.answer_length()));
    if (!worked) throw new Error(said.error);
    return { said, bytes: new Uint8Array(module.memory.buffer, module.bytes(), module.bytes_length()).slice() };
  }

  get memory() {
    return this.module.memory.buffer.byteLength;
  }
}
