// node material.mjs PLACE: what the browser is given. A slice with readers' masks (of LIDC-IDRI where PLACE/lidc has
// any, else a shape), a volume of a few slices, an image of 512x512 pixels, a TIFF file, and a DICOM series.
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

/** A TIFF file of grey bytes. */
function tiff(width, height, value) {
  const entries = [[256, 4, width], [257, 4, height], [258, 3, 8], [259, 3, 1], [262, 3, 1], [273, 4, 8], [277, 3, 1], [278, 4, height], [279, 4, width * height]];
  const pixels = Buffer.alloc(width * height);
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) pixels[y * width + x] = value(x, y);
  const [head, table] = [Buffer.alloc(8), Buffer.alloc(2 + 12 * entries.length + 4)];
  head.write("II*\0", "latin1");
  head.writeUInt32LE(8 + pixels.length, 4);
  table.writeUInt16LE(entries.length, 0);
  entries.forEach(([tag, type, number], k) => {
    const at = 2 + 12 * k;
    table.writeUInt16LE(tag, at);
    table.writeUInt16LE(type, at + 2);
    table.writeUInt32LE(1, at + 4);
    table.writeUInt32LE(number, at + 8);
  });
  return Buffer.concat([head, pixels, table]);
}

/** A slice of a CT series as a DICOM file: explicit, little endian, 16 bits. */
function dicom(width, height, z, value) {
  const element = (group, number, kind, content) => {
    const short = (one) => Buffer.from(Uint16Array.of(one).buffer);
    let bytes = typeof content === "string" ? Buffer.from(content, "latin1") : content;
    if (bytes.length % 2) bytes = Buffer.concat([bytes, Buffer.from(kind === "UI" ? "\0" : " ")]);
    const long = kind === "OB" || kind === "OW";
    const length = Buffer.alloc(long ? 6 : 2);
    if (long) length.writeUInt32LE(bytes.length, 2);
    else length.writeUInt16LE(bytes.length);
    return Buffer.concat([short(group), short(number), Buffer.from(kind), length, bytes]);
  };
  const number = (one) => Buffer.from(Uint16Array.of(one).buffer);
  const pixels = Buffer.alloc(2 * width * height);
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) pixels.writeInt16LE(Math.round(value(x, y)) + 1024, 2 * (y * width + x));
  const [kind, own] = ["1.2.840.10008.5.1.4.1.1.2", `1.2.3.4.${z + 1}`];
  const meta = Buffer.concat([element(2, 1, "OB", Buffer.from([0, 1])), element(2, 2, "UI", kind), element(2, 3, "UI", own), element(2, 0x10, "UI", "1.2.840.10008.1.2.1"), element(2, 0x12, "UI", "1.2.3")]);
  const size = Buffer.alloc(4);
  size.writeUInt32LE(meta.length);
  return Buffer.concat([
    Buffer.alloc(128), Buffer.from("DICM"), element(2, 0, "UL", size), meta,
    element(8, 0x16, "UI", kind), element(8, 0x18, "UI", own), element(8, 0x60, "CS", "CT"),
    element(0x10, 0x10, "PN", "Nobody"), element(0x18, 0x50, "DS", "2.5"), element(0x20, 0xd, "UI", "1.2.3.5"), element(0x20, 0xe, "UI", "1.2.3.6"),
    element(0x20, 0x13, "IS", String(z + 1)), element(0x20, 0x32, "DS", `0\\0\\${2.5 * z}`), element(0x20, 0x37, "DS", "1\\0\\0\\0\\1\\0"),
    element(0x28, 2, "US", number(1)), element(0x28, 4, "CS", "MONOCHROME2"), element(0x28, 0x10, "US", number(height)), element(0x28, 0x11, "US", number(width)),
    element(0x28, 0x30, "DS", "0.7\\0.7"), element(0x28, 0x100, "US", number(16)), element(0x28, 0x101, "US", number(16)), element(0x28, 0x102, "US", number(15)),
    element(0x28, 0x103, "US", number(1)), element(0x28, 0x1052, "DS", "-1024"), element(0x28, 0x1053, "DS", "1"), element(0x7fe0, 0x10, "OW", pixels),
  ]);
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
writeFileSync(join(place, "scan.tif"), tiff(128, 128, (x, y) => spot(128, x, y, 9)));
[0, 1, 2].forEach((z) => writeFileSync(join(place, `ct-${z + 1}.dcm`), dicom(96, 96, z, (x, y) => -860 + 4.4 * spot(96, x, y, 6 + 2 * z))));
