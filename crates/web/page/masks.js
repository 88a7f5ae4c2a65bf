/* Masks and what can be counted of them: no drawing, no page, so that Node can test it.
 *
 * A mask comes in one of three ways, for `classes` planes of width x height pixels, row by row, plane after plane:
 *   [3, 2, 7, …]            run lengths, first of pixels outside, then inside, and so on; what is missing is outside
 *   "BASE64" or Uint8Array  packed bits, the first pixel in the lowest bit; every plane begins with a new byte
 *   { labels: Uint8Array }  a number for each pixel: 0 outside, 1 the first class, 2 the second
 */
(function (global) {
  "use strict";

  function bytesOf(base64) {
    const text = atob(base64);
    const bytes = new Uint8Array(text.length);
    for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
    return bytes;
  }

  /** A mask as one Uint8Array of 0 and 1 for each class. */
  function planesOf(mask, pixels, classes) {
    const planes = Array.from({ length: classes }, () => new Uint8Array(pixels));
    if (Array.isArray(mask)) {
      let at = 0;
      mask.forEach((length, turn) => {
        const end = Math.min(at + length, pixels * classes);
        if (turn % 2 === 1) for (; at < end; at++) planes[Math.floor(at / pixels)][at % pixels] = 1;
        at = end;
      });
    } else if (mask && mask.labels) {
      mask.labels.forEach((label, at) => {
        if (label > 0 && label <= classes) planes[label - 1][at] = 1;
      });
    } else {
      const bytes = typeof mask === "string" ? bytesOf(mask) : mask;
      const stride = Math.ceil(pixels / 8);
      planes.forEach((plane, k) => {
        for (let at = 0; at < pixels; at++) plane[at] = (bytes[k * stride + (at >> 3)] >> (at & 7)) & 1;
      });
    }
    return planes;
  }

  /** Pixels that are in one class, or in any of them. */
  function union(planes) {
    if (planes.length === 1) return planes[0];
    return planes[0].map((_, at) => (planes.some((plane) => plane[at]) ? 1 : 0));
  }

  function areaOf(plane) {
    let area = 0;
    for (let at = 0; at < plane.length; at++) area += plane[at];
    return area;
  }

  /** The outline along the edges of pixels, as closed loops of corners [x0, y0, x1, y1, …]. Pixels inside lie to the
   * right of the way, so that holes turn the other way round; pixels that touch at a corner are two loops. */
  function loopsOf(plane, width, height) {
    const inside = (x, y) => x >= 0 && y >= 0 && x < width && y < height && plane[y * width + x] === 1;
    const wide = width + 1;
    // For each corner the ways that leave it, as bits: 1 right, 2 down, 4 left, 8 up.
    const ways = new Uint8Array(wide * (height + 1));
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        if (!inside(x, y)) continue;
        if (!inside(x, y - 1)) ways[y * wide + x] |= 1;
        if (!inside(x + 1, y)) ways[y * wide + x + 1] |= 2;
        if (!inside(x, y + 1)) ways[(y + 1) * wide + x + 1] |= 4;
        if (!inside(x - 1, y)) ways[(y + 1) * wide + x] |= 8;
      }
    }
    const step = [1, wide, -1, -wide];
    const loops = [];
    for (let start = 0; start < ways.length; start++) {
      while (ways[start]) {
        let corner = start;
        let turn = Math.log2(ways[start] & -ways[start]);
        const loop = [];
        let last = -1;
        do {
          // Right turns first: they keep to the pixel that the way goes round.
          const next = last < 0 ? turn : [last + 1, last, last + 3].map((t) => t & 3).find((t) => ways[corner] & (1 << t));
          if (next === undefined) break;
          if (next !== last) loop.push(corner % wide, Math.floor(corner / wide));
          ways[corner] &= ~(1 << next);
          corner += step[next];
          last = next;
        } while (corner !== start || (ways[corner] & (1 << ((last + 1) & 3))));
        loops.push(loop);
      }
    }
    return loops;
  }

  /** The smallest area that is not exceeded with the probability `level`. As `predict` has it. */
  function quantile(sizes, level) {
    const sorted = [...sizes].sort((a, b) => a.size - b.size);
    const total = sorted.reduce((sum, one) => sum + one.probability, 0);
    let below = 0;
    for (const one of sorted) {
      below += one.probability / total;
      if (below >= level - 1e-9) return one.size;
    }
    return sorted.length ? sorted[sorted.length - 1].size : 0;
  }

  /** For each pixel the probability that it is inside. */
  function meanOf(planes, probabilities) {
    const mean = new Float32Array(planes.length ? planes[0].length : 0);
    const total = probabilities.reduce((sum, p) => sum + p, 0) || 1;
    planes.forEach((plane, k) => {
      const share = probabilities[k] / total;
      for (let at = 0; at < mean.length; at++) if (plane[at]) mean[at] += share;
    });
    return mean;
  }

  /** For each pixel the entropy of its label divided by the largest there is: 0 all agree, 1 all labels alike.
   * `all` has the planes of each hypothesis. As `predict --maps` has it. */
  function entropyOf(all, probabilities) {
    if (!all.length) return new Float32Array(0);
    const classes = all[0].length;
    const means = Array.from({ length: classes }, (_, k) => meanOf(all.map((planes) => planes[k]), probabilities));
    const term = (p) => (p > 1e-9 ? -p * Math.log2(p) : 0);
    return means[0].map((_, at) => {
      let rest = 1;
      let sum = 0;
      for (const mean of means) {
        sum += term(mean[at]);
        rest -= mean[at];
      }
      return Math.max(0, Math.min(1, (sum + term(rest)) / Math.log2(classes + 1)));
    });
  }

  /** How many of the most probable together reach `share` of the probability; the list is sorted. */
  function countUntil(probabilities, share) {
    const total = probabilities.reduce((sum, p) => sum + p, 0);
    let sum = 0;
    for (let at = 0; at < probabilities.length; at++) {
      sum += probabilities[at];
      if (sum >= share * total - 1e-6) return at + 1;
    }
    return probabilities.length;
  }

  const masks = { bytesOf, planesOf, union, areaOf, loopsOf, quantile, meanOf, entropyOf, countUntil };
  global.Multivalued = Object.assign(global.Multivalued || {}, { masks });
  if (typeof module !== "undefined") module.exports = masks;
})(typeof self !== "undefined" ? self : globalThis);
