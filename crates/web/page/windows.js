/* Windows: which values are shown from black to white. */
(function (global) {
  "use strict";

  /** Level and width in Hounsfield units. */
  const CT = { Lung: [-600, 1500], "Soft tissue": [40, 400], Mediastinum: [50, 350], Bone: [400, 1800] };

  /** Whether values look like Hounsfield units: air is about -1000, tissue about 0. A part of a lung may have no tissue;
   * of a DICOM file air is enough. */
  const isCt = ([low, high], isDicom = false) => low <= -500 && low >= -4096 && (isDicom || high >= 100);

  const ends = ([level, width]) => [level - width / 2, level + width / 2];

  /** The values between which nearly all of a slice lie. */
  function middle(values) {
    const step = Math.max(1, Math.floor(values.length / 20000));
    const some = [];
    for (let at = 0; at < values.length; at += step) some.push(values[at]);
    some.sort((a, b) => a - b);
    const low = some[Math.floor(0.005 * (some.length - 1))];
    const high = some[Math.ceil(0.995 * (some.length - 1))];
    return high > low ? [low, high] : [low - 0.5, low + 0.5];
  }

  /** Names and windows for an image of a range; the first is where one begins. */
  function presets(range, values, isDicom = false) {
    const whole = range[1] > range[0] ? [...range] : [range[0] - 0.5, range[0] + 0.5];
    if (isCt(range, isDicom)) return { ...Object.fromEntries(Object.entries(CT).map(([name, window]) => [name, ends(window)])), "All values": whole };
    const isBytes = range[0] >= 0 && range[1] <= 255 && range[1] > 1;
    return isBytes ? { "0 to 255": [0, 255], "Nearly all values": middle(values), "All values": whole } : { "Nearly all values": middle(values), "All values": whole };
  }

  global.Multivalued = Object.assign(global.Multivalued || {}, { windows: { presets, isCt, middle } });
  if (typeof module !== "undefined") module.exports = global.Multivalued.windows;
})(typeof self !== "undefined" ? self : globalThis);
