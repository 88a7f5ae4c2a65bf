// node ask.mjs ENGINE.wasm.gz STEPS.json: hands files to the module and asks it; a line of JSON for every answer.
import { readFileSync } from "node:fs";
import { Engine } from "./engine.mjs";

const [wasm, steps] = process.argv.slice(2);
const engine = new Engine(wasm);
const say = (line) => console.log(JSON.stringify(line));
say({ imports: engine.imports });
for (const { give, ask } of JSON.parse(readFileSync(steps, "utf8"))) {
  if (give) engine.give(give[0], readFileSync(give[1]));
  else {
    try {
      const { said, bytes } = engine.ask(ask);
      say({ said, bytes: Buffer.from(bytes).toString("hex") });
    } catch (error) {
      say({ error: error.message });
    }
  }
}
