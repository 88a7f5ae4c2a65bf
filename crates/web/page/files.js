/* What was dropped or chosen: which files are a model, which are images, and which are readers' masks; and files to be
 * saved. */
(function (global) {
  "use strict";

  const LABEL_WORDS = /^(masks?|segs?|segmentations?|gt|groundtruth|labels?|labelstr|annotations?|manual)\d*$/i;
  const RATER_WORDS = /^(rater|annotator|reader|expert|observer|grader)/i;
  /** Files beside an image that are no images. */
  const COMPANION = /\.(raw|zraw|img|hdr|json|jsonl|txt|csv|md|toml|xml|html|safetensors|tsv|yaml|yml)$|(^|\/)(B3SUMS|DICOMDIR|LICENSE|\.[^/]*)$/i;
  const MODEL_FILES = /(^|\/)(recipe\.toml|mixture\.json)$/;

  const baseName = (path) => path.slice(path.lastIndexOf("/") + 1);
  const folderOf = (path) => path.slice(0, path.lastIndexOf("/") + 1);

  /** A file's name without its ending, `.nii.gz` as a whole. */
  function stem(path) {
    const name = baseName(path).replace(/\.gz$/i, "");
    const at = name.lastIndexOf(".");
    return at > 0 ? name.slice(0, at) : name;
  }

  const partsOf = (name) => name.split(/[_\-\s.]+/).filter(Boolean);
  const isLabelPart = (part) => LABEL_WORDS.test(part) || RATER_WORDS.test(part);

  /** Whether the name or a folder says "mask"; so many outer folders do not count. */
  function saysMask(path, outer = 0) {
    const folders = folderOf(path).split("/").filter(Boolean).slice(outer);
    return [...folders, stem(path)].some((name) => partsOf(name).some(isLabelPart));
  }

  async function isDicom(file) {
    if (/\.dcm$/i.test(file.path)) return true;
    if (/\.(png|jpe?g|tiff?|nii|gz|np[yz]|mh[ad]|nrrd|nhdr)$/i.test(file.path)) return false;
    const head = new Uint8Array(await file.file.slice(128, 132).arrayBuffer());
    return String.fromCharCode(...head) === "DICM";
  }

  /** Sorts files, each { path, file }, into
   * { model: { name, files } or null, images: [{ name, paths, files }], masks: [file] }.
   * `channels`: how many files an image of the model may be made of. */
  async function sorted(files, channels = 1) {
    const named = files.filter((one) => MODEL_FILES.test(one.path)).map((one) => folderOf(one.path));
    // The outermost: members of a mixture lie inside of it.
    const root = named.sort((a, b) => a.length - b.length)[0];
    const ofModel = root === undefined ? [] : files.filter((one) => one.path.startsWith(root));
    const model = ofModel.length
      ? { name: baseName(root.slice(0, -1)) || "model", files: ofModel.map((one) => ({ ...one, path: one.path.slice(root.length) })) }
      : null;
    const rest = files.filter((one) => !ofModel.includes(one));
    const pictures = rest.filter((one) => !COMPANION.test(one.path));
    const companions = rest.filter((one) => COMPANION.test(one.path) && /\.(z?raw|img)$/i.test(one.path));
    // Names that say "mask" of all files say nothing: those inside of a folder that was dropped may say more.
    const outer = [0, 1].find((count) => pictures.some((one) => !saysMask(one.path, count)));
    const isMask = (one) => outer !== undefined && saysMask(one.path, outer);
    const masks = pictures.filter(isMask);
    const others = pictures.filter((one) => !isMask(one));
    const images = [];
    const series = new Map();
    for (const one of others) {
      if (await isDicom(one)) {
        const folder = folderOf(one.path);
        series.set(folder, [...(series.get(folder) || []), one]);
      } else images.push({ name: stem(one.path), paths: [one.path], files: [one, ...companions] });
    }
    for (const [folder, slices] of series) {
      const name = slices.length > 1 ? baseName(folder.slice(0, -1)) || "series" : stem(slices[0].path);
      // A folder is read as a series, whatever the files' names are.
      const placed = slices.map((one, at) => ({ ...one, path: `series/${at}-${baseName(one.path)}` }));
      images.push(slices.length > 1 ? { name, paths: ["series"], files: placed } : { name, paths: [slices[0].path], files: slices });
    }
    return { model, images: channels > 1 ? joined(images, channels) : images, masks };
  }

  /** Images NAME_0000 and NAME_0001 as the channels of NAME, where there are as many as the model takes. */
  function joined(images, channels) {
    const groups = new Map();
    for (const one of images) {
      const name = /^(.+)_\d{4}$/.exec(one.name);
      const key = name ? folderOf(one.paths[0]) + name[1] : one.paths[0];
      groups.set(key, [...(groups.get(key) || []), one]);
    }
    return [...groups.values()].flatMap((group) => {
      if (group.length !== channels) return group;
      group.sort((a, b) => a.name.localeCompare(b.name));
      return [{ name: group[0].name.replace(/_\d{4}$/, ""), paths: group.flatMap((one) => one.paths), files: group.flatMap((one) => one.files) }];
    });
  }

  /** The masks of an image: of an only one all, otherwise those whose names begin with its name. */
  function masksOf(image, images, masks) {
    if (images.length < 2) return masks;
    const own = partsOf(image.name).join("_");
    const begins = (name, start) => name === start || name.startsWith(`${start}_`);
    return masks.filter((mask) => {
      const name = partsOf(stem(mask.path)).join("_");
      const better = images.some((other) => other !== image && other.name.length > image.name.length && begins(name, partsOf(other.name).join("_")));
      return begins(name, own) && !better;
    });
  }

  /** Who drew a mask: what its name has beside that of the image and the words for masks. */
  function readerName(mask, image, number) {
    const own = partsOf(image.name);
    const words = partsOf(stem(mask.path)).filter((part) => !own.includes(part) && !LABEL_WORDS.test(part));
    const folder = folderOf(mask.path).split("/").filter(Boolean).pop() || "";
    const folderWords = partsOf(folder).filter((part) => RATER_WORDS.test(part));
    return words.join(" ") || folderWords.join(" ") || `reader ${number}`;
  }

  /** All files of a drop, folders included. */
  async function dropped(transfer) {
    const entries = [...transfer.items].filter((item) => item.kind === "file").map((item) => item.webkitGetAsEntry && item.webkitGetAsEntry());
    if (!entries.length || entries.some((entry) => !entry)) return chosen(transfer.files);
    const files = [];
    const walk = async (entry) => {
      if (entry.isFile) {
        const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
        files.push({ path: entry.fullPath.replace(/^\//, ""), file });
        return;
      }
      const reader = entry.createReader();
      // A reader gives a hundred at a time.
      for (;;) {
        const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
        if (!some.length) return;
        for (const one of some) await walk(one);
      }
    };
    for (const entry of entries) await walk(entry);
    return files;
  }

  /** The files of an input. */
  function chosen(list) {
    return [...list].map((file) => ({ path: file.webkitRelativePath || file.name, file }));
  }

  /** Files whose bytes came with the page. */
  function given(files) {
    return files.map(({ path, bytes }) => ({ path, file: new Blob([bytes]) }));
  }

  const TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
    for (let k = 0; k < 8; k++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
    return n >>> 0;
  });

  function crc(bytes) {
    let sum = 0xffffffff;
    for (const byte of bytes) sum = TABLE[(sum ^ byte) & 255] ^ (sum >>> 8);
    return (sum ^ 0xffffffff) >>> 0;
  }

  /** A ZIP archive of files, each [name, bytes], stored as they are: masks are packed already, or small. */
  function zipped(files) {
    const [parts, table] = [[], []];
    let at = 0;
    const numbers = (...fields) => {
      const bytes = new Uint8Array(fields.reduce((sum, [size]) => sum + size, 0));
      const view = new DataView(bytes.buffer);
      let place = 0;
      for (const [size, value] of fields) {
        if (size === 2) view.setUint16(place, value, true);
        else view.setUint32(place, value, true);
        place += size;
      }
      return bytes;
    };
    for (const [name, bytes] of files) {
      const named = new TextEncoder().encode(name);
      // Version 2.0, names in UTF-8, stored, 1 January 1980.
      const facts = [[2, 20], [2, 0x800], [2, 0], [2, 0], [2, 33], [4, crc(bytes)], [4, bytes.length], [4, bytes.length], [2, named.length], [2, 0]];
      parts.push(numbers([4, 0x04034b50], ...facts), named, bytes);
      table.push(numbers([4, 0x02014b50], [2, 20], ...facts, [2, 0], [2, 0], [2, 0], [4, 0], [4, at]), named);
      at += 30 + named.length + bytes.length;
    }
    const length = table.reduce((sum, part) => sum + part.length, 0);
    const end = numbers([4, 0x06054b50], [2, 0], [2, 0], [2, files.length], [2, files.length], [4, length], [4, at], [2, 0]);
    return new Blob([...parts, ...table, end], { type: "application/zip" });
  }

  /** Hands a file to the user. */
  function save(name, blob) {
    const link = global.Multivalued.make("a", { href: URL.createObjectURL(blob), download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }

  const files = { baseName, stem, saysMask, sorted, masksOf, readerName, dropped, chosen, given, crc, zipped, save };
  global.Multivalued = Object.assign(global.Multivalued || {}, { files });
  if (typeof module !== "undefined") module.exports = files;
})(typeof self !== "undefined" ? self : globalThis);
