// A picture that fills its place: it is zoomed and moved with the pointer, the wheel, buttons and the keyboard.

import { fill, h } from '/base.js';

const STEP = 1.25;
/** The pointer has moved less than this in a click, in pixels. */
const STILL = 4;
/** A small picture is not drawn larger than this. */
const LARGEST = 1.5;

export class Canvas {
  constructor(label) {
    this.place = h('div', { class: 'graph', tabindex: '0', role: 'region', 'aria-label': label });
    const make = (text, name, work) => h('button', { type: 'button', 'aria-label': name, title: name, onclick: work }, text);
    this.tools = h('div', { class: 'zoom' }, make('−', 'Zoom out', () => this.zoom(1 / STEP)), make('+', 'Zoom in', () => this.zoom(STEP)), make('Fit', 'Fit the whole graph', () => this.fit()));
    this.element = h('div', { class: 'canvas' }, this.place, this.tools);
    this.view = null;
    this.isFitted = true;
    this.svg = null;
    this.place.addEventListener('wheel', event => this.turn(event), { passive: false });
    this.place.addEventListener('pointerdown', event => this.grasp(event));
    this.place.addEventListener('keydown', event => this.key(event));
    // A click at the end of a movement chooses nothing.
    this.place.addEventListener('click', event => {
      if (!this.hasMoved) return;
      event.stopPropagation();
      this.hasMoved = false;
    }, { capture: true });
    this.resized = new ResizeObserver(() => this.isFitted && this.fit());
    this.resized.observe(this.place);
  }

  close() {
    this.resized.disconnect();
  }

  /** Shows a text in the place of the picture. */
  tell(element) {
    this.svg = null;
    this.tools.hidden = true;
    fill(this.place, element);
  }

  /** Shows another picture at the same place. A picture of another size stays zoomed: its middle column keeps its place. */
  show(svg) {
    const box = svg.viewBox.baseVal;
    const size = { width: box.width, height: box.height };
    if (!this.isFitted && this.size) this.view.x += (size.width - this.size.width) / 2;
    this.size = size;
    this.svg = svg;
    this.tools.hidden = false;
    svg.removeAttribute('width');
    svg.removeAttribute('height');
    fill(this.place, svg);
    if (this.isFitted || !this.isInView()) this.fit();
    else this.apply();
  }

  /** Is a part of the picture in view? */
  isInView() {
    const { x, y, width, height } = this.view;
    return x < this.size.width && y < this.size.height && x + width > 0 && y + height > 0;
  }

  /** The whole picture, in the middle. */
  fit() {
    this.isFitted = true;
    if (!this.svg) return;
    const { clientWidth, clientHeight } = this.place;
    const { width, height } = this.size;
    const scale = Math.min(LARGEST, clientWidth / width, clientHeight / height) || 1;
    const [wide, high] = [clientWidth / scale, clientHeight / scale];
    this.view = { x: (width - wide) / 2, y: (height - high) / 2, width: wide, height: high };
    this.apply();
  }

  apply() {
    const { x, y, width, height } = this.view;
    if (width > 0 && height > 0) this.svg.setAttribute('viewBox', `${x} ${y} ${width} ${height}`);
  }

  /** The picture `by` times as large; the point at `at`, of the place, stays. */
  zoom(by, at = { x: 0.5, y: 0.5 }) {
    if (!this.svg) return;
    const { x, y, width, height } = this.view;
    const factor = Math.min(Math.max(by, width / (this.size.width * 20)), width / 60);
    this.isFitted = false;
    this.view = { x: x + width * at.x * (1 - 1 / factor), y: y + height * at.y * (1 - 1 / factor), width: width / factor, height: height / factor };
    this.apply();
  }

  /** Moves the picture by a part of the place. */
  move(right, down) {
    if (!this.svg) return;
    this.isFitted = false;
    this.view.x -= this.view.width * right;
    this.view.y -= this.view.height * down;
    this.apply();
  }

  /** Brings an element into the middle, if the picture is larger than its place. */
  follow(element) {
    if (this.isFitted || !element) return;
    const box = element.getBBox();
    this.view.x = box.x + box.width / 2 - this.view.width / 2;
    this.view.y = box.y + box.height / 2 - this.view.height / 2;
    this.apply();
  }

  turn(event) {
    if (!this.svg) return;
    event.preventDefault();
    const box = this.place.getBoundingClientRect();
    this.zoom(Math.exp(-event.deltaY / 400), { x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height });
  }

  grasp(event) {
    this.hasMoved = false;
    if (event.button !== 0 || !this.svg) return;
    let last = { x: event.clientX, y: event.clientY };
    const from = last;
    const moved = now => {
      if (!this.hasMoved && Math.hypot(now.clientX - from.x, now.clientY - from.y) < STILL) return;
      this.hasMoved = true;
      this.move((now.clientX - last.x) / this.place.clientWidth, (now.clientY - last.y) / this.place.clientHeight);
      last = { x: now.clientX, y: now.clientY };
    };
    const end = () => {
      removeEventListener('pointermove', moved);
      removeEventListener('pointerup', end);
      removeEventListener('pointercancel', end);
    };
    addEventListener('pointermove', moved);
    addEventListener('pointerup', end);
    addEventListener('pointercancel', end);
  }

  key(event) {
    if (event.target !== this.place || event.ctrlKey || event.metaKey || event.altKey) return;
    const keys = {
      '+': () => this.zoom(STEP), '=': () => this.zoom(STEP), '-': () => this.zoom(1 / STEP), 0: () => this.fit(),
      ArrowLeft: () => this.move(0.1, 0), ArrowRight: () => this.move(-0.1, 0), ArrowUp: () => this.move(0, 0.1), ArrowDown: () => this.move(0, -0.1),
    };
    if (!(event.key in keys)) return;
    keys[event.key]();
    event.preventDefault();
  }
}
