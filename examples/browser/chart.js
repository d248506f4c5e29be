/** A line for each series over the last minute, on a canvas. */

const LEFT = 44;
const BOTTOM = 26;

export class Chart {
  #canvas;
  #series;
  #points = [];
  #most;

  /** `series`: name → { colour, label }. `most` points are kept. */
  constructor(canvas, series, most = 120) {
    this.#canvas = canvas;
    this.#series = series;
    this.#most = most;
  }

  /** What has been drawn, oldest first. */
  get points() {
    return this.#points;
  }

  /** Takes a point, `{ t, name: value, … }` with `t` in seconds, and draws. A value that is left out breaks its line. */
  add(point) {
    this.#points.push(point);
    if (this.#points.length > this.#most) this.#points.shift();
    this.#draw();
  }

  #draw() {
    const { width, height } = this.#canvas;
    const pen = this.#canvas.getContext("2d");
    const values = this.#points.flatMap((point) => Object.keys(this.#series).map((name) => point[name] ?? 0));
    const top = Math.max(20, Math.ceil(Math.max(...values) / 20) * 20);
    const last = this.#points.at(-1).t;
    const first = this.#points[0].t;
    const x = (t) => LEFT + ((t - first) / Math.max(last - first, 30)) * (width - LEFT - 10);
    const y = (value) => height - BOTTOM - (value / top) * (height - BOTTOM - 10);
    pen.clearRect(0, 0, width, height);
    pen.font = "13px system-ui, sans-serif";
    pen.lineWidth = 1;
    for (let step = 0; step <= 4; step += 1) {
      const value = (top / 4) * step;
      pen.strokeStyle = "#e3e8ee";
      pen.beginPath();
      pen.moveTo(LEFT, y(value));
      pen.lineTo(width - 10, y(value));
      pen.stroke();
      pen.fillStyle = "#51606f";
      pen.textAlign = "right";
      pen.fillText(String(value), LEFT - 8, y(value) + 4);
    }
    pen.textAlign = "center";
    for (let t = Math.ceil(first / 10) * 10; t <= Math.max(last, first + 30); t += 10)
      pen.fillText(`${t} s`, x(t), height - 6);
    pen.lineWidth = 2.5;
    for (const [name, { colour }] of Object.entries(this.#series)) {
      pen.strokeStyle = colour;
      pen.beginPath();
      let drawing = false;
      for (const point of this.#points) {
        const value = point[name];
        if (value === undefined) drawing = false;
        else if (drawing) pen.lineTo(x(point.t), y(value));
        else {
          pen.moveTo(x(point.t), y(value));
          drawing = true;
        }
      }
      pen.stroke();
    }
  }
}
