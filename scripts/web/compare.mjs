// node compare.mjs ENGINE.wasm.gz MODEL_FOLDER IMAGES_FOLDER PREDICTIONS_FOLDER
// Holds what the module says of images against what `multivalued predict` wrote of them.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { inflateSync } from "node:zlib";
import { Engine } from "../../crates/web/tests/engine.mjs";

const [wasm, model, images, predictions] = process.argv.slice(2);
const PROBABILITY = 1e-5;
const PIXELS = 1e-6;

/** The pixels of a grey PNG file of 8 bits. */
function pixelsOf(png) {
  const view = new DataView(png.buffer, png.byteOffset, png.length);
  const [width, height] = [view.getUint32(16), view.getUint32(20)];
  const parts = [];
  for (let at = 8; at < png.length; at += 12 + view.getUint32(at)) {
    if (view.getUint32(at + 4) === 0x49444154) parts.push(png.subarray(at + 8, at + 8 + view.getUint32(at)));
  }
  const raw = inflateSync(Buffer.concat(parts));
  const out = new Uint8Array(width * height);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (width + 1)];
    for (let x = 0; x < width; x++) {
      const left = x ? out[y * width + x - 1] : 0;
      const up = y ? out[(y - 1) * width + x] : 0;
      const both = x && y ? out[(y - 1) * width + x - 1] : 0;
      const guess = left + up - both;
      const [a, b, c] = [left, up, both].map((one) => Math.abs(guess - one));
      const paeth = a <= b && a <= c ? left : b <= c ? up : both;
      out[y * width + x] = raw[y * (width + 1) + 1 + x] + [0, left, up, (left + up) >> 1, paeth][filter];
    }
  }
  return out;
}

const engine = new Engine(wasm);
if (engine.imports) throw new Error(`${engine.imports} imports`);
for (const name of readdirSync(model)) {
  if (/safetensors|toml|B3SUMS|fingerprint/.test(name)) engine.give(`model/${name}`, readFileSync(join(model, name)));
}
engine.ask({ do: "model", folder: "model", name: model });
let [count, masks, pixels, different, apart, seconds] = [0, 0, 0, 0, 0, 0];
for (const file of readdirSync(images)) {
  const name = file.replace(/\.png$/, "");
  engine.give(file, readFileSync(join(images, file)));
  engine.ask({ do: "image", files: [file], name });
  const began = performance.now();
  engine.ask({ do: "predict", slice: 0 });
  seconds += (performance.now() - began) / 1000;
  const { said } = engine.ask({ do: "save", folder: "out", rank: null });
  const read = (one) => Buffer.from(engine.ask({ do: "read", file: `out/${one}` }).bytes);
  const own = Object.fromEntries(said.files.map((one) => [one, read(one)]));
  const document = JSON.parse(own["prediction.json"]);
  const wanted = JSON.parse(readFileSync(join(predictions, name, "prediction.json")));
  const [mine, theirs] = [document, wanted].map((one) => one.slices[0].hypotheses);
  if (mine.length !== theirs.length) throw new Error(`${name}: ${mine.length} hypotheses, natively ${theirs.length}`);
  for (const key of ["format", "version", "id", "pixels_blake3", "warnings", "spacing"]) {
    if (JSON.stringify(document[key]) !== JSON.stringify(wanted[key])) throw new Error(`${name}: ${key} is ${JSON.stringify(document[key])}, natively ${JSON.stringify(wanted[key])}`);
  }
  if (document.settings.model_blake3 !== wanted.settings.model_blake3) throw new Error(`${name}: another model`);
  mine.forEach((one, at) => {
    apart = Math.max(apart, Math.abs(one.probability - theirs[at].probability));
    const [a, b] = [pixelsOf(own[one.file]), pixelsOf(readFileSync(join(predictions, name, theirs[at].file)))];
    a.forEach((value, k) => (different += value !== b[k] ? 1 : 0));
    pixels += a.length;
    masks += 1;
  });
  engine.ask({ do: "forget", folder: file });
  count += 1;
}
console.log(`${count} images, ${masks} masks: probabilities differ by at most ${apart.toExponential(1)}, ${different} of ${pixels} pixels are different; ${(1000 * seconds / count).toFixed(0)} ms an image, ${Math.round(engine.memory / 1048576)} MB`);
if (!count || apart > PROBABILITY || different > PIXELS * pixels) throw new Error("the module does not say what the program says");
