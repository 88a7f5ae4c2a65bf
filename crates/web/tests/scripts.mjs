// The page's scripts that need no page.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const masks = require("../page/masks.js");
const files = require("../page/files.js");
const windows = require("../page/windows.js");

// Masks come in three ways and are the same.
const plane = [0, 1, 1, 0, 0, 1, 0, 0, 0, 1];
assert.deepEqual([...masks.planesOf([1, 2, 2, 1, 3, 1], 10, 1)[0]], plane);
assert.deepEqual([...masks.planesOf(new Uint8Array([0b00100110, 0b10]), 10, 1)[0]], plane);
assert.deepEqual([...masks.planesOf({ labels: Uint8Array.from(plane) }, 10, 1)[0]], plane);
assert.equal(masks.quantile([{ size: 0, probability: 0.3 }, { size: 20, probability: 0.5 }, { size: 60, probability: 0.2 }], 0.5), 20);
assert.equal(masks.countUntil([0.5, 0.3, 0.2], 0.8), 2);

// What is dropped is sorted: a model, images, readers' masks.
const file = (path, content = "") => ({ path, file: new Blob([content]) });
const dicom = `${" ".repeat(128)}DICM`;
let found = await files.sorted([file("m/recipe.toml"), file("m/model.safetensors"), file("m/member-1/recipe.toml"), file("a.png"), file("masks/a_1.png"), file("a_reader2.png"), file("notes.txt")]);
assert.equal(found.model.name, "m");
assert.deepEqual(found.model.files.map((one) => one.path), ["recipe.toml", "model.safetensors", "member-1/recipe.toml"]);
assert.deepEqual(found.images.map((one) => one.name), ["a"]);
assert.deepEqual(found.masks.map((one) => one.path), ["masks/a_1.png", "a_reader2.png"]);
found = await files.sorted([file("label-study/images/a.png"), file("label-study/masks/a.png")]);
assert.deepEqual([found.images[0].paths[0], found.masks[0].path], ["label-study/images/a.png", "label-study/masks/a.png"]);
found = await files.sorted([file("case/images/a.png"), file("case/masks/a_1.png"), file("case/masks/a_2.png")]);
assert.deepEqual(found.masks.map((one) => files.readerName(one, found.images[0], 1)), ["1", "2"]);
found = await files.sorted([file("CT/1", dicom), file("CT/2", dicom), file("CT/DICOMDIR", dicom), file("x.nii.gz"), file("y.mhd"), file("y.raw")]);
assert.deepEqual(found.images.map((one) => [one.name, one.paths[0]]), [["x", "x.nii.gz"], ["y", "y.mhd"], ["CT", "series"]]);
assert.equal(found.images[2].files.length, 2);
found = await files.sorted([file("only_mask.png")]);
assert.equal(found.images.length, 1, "where all names say mask, none does");
found = await files.sorted([file("p_0001.png"), file("p_0000.png"), file("q.png")], 2);
assert.deepEqual(found.images.map((one) => [one.name, one.paths]), [["p", ["p_0000.png", "p_0001.png"]], ["q", ["q.png"]]]);
const images = [{ name: "a" }, { name: "a-1" }];
const of = (image) => files.masksOf(image, images, [file("a_mask.png"), file("a-1-seg2.png")]).map((one) => one.path);
assert.deepEqual(images.map(of), [["a_mask.png"], ["a-1-seg2.png"]]);

// An archive that others can read: the sum of "123456789" is in the standard.
const bytes = new TextEncoder().encode("123456789");
assert.equal(files.crc(bytes), 0xcbf43926);
const zip = Buffer.from(await files.zipped([["ä.txt", bytes], ["b", new Uint8Array(0)]]).arrayBuffer());
const table = zip.readUInt32LE(zip.length - 6);
assert.deepEqual([zip.readUInt32LE(0), zip.readUInt32LE(table), zip.readUInt16LE(zip.length - 12)], [0x04034b50, 0x02014b50, 2]);
assert.equal(zip.readUInt32LE(14), 0xcbf43926);
assert.equal(zip.subarray(30 + 6, 30 + 6 + 9).toString(), "123456789");

// Windows.
assert.deepEqual(Object.values(windows.presets([-1024, 3071], []))[0], [-1350, 150]);
assert.deepEqual(Object.values(windows.presets([0, 240], new Float32Array(10)))[0], [0, 255]);
assert.deepEqual([windows.isCt([-900, 20]), windows.isCt([-900, 20], true), windows.isCt([0, 255], true)], [false, true, false]);
assert.deepEqual(windows.presets([7, 7], new Float32Array([7, 7]))["All values"], [6.5, 7.5]);
console.log("ok");
