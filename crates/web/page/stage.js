/* The canvas that shows an image: fit, zoom and pan down to single pixels, by mouse, touch and keys. What lies over the
 * image is painted by whoever made the stage. */
(function (global) {
  "use strict";

  /** Screen pixels of one image pixel from which on single pixels are shown as squares. */
  const SQUARES_FROM = 8;
  /** The same for the lines between them. */
  const GRID_FROM = 14;
  const LARGEST = 64;

  class Stage {
    /** `hooks`: paint(context, scale) in coordinates of the image's pixels; pixel(x, y) or pixel(null) under the
     * pointer; wheel(event) and drag(event, dx, dy) may return true to say that it was theirs; click(x, y). */
    constructor(canvas, hooks) {
      this.canvas = canvas;
      this.hooks = hooks;
      this.size = [1, 1];
      this.aspect = 1;
      this.base = null;
      this.zoom = 1;
      this.centre = [0.5, 0.5];
      this.pointers = new Map();
      this.waiting = false;
      this.watch = new ResizeObserver(() => this.resize());
      this.watch.observe(canvas);
      for (const [name, act] of Object.entries({
        pointerdown: (e) => this.down(e),
        pointermove: (e) => this.move(e),
        pointerup: (e) => this.up(e),
        pointercancel: (e) => this.up(e),
        pointerleave: () => hooks.pixel && hooks.pixel(null),
        dblclick: () => this.fit(),
        contextmenu: (e) => hooks.drag && e.preventDefault(),
      }))
        canvas.addEventListener(name, act);
      canvas.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    }

    destroy() {
      this.watch.disconnect();
    }

    /** Another image: a canvas of its pixels, and how high a pixel is, as a multiple of its width. The place that is
     * looked at stays where the size does. */
    show(base, aspect) {
      const same = this.base && this.base.width === base.width && this.base.height === base.height;
      this.base = base;
      this.aspect = aspect;
      this.size = [base.width, base.height];
      if (!same) this.fit();
      this.draw();
    }

    /** Screen pixels (of the canvas' own) of one image pixel where all of the image is seen. */
    get fitted() {
      const { width, height } = this.canvas;
      return Math.max(1e-3, Math.min(width / this.size[0], height / (this.size[1] * this.aspect)));
    }

    get scale() {
      return this.fitted * this.zoom;
    }

    fit() {
      this.zoom = 1;
      this.centre = [0.5, 0.5];
      this.moved();
    }

    /** Zooms so that the box [x, y, width, height] of image pixels fills the canvas. */
    look([x, y, width, height]) {
      const { canvas } = this;
      const scale = Math.min(canvas.width / width, canvas.height / (height * this.aspect));
      this.zoom = Math.max(1, Math.min(scale, this.largest) / this.fitted);
      this.centre = [(x + width / 2) / this.size[0], (y + height / 2) / this.size[1]];
      this.moved();
    }

    get largest() {
      return Math.max(this.fitted, LARGEST * this.ratio);
    }

    get ratio() {
      return global.devicePixelRatio || 1;
    }

    /** Zooms by a factor around a place of the canvas, in its own pixels. */
    zoomBy(factor, x = this.canvas.width / 2, y = this.canvas.height / 2) {
      const [px, py] = this.pixelAt(x, y);
      this.zoom = Math.max(1, Math.min(this.zoom * factor, this.largest / this.fitted));
      const { scale } = this;
      this.centre = [
        (px - (x - this.canvas.width / 2) / scale) / this.size[0],
        (py - (y - this.canvas.height / 2) / (scale * this.aspect)) / this.size[1],
      ];
      this.moved();
    }

    panBy(dx, dy) {
      this.centre[0] -= dx / this.scale / this.size[0];
      this.centre[1] -= dy / (this.scale * this.aspect) / this.size[1];
      this.moved();
    }

    moved() {
      // No more than half of what is seen lies beside the image.
      const { width, height } = this.canvas;
      const shown = [width / this.scale / this.size[0], height / (this.scale * this.aspect) / this.size[1]];
      this.centre = this.centre.map((at, k) => {
        const half = Math.min(0.5, shown[k] / 2);
        return Math.max(half, Math.min(1 - half, at));
      });
      this.canvas.style.touchAction = this.zoom > 1.001 ? "none" : "pan-y";
      this.canvas.style.cursor = this.zoom > 1.001 ? "grab" : "crosshair";
      this.draw();
    }

    /** The place of the image, in its pixels, under a place of the canvas. */
    pixelAt(x, y) {
      const { width, height } = this.canvas;
      return [
        this.centre[0] * this.size[0] + (x - width / 2) / this.scale,
        this.centre[1] * this.size[1] + (y - height / 2) / (this.scale * this.aspect),
      ];
    }

    place(event) {
      const box = this.canvas.getBoundingClientRect();
      const ratio = this.canvas.width / Math.max(1, box.width);
      return [(event.clientX - box.left) * ratio, (event.clientY - box.top) * ratio];
    }

    down(event) {
      if (event.button > 2) return;
      this.canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, this.place(event));
      this.travelled = 0;
    }

    move(event) {
      const now = this.place(event);
      const before = this.pointers.get(event.pointerId);
      this.tell(now);
      if (!before) return;
      this.pointers.set(event.pointerId, now);
      const [dx, dy] = [now[0] - before[0], now[1] - before[1]];
      this.travelled += Math.abs(dx) + Math.abs(dy);
      if (this.pointers.size === 2) {
        const other = [...this.pointers].find(([id]) => id !== event.pointerId)[1];
        const apart = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]) || 1;
        const middle = [(now[0] + other[0]) / 2, (now[1] + other[1]) / 2];
        this.zoomBy(apart(now, other) / apart(before, other), ...middle);
        this.panBy(dx / 2, dy / 2);
      } else if (!(this.hooks.drag && this.hooks.drag(event, dx / this.ratio, dy / this.ratio))) {
        this.panBy(dx, dy);
      }
    }

    up(event) {
      const known = this.pointers.delete(event.pointerId);
      const still = known && event.type === "pointerup" && event.button === 0 && this.travelled < 4 * this.ratio;
      if (still && !event.shiftKey && this.hooks.click) this.hooks.click(...this.pixelAt(...this.place(event)));
    }

    wheel(event) {
      if (this.hooks.wheel && this.hooks.wheel(event)) return;
      event.preventDefault();
      this.zoomBy(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.06 : 0.002)), ...this.place(event));
      this.tell(this.place(event));
    }

    tell(place) {
      if (!this.hooks.pixel) return;
      const [x, y] = this.pixelAt(...place).map(Math.floor);
      const inside = x >= 0 && y >= 0 && x < this.size[0] && y < this.size[1];
      if (inside) this.hooks.pixel(x, y);
      else this.hooks.pixel(null);
    }

    /** Keys for those without a pointer; says whether it was one. */
    key(event) {
      const step = 40 * this.ratio;
      const acts = {
        "+": () => this.zoomBy(1.5),
        "=": () => this.zoomBy(1.5),
        "-": () => this.zoomBy(1 / 1.5),
        f: () => this.fit(),
        ArrowLeft: () => this.panBy(step, 0),
        ArrowRight: () => this.panBy(-step, 0),
        ArrowUp: () => this.panBy(0, step),
        ArrowDown: () => this.panBy(0, -step),
      };
      if (!acts[event.key]) return false;
      acts[event.key]();
      return true;
    }

    resize() {
      const box = this.canvas.getBoundingClientRect();
      const [width, height] = [box.width, box.height].map((side) => Math.max(1, Math.round(side * this.ratio)));
      if (width === this.canvas.width && height === this.canvas.height) return;
      this.canvas.width = width;
      this.canvas.height = height;
      // At once: a canvas that was resized is blank, and would flash.
      this.paint();
    }

    draw() {
      if (this.waiting) return;
      this.waiting = true;
      requestAnimationFrame(() => {
        this.waiting = false;
        this.paint();
      });
    }

    paint() {
      const { canvas, base, scale } = this;
      const context = canvas.getContext("2d");
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.clearRect(0, 0, canvas.width, canvas.height);
      if (!base) return;
      const left = canvas.width / 2 - this.centre[0] * this.size[0] * scale;
      const top = canvas.height / 2 - this.centre[1] * this.size[1] * scale * this.aspect;
      context.setTransform(scale, 0, 0, scale * this.aspect, left, top);
      context.imageSmoothingEnabled = scale / this.ratio < SQUARES_FROM;
      context.imageSmoothingQuality = "high";
      context.drawImage(base, 0, 0);
      if (scale / this.ratio >= GRID_FROM) this.grid(context);
      this.hooks.paint(context, scale / this.ratio);
    }

    grid(context) {
      const { canvas, scale } = this;
      const [x0, y0] = this.pixelAt(0, 0).map((at) => Math.max(0, Math.floor(at)));
      const [x1, y1] = this.pixelAt(canvas.width, canvas.height).map((at, k) => Math.min(this.size[k], Math.ceil(at)));
      context.beginPath();
      for (let x = x0; x <= x1; x++) context.moveTo(x, y0), context.lineTo(x, y1);
      for (let y = y0; y <= y1; y++) context.moveTo(x0, y), context.lineTo(x1, y);
      context.lineWidth = 1 / scale;
      context.strokeStyle = "rgba(128,128,128,.25)";
      context.stroke();
    }
  }

  global.Multivalued = Object.assign(global.Multivalued || {}, { Stage });
})(self);
