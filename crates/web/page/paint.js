/* How images, outlines and maps are painted: one hue for hypotheses, stronger where they are more probable; blue for
 * readers. */
(function (global) {
  "use strict";

  const { masks } = global.Multivalued;
  const WEAK = [128, 70, 18];
  const STRONG = [255, 176, 64];
  const READER = "#4aa3ff";

  /** How strongly a probability is shown: 1 % must still be seen, and 25 % be told from 50 %. */
  const strength = (probability) => Math.sqrt(Math.max(0, Math.min(1, probability)));

  const mixed = (t) => WEAK.map((low, k) => Math.round(low + (STRONG[k] - low) * t));

  /** The colour of a probability. */
  const colour = (probability, alpha = 1) => `rgba(${mixed(strength(probability)).join(",")},${alpha})`;

  /** The width of an outline in screen pixels. */
  const width = (probability) => 0.9 + 2.6 * strength(probability);

  /** A canvas of an image's pixels. `image` is the data's; a url must have been loaded before. */
  function baseOf(image, columns, rows, window) {
    const canvas = document.createElement("canvas");
    canvas.width = columns;
    canvas.height = rows;
    const context = canvas.getContext("2d");
    if (image.loaded) {
      context.drawImage(image.loaded, 0, 0, columns, rows);
      return canvas;
    }
    const pixels = context.createImageData(columns, rows);
    const bytes = (value) => (typeof value === "string" ? masks.bytesOf(value) : value);
    if (image.values) windowed(image.values, image.channels || 1, window || image.window, pixels.data);
    else if (image.rgb) spread(bytes(image.rgb), 3, pixels.data);
    else spread(bytes(image.grey), 1, pixels.data);
    context.putImageData(pixels, 0, 0);
    return canvas;
  }

  function spread(bytes, channels, out) {
    for (let at = 0; at < out.length / 4; at++) {
      for (let k = 0; k < 3; k++) out[4 * at + k] = bytes[at * channels + (channels === 3 ? k : 0)];
      out[4 * at + 3] = 255;
    }
  }

  /** Values between the ends of a window become grey levels. Channels are side by side in a pixel; three or four are
   * red, green and blue, of any other number the first is shown. */
  function windowed(values, channels, [low, high], out) {
    const scale = 255 / Math.max(1e-12, high - low);
    const rgb = channels === 3 || channels === 4;
    for (let at = 0; at < out.length / 4; at++) {
      for (let k = 0; k < 3; k++) out[4 * at + k] = (values[at * channels + (rgb ? k : 0)] - low) * scale;
      out[4 * at + 3] = 255;
    }
  }

  /** A path in coordinates of pixels. */
  function pathOf(loops) {
    const path = new Path2D();
    for (const loop of loops) {
      for (let at = 0; at < loop.length; at += 2) path[at ? "lineTo" : "moveTo"](loop[at], loop[at + 1]);
      path.closePath();
    }
    return path;
  }

  /** A line of some screen pixels over a darker one, so that it is seen on any background. */
  function outline(context, path, style, wide, scale, dash) {
    context.lineJoin = "round";
    context.setLineDash([]);
    context.strokeStyle = "rgba(0,0,0,.45)";
    context.lineWidth = (wide + 1.6) / scale;
    context.stroke(path);
    context.setLineDash((dash || []).map((length) => length / scale));
    context.strokeStyle = style;
    context.lineWidth = wide / scale;
    context.stroke(path);
    context.setLineDash([]);
  }

  /** A map of shares as a canvas of colours; nothing is painted where the share is 0. */
  function mapOf(values, columns, rows) {
    const canvas = document.createElement("canvas");
    canvas.width = columns;
    canvas.height = rows;
    const context = canvas.getContext("2d");
    const pixels = context.createImageData(columns, rows);
    values.forEach((value, at) => {
      if (value <= 0) return;
      pixels.data.set([...mixed(value), 50 + 170 * value], 4 * at);
    });
    context.putImageData(pixels, 0, 0);
    return canvas;
  }

  /** The box [x, y, width, height] around all planes, with room beside it and no smaller than an eighth of the
   * image; the whole image where they are empty. */
  function boxAround(planes, columns, rows) {
    let [left, top, right, bottom] = [columns, rows, 0, 0];
    for (const plane of planes) {
      for (let at = plane.indexOf(1); at >= 0 && at < plane.length; at++) {
        if (!plane[at]) continue;
        const [x, y] = [at % columns, Math.floor(at / columns)];
        left = Math.min(left, x), right = Math.max(right, x + 1);
        top = Math.min(top, y), bottom = Math.max(bottom, y + 1);
      }
    }
    if (left >= right) return [0, 0, columns, rows];
    const side = Math.max((right - left) * 1.3, (bottom - top) * 1.3, Math.min(columns, rows) / 8);
    const around = (low, high, all) => {
      const length = Math.min(side, all);
      return [Math.max(0, Math.min(all - length, (low + high - length) / 2)), length];
    };
    const [[x, w], [y, h]] = [around(left, right, columns), around(top, bottom, rows)];
    return [x, y, w, h];
  }

  /** A small picture of a part of the image with one outline, or none. */
  function thumbnail(canvas, base, [x, y, w, h], path, style) {
    const context = canvas.getContext("2d");
    const scale = Math.min(canvas.width / w, canvas.height / h);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = "#000";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.setTransform(scale, 0, 0, scale, (canvas.width - w * scale) / 2 - x * scale, (canvas.height - h * scale) / 2 - y * scale);
    context.imageSmoothingEnabled = scale < 12;
    context.drawImage(base, 0, 0);
    if (path) outline(context, path, style, 3, scale);
  }

  const paint = { READER, strength, colour, width, baseOf, pathOf, outline, mapOf, boxAround, thumbnail };
  Object.assign(global.Multivalued, { paint });
})(self);
