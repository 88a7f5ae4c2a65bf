// node drive.mjs PUPPETEER_FOLDER CHROMIUM FOLDER_OF_VIEWER PROGRAM PLACE
// Drives the viewer in a real browser, from a disk and from `multivalued view`: drops files, looks, slides, presses keys,
// saves, at three sizes, dark and light. PLACE has slice.png, reader masks, volume.nii.gz and large.png; screenshots are
// left there.
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, chromium, viewer, program, place] = process.argv.slice(2).map((one) => resolve(one));
const puppeteer = createRequire(join(modules, "x.js"))("puppeteer-core");
const SIZES = { desktop: [1440, 900], tablet: [820, 1180], phone: [390, 844] };
// Milliseconds that anything may take.
const LONGEST = Number(process.env.PATIENCE || 60000);
const must = (holds, words) => {
  if (!holds) throw new Error(words);
};

const browser = await puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox", "--disable-gpu"], headless: true });
const faults = [];

async function opened(url, size = "desktop", scheme = "light") {
  const page = await browser.newPage();
  const [width, height] = SIZES[size];
  await page.setViewport({ width, height, deviceScaleFactor: 1, hasTouch: size === "phone", isMobile: size === "phone" });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  page.on("pageerror", (error) => faults.push(`${url}: ${error.message}`));
  page.on("console", (message) => message.type() === "error" && faults.push(`${url}: ${message.text()}`));
  page.on("requestfailed", (request) => faults.push(`${request.url()}: ${request.failure().errorText}`));
  await page.goto(url, { waitUntil: "load", timeout: LONGEST });
  return page;
}

/** Drops files into the page, as a user would. */
async function drop(page, paths) {
  const list = paths.map((path) => ({ name: path.split("/").pop(), base64: readFileSync(join(place, path)).toString("base64") }));
  await page.evaluate((files) => {
    const transfer = new DataTransfer();
    for (const { name, base64 } of files) {
      transfer.items.add(new File([Uint8Array.from(atob(base64), (one) => one.charCodeAt(0))], name));
    }
    for (const name of ["dragover", "drop"]) document.body.dispatchEvent(new DragEvent(name, { dataTransfer: transfer, bubbles: true, cancelable: true }));
  }, list);
}

const idle = (page) => page.waitForFunction(() => {
  const { study } = Multivalued.viewer;
  return study.facts && !study.busy && (study.whole || study.predictions.some(Boolean));
}, { timeout: LONGEST, polling: 100 });
const cards = (page) => page.$$eval("#view .card", (all) => all.length);
const visible = (page) => page.$$eval("#view .card:not(.beyond)", (all) => all.length);
/** How many pixels of the picture have the colour of outlines. */
const orange = (page) => page.evaluate(async () => {
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const canvas = document.querySelector("#view .stage canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let at = 0; at < data.length; at += 4) if (data[at] > data[at + 2] + 40) count += 1;
  return count;
});
const text = (page, selector) => page.$eval(selector, (one) => one.textContent);
async function shot(page, name) {
  const path = join(place, `${name}.png`);
  await page.screenshot({ path });
  const { width, height } = page.viewport();
  const png = readFileSync(path);
  must(png.readUInt32BE(16) === width && png.readUInt32BE(20) === height, `${name}: a picture of ${png.readUInt32BE(16)}x${png.readUInt32BE(20)}`);
  must(png.length > 8000, `${name}: ${png.length} bytes are an empty page`);
  const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  must(wider <= 0, `${name}: the page is ${wider} pixels wider than the window`);
}

const url = pathToFileURL(join(viewer, "index.html")).href;
const readers = readdirSync(place).filter((name) => /mask/.test(name));

// Nothing loaded, at all sizes, dark and light.
for (const size of Object.keys(SIZES)) {
  for (const scheme of ["light", "dark"]) {
    const page = await opened(url, size, scheme);
    must(await page.$eval("#start", (one) => !one.hidden), "the start is shown");
    await shot(page, `empty-${size}-${scheme}`);
    await drop(page, ["slice.png", ...readers]);
    await idle(page);
    must((await cards(page)) > 0, "hypotheses are listed");
    await shot(page, `slice-${size}-${scheme}`);
    await page.close();
  }
}

// One image: outlines, slider, keys, modes, window, saving.
let page = await opened(url);
await drop(page, ["slice.png", ...readers]);
await idle(page);
must(/\d+ hypotheses.*The most probable: Hypothesis 1 of \d+: /.test(await text(page, "#view [aria-live]")), "results are said to screen readers");
const all = await cards(page);
const some = await visible(page);
// models/lidc says more than five things of a nodule: five of them that stand for all are listed first.
const whole = await page.evaluate(() => Multivalued.viewer.study.predictions[0].hypotheses.length);
must(all >= 2 && some === all && (whole <= 5 || all <= 5), `${some} of ${all} hypotheses, ${whole} in all`);
const listed = await page.$$eval("#view .card", (list) => list.reduce((sum, one) => sum + parseFloat(one.querySelector("b").textContent), 0));
must(Math.abs(listed - 100) < 3, `those that stand for all have ${listed} % together`);
must((await orange(page)) > 50, "outlines are drawn");
must((await page.$$eval("#view .chips .reader", (list) => list.length)) === readers.length, "readers are listed");
await page.$eval("#view .until input", (one) => {
  one.value = 100;
  one.dispatchEvent(new Event("input", { bubbles: true }));
});
must((await visible(page)) === all, "100 % shows all");
if (whole > 5) {
  must(/stand for all \d+.*GED/.test(await text(page, "#view .strip")), "the list says what it loses");
  await page.keyboard.press("a");
  must((await cards(page)) === whole, `all ${whole} are listed, not ${await cards(page)}`);
  must((await visible(page)) < whole, "of all, the slider leaves out the least probable");
  await page.click("#view .lists input[value=short]");
  must((await cards(page)) === all && (await visible(page)) === all, "and the short list again");
}
await page.keyboard.press("1");
must((await page.$$eval("#view .card[aria-pressed=true]", (list) => list.length)) === 1, "1 selects one");
await page.keyboard.press("Escape");
must((await page.$$eval("#view .card[aria-pressed=true]", (list) => list.length)) === 0, "Escape selects none");
for (const mode of ["fill", "mean", "disagreement"]) {
  await page.keyboard.press("m");
  must((await page.evaluate(() => Multivalued.viewer.shown.state.mode)) === mode, `m leads to ${mode}`);
  must((await orange(page)) > 50, `${mode} is drawn`);
}
await page.keyboard.press("m");
await page.keyboard.press("o");
const before = await page.evaluate(() => Multivalued.viewer.shown.stage.zoom);
must(before > 1, "o zooms to the outlines");
await page.keyboard.press("w");
must((await page.$eval("#preset", (one) => one.selectedIndex)) === 1, "w takes the next window");
must(/Area .* 90 %/.test(await text(page, "#view .facts")), "sizes are told");
const folder = join(place, "saved");
mkdirSync(folder, { recursive: true });
const session = await page.createCDPSession();
await session.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: folder });
const saved = async (button, name) => {
  rmSync(join(folder, name), { force: true });
  await page.click(button);
  for (let turn = 0; turn < 100 && !existsSync(join(folder, name)); turn++) await new Promise((done) => setTimeout(done, 100));
  must(existsSync(join(folder, name)), `${name} was saved`);
  return readFileSync(join(folder, name));
};
const document_ = JSON.parse(await saved("#save-json", "prediction.json"));
must(document_.format === "multivalued-prediction" && document_.slices[0].hypotheses.length === whole, "the JSON has all hypotheses");
if (whole > 5) {
  await page.select("#saved", "list");
  const zip = await saved("#save-masks", "slice-prediction.zip");
  must(zip.readUInt32LE(0) === 0x04034b50 && zip.readUInt16LE(zip.length - 12) === all + 1, `the archive of the list has ${all + 1} files`);
  must(/"list": ?5/.test(zip.toString("latin1")), "its JSON says that it is the list");
}

// For screen readers: every control has a name, hypotheses have their probability, results are said.
const nodes = [];
const walk = (node) => (nodes.push(node), (node.children || []).forEach(walk));
walk(await page.accessibility.snapshot());
const CONTROLS = ["button", "radio", "checkbox", "slider", "combobox", "spinbutton", "textbox", "image", "progressbar"];
const controls = nodes.filter((one) => CONTROLS.includes(one.role));
const nameless = controls.filter((one) => !(one.name || "").trim());
must(controls.length > 15 && !nameless.length, `${nameless.length} of ${controls.length} controls have no name: ${JSON.stringify(nameless.slice(0, 4))}`);
const spoken = nodes.filter((one) => one.role === "button" && /^Hypothesis \d+ of \d+: .*%, (area|nothing)/.test(one.name));
must(spoken.length === all, `${spoken.length} of ${all} hypotheses are said with their probability`);
must(nodes.some((one) => one.role === "image" && /hypotheses/.test(one.name)), "the picture is described");
await page.pdf({ path: join(place, "print.pdf") });
must(statSync(join(place, "print.pdf")).size > 10000, "the page prints");
await page.close();

// A volume: slices by slider, wheel and keys, whole volumes.
page = await opened(url, "desktop", "dark");
await drop(page, ["volume.nii.gz"]);
await idle(page);
await page.waitForFunction(() => Multivalued.viewer.study.whole, { timeout: LONGEST, polling: 100 });
const slice = () => page.evaluate(() => Multivalued.viewer.study.slice);
const first = await slice();
await page.keyboard.press("PageDown");
must((await slice()) === first + 1, "Page down goes to the next slice");
const stage = await page.$("#view .stage canvas");
await stage.hover();
await page.mouse.wheel({ deltaY: -100 });
await page.waitForFunction((at) => Multivalued.viewer.study.slice === at, { timeout: 5000 }, first);
must(/^Volume .* 90 %/.test(await text(page, "#view .facts b")), "volumes are told");
await shot(page, "volume-desktop-dark");
await page.click("#scope input[value=slice]");
must(/^(Area|Nothing there)/.test(await text(page, "#view .facts b")), "this slice alone");
await page.close();

// TIFF; a DICOM series, in Hounsfield units and with its spacing.
page = await opened(url);
await drop(page, ["scan.tif"]);
await idle(page);
must((await cards(page)) > 0 && /128 × 128/.test(await text(page, "#facts")), "a TIFF file is read");
await drop(page, ["ct-1.dcm", "ct-2.dcm", "ct-3.dcm"]);
await page.waitForFunction(() => Multivalued.viewer.study.whole && Multivalued.viewer.study.facts.slices === 3, { timeout: LONGEST, polling: 100 });
must(/96 × 96 × 3 · 0.7 × 0.7 × 2.5 mm/.test(await text(page, "#facts")), `a DICOM series is read: ${await text(page, "#facts")}`);
must((await page.$eval("#preset", (one) => one.value)) === "Lung", "CT has its windows");
const names = await page.evaluate(async () => (await Multivalued.viewer.study.results()).map(([name]) => name));
must(names.some((name) => /\.nii\.gz$/.test(name)) && names.includes("prediction.json"), `DICOM is saved as NIfTI: ${names}`);
await shot(page, "dicom-desktop-light");
await page.close();

// A mixture, as `combine` makes it, is dropped as a folder with an image.
page = await opened(url);
const mixture = ["mixture.json", "recipe.toml", ...[1, 2].flatMap((k) => ["B3SUMS", "model.safetensors", "recipe.toml"].map((name) => `member-${k}/${name}`))];
const given = [...mixture.map((name) => [`both/${name}`, join(place, "both", name)]), ["triangle.png", join(place, "shapes.png")]];
await page.evaluate((files) => Multivalued.viewer.take(files.map(([path, base64]) => ({ path, file: new Blob([Multivalued.masks.bytesOf(base64)]) }))),
  given.map(([path, file]) => [path, readFileSync(file).toString("base64")]));
await idle(page);
must((await page.evaluate(() => Multivalued.viewer.study.model.members)) === 2 && (await cards(page)) >= 3, "a mixture of two predicts");
await page.close();

// The example, an error, and a cancelled prediction.
page = await opened(url, "tablet");
await page.click("#example");
await idle(page);
must((await cards(page)) === 4, "a triangle has four answers");
await shot(page, "example-tablet-light");
await page.close();
page = await opened(url, "phone");
await page.evaluate(() => Multivalued.viewer.take([{ path: "broken.png", file: new Blob(["no image at all"]) }]));
await page.waitForSelector(".notice.error", { timeout: LONGEST });
must(/broken.png/.test(await text(page, ".notice.error")), "the error names the file");
await shot(page, "error-phone-light");
await page.close();
page = await opened(url);
await drop(page, ["large.png"]);
await page.waitForFunction(() => Multivalued.viewer.study.busy && Multivalued.viewer.study.facts, { timeout: LONGEST, polling: 20 });
await shot(page, "busy-desktop-light");
await page.click("#cancel");
must(await page.$eval("#progress", (one) => one.hidden), "a cancelled prediction is over");
await drop(page, ["large.png"]);
await idle(page);
const memory = await page.evaluate(() => Multivalued.viewer.study.engine.memory / 1048576);
must(memory < 300, `512x512 pixels take ${memory} MB`);
must(/Unlike the training data/.test(await text(page, "#notices")), "an image unlike the training data is told of");
await shot(page, "large-desktop-light");
await page.close();

/** Runs a command that serves until the act is done with its address. */
async function served(words, act) {
  const server = spawn(program, words);
  try {
    const address = await new Promise((done, fail) => {
      let said = "";
      server.stdout.on("data", (data) => {
        said += data;
        const found = /http:\S+/.exec(said);
        if (found) done(found[0]);
      });
      server.on("exit", (code) => fail(new Error(`${words[0]} ended with ${code}`)));
    });
    await act(address);
  } finally {
    server.removeAllListeners("exit");
    server.kill("SIGINT");
  }
}

// Served by the program, with a model and an image.
await served(["view", "shapes", join(place, "shapes.png"), "--no-open"], async (address) => {
  page = await opened(address);
  await idle(page);
  must((await cards(page)) >= 3 && (await page.$eval("#model", (one) => one.value)) === "shapes", "the given image is shown");
  await page.close();
});

// The server's own page has the served model first; with a token only those who know it see that.
await served(["serve", `mine=${join(place, "both")}`, "--port", "0", "--device", "cpu", "--token", "secret"], async (address) => {
  const offered = () => page.$$eval("#model option", (list) => list.map((one) => one.value));
  page = await browser.newPage();
  await page.authenticate({ username: "anybody", password: "secret" });
  await page.goto(address, { waitUntil: "load", timeout: LONGEST });
  must((await offered())[0] === "mine", `the served model is first: ${await offered()}`);
  await drop(page, ["shapes.png"]);
  await idle(page);
  must((await page.evaluate(() => Multivalued.viewer.study.model.members)) === 2 && (await cards(page)) >= 3, "it predicts in the page");
  await page.close();
  const refused = await fetch(`${address}given/model-1.js`);
  must(refused.status === 401 && (await fetch(`${address}viewer.js`)).status === 200, "without the token there is no model");
});
await browser.close();
must(!faults.length, `faults of the page:\n${faults.join("\n")}`);
console.log(`the page works: ${all} hypotheses of the slice, ${Math.round(memory)} MB for 512x512 pixels`);
