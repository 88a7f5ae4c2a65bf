// node material.mjs PLACE: what the browser is given. A slice with readers' masks (of LIDC-IDRI where PLACE/lidc has
// any, else a shape), a volume of a few slices, and an image of 512x512 pixels.
import { copyFileSync, existsSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { crc32, deflateSync, gzipSync } from "node:zlib";

const [place] = process.argv.slice(2);
const sums = Int32Array.from({ length: 256 }, (_, n) => {
  for (let k = 0; k < 8; k++) n = n & 1 ? -306674912 ^ (n >>> 1) : n >>> 1;
  return n;
});
const crc = crc32 || ((bytes) => (bytes.reduce((sum, byte) => sums[(sum ^ byte) & 255] ^ (sum >>> 8), -1) ^ -1) >>> 0);

function png(width, height, value) {
  const rows = Buffer.alloc((width + 1) * height);
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) rows[y * (width + 1) + 1 + x] = value(x, y);
  const chunk = (name, data) => {
    const body = Buffer.concat([Buffer.from(name), data]);
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(data.length);
    sum.writeUInt32BE(crc(body));
    return Buffer.concat([length, body, sum]);
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head[8] = 8;
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  return Buffer.concat([signature, chunk("IHDR", head), chunk("IDAT", deflateSync(rows)), chunk("IEND", Buffer.alloc(0))]);
}

// A soft round spot on a dark ground with some texture: what a nodule looks like from afar.
const spot = (size, x, y, radius) => {
  const far = Math.hypot(x - size / 2, y - size / 2);
  const ground = 40 + 12 * Math.sin(x / 7) * Math.cos(y / 9);
  return Math.max(0, Math.min(255, ground + 150 / (1 + Math.exp((far - radius) / 1.5))));
};

/** A NIfTI file of 16-bit numbers in Hounsfield units. */
function nifti(width, height, depth, value) {
  const file = Buffer.alloc(352 + 2 * width * height * depth);
  file.writeInt32LE(348, 0);
  [3, width, height, depth, 1, 1, 1, 1].forEach((number, at) => file.writeInt16LE(number, 40 + 2 * at));
  file.writeInt16LE(4, 70);
  file.writeInt16LE(16, 72);
  [1, 0.7, 0.7, 2.5, 1, 1, 1, 1].forEach((number, at) => file.writeFloatLE(number, 76 + 4 * at));
  file.writeFloatLE(352, 108);
  file.writeInt8(2, 123);
  file.write("n+1\0", 344, "latin1");
  let at = 352;
  for (let z = 0; z < depth; z++) for (let y = 0; y < height; y++) for (let x = 0; x < width; x++, at += 2) file.writeInt16LE(Math.round(value(x, y, z)), at);
  return file;
}

// The first slice of LIDC in which all readers drew, each a mask that is large enough to be seen.
function lidcSlice() {
  const root = join(place, "lidc", "lidc-test");
  if (!existsSync(root)) return null;
  for (const patient of readdirSync(root).sort()) {
    const folder = join(root, patient);
    if (!statSync(folder).isDirectory()) continue;
    for (const nodule of readdirSync(folder).sort()) {
      const images = join(folder, nodule, "images");
      if (!existsSync(images)) continue;
      const names = readdirSync(images).sort((a, b) => parseInt(a.slice(6), 10) - parseInt(b.slice(6), 10));
      if (names.length < 7) continue;
      const file = names[Math.floor(names.length / 2)];
      const masks = [0, 1, 2, 3].map((k) => join(folder, nodule, `mask-${k}`, file));
      if (masks.every((mask) => existsSync(mask) && statSync(mask).size > 105)) return { image: join(images, file), masks };
    }
  }
  return null;
}

const found = lidcSlice();
if (found) {
  copyFileSync(found.image, join(place, "slice.png"));
  found.masks.forEach((mask, k) => copyFileSync(mask, join(place, `slice_mask-${k + 1}.png`)));
} else {
  writeFileSync(join(place, "slice.png"), png(128, 128, (x, y) => spot(128, x, y, 9)));
  [8, 10].forEach((radius, k) => writeFileSync(join(place, `slice_mask-${k + 1}.png`), png(128, 128, (x, y) => (Math.hypot(x - 64, y - 64) < radius ? 255 : 0))));
}
writeFileSync(join(place, "large.png"), png(512, 512, (x, y) => spot(512, x, y, 22)));
const radius = [2, 6, 9, 10, 8, 4];
writeFileSync(join(place, "volume.nii.gz"), gzipSync(nifti(96, 96, 6, (x, y, z) => -860 + 4.4 * spot(96, x, y, radius[z]))));
