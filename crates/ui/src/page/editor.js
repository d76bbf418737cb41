// A field for YAML: line numbers, colours, marks of findings, and its own undo, which knows of edits in the graph too.

import { fill, h } from '/base.js';
import { parts } from '/highlight.js';

const ROW = 20;
/** Lines that are drawn beyond the visible ones. */
const MORE = 8;
/** Letters that are typed within this time are undone together. */
const TOGETHER = 1000;
const MOST = 1000;

function difference(old, now) {
  const most = Math.min(old.length, now.length);
  let start = 0;
  while (start < most && old[start] === now[start]) start += 1;
  let end = 0;
  while (end < most - start && old[old.length - 1 - end] === now[now.length - 1 - end]) end += 1;
  return { start, removed: old.slice(start, old.length - end), inserted: now.slice(start, now.length - end) };
}

export class Editor {
  /** `changed(extra)` is called after each change; `extra` is what belongs to the text and is undone with it. */
  constructor({ label, describedby, changed, save }) {
    this.changed = changed;
    this.extra = null;
    this.text = '';
    this.starts = [0];
    this.marks = [];
    this.done = [];
    this.undone = [];
    this.leaves = false;
    this.field = h('textarea', { class: 'source', wrap: 'off', spellcheck: 'false', autocomplete: 'off', autocapitalize: 'off', 'aria-label': label, 'aria-describedby': describedby });
    this.gutter = h('div', { class: 'gutter', 'aria-hidden': 'true' });
    this.colours = h('div', { class: 'colours', 'aria-hidden': 'true' });
    this.lines = h('div', { class: 'layer' });
    this.colours.append(this.lines);
    this.element = h('div', { class: 'editor' }, this.gutter, h('div', { class: 'paper' }, this.colours, this.field));
    this.field.addEventListener('input', () => this.typed());
    this.field.addEventListener('scroll', () => this.draw());
    this.field.addEventListener('beforeinput', event => {
      if (event.inputType !== 'historyUndo' && event.inputType !== 'historyRedo') return;
      event.preventDefault();
      this.step(event.inputType === 'historyUndo');
    });
    this.field.addEventListener('keydown', event => this.key(event, save));
    this.field.addEventListener('blur', () => { this.leaves = false; });
    this.size = new ResizeObserver(() => this.draw());
    this.size.observe(this.field);
  }

  close() {
    this.size.disconnect();
  }

  /** Another text, without a way back. */
  begin(text, extra) {
    Object.assign(this, { done: [], undone: [], extra, text });
    this.field.value = text;
    this.after();
  }

  key(event, save) {
    const isCommand = (event.ctrlKey || event.metaKey) && !event.altKey;
    const key = event.key.toLowerCase();
    if (isCommand && (key === 'z' || key === 'y')) {
      event.preventDefault();
      this.step(key === 'z' && !event.shiftKey);
    } else if (isCommand && key === 's') {
      event.preventDefault();
      save();
    } else if (key === 'escape') {
      this.leaves = true;
    } else if (key === 'tab' && !isCommand && !event.altKey && !this.leaves) {
      event.preventDefault();
      this.indent(event.shiftKey);
    } else if (key === 'enter' && !isCommand && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.newline();
    } else if (!['tab', 'shift'].includes(key)) {
      this.leaves = false;
    }
  }

  /** Two blanks more, or less, before each line of the selection; with nothing selected, up to the next even column. */
  indent(isLess) {
    const { selectionStart: from, selectionEnd: to } = this.field;
    const start = this.starts[this.lineOf(from)];
    if (!isLess && from === to) {
      this.splice([{ start: from, end: to, text: ' '.repeat(2 - (from - start) % 2) }]);
      return;
    }
    const edits = [];
    for (let line = this.lineOf(from); line <= this.lineOf(Math.max(from, to - 1)); line += 1) {
      const at = this.starts[line];
      if (!isLess) edits.push({ start: at, end: at, text: '  ' });
      else edits.push({ start: at, end: at + this.text.slice(at, at + 2).match(/^ */)[0].length, text: '' });
    }
    const moved = edits.reduce((sum, edit) => sum + edit.text.length - (edit.end - edit.start), 0);
    const first = edits[0].text.length - (edits[0].end - edits[0].start);
    this.splice(edits);
    this.field.setSelectionRange(Math.max(start, from + first), Math.max(start, to + moved));
  }

  /** The next line begins where this one does, or deeper below a key. */
  newline() {
    const { selectionStart: from, selectionEnd: to } = this.field;
    const before = this.text.slice(this.starts[this.lineOf(from)], from);
    const deeper = /:\s*$/.test(before) ? before.replace(/^( *)(- )?.*/s, (_, blanks, dash) => `${blanks}${dash ? '  ' : ''}  `) : before.match(/^ */)[0];
    this.splice([{ start: from, end: to, text: `\n${deeper}` }]);
    this.show(this.field.selectionStart);
  }

  /** What a person has typed, pasted or dropped. */
  typed() {
    const change = difference(this.text, this.field.value);
    if (!change.removed && !change.inserted) return;
    const last = this.done.at(-1);
    const now = Date.now();
    const continues = last?.typed && now - last.typed < TOGETHER && last.extra === this.extra && !change.inserted.includes('\n') && this.undone.length === 0;
    this.text = this.field.value;
    if (continues && !change.removed && change.start === last.start + last.inserted.length) {
      last.inserted += change.inserted;
      last.typed = now;
    } else if (continues && !change.inserted && !last.inserted && change.start + change.removed.length === last.start) {
      Object.assign(last, { start: change.start, removed: change.removed + last.removed, typed: now });
    } else {
      this.note({ ...change, extra: this.extra, then: this.extra, typed: now });
    }
    this.after();
  }

  note(change) {
    this.done.push(change);
    if (this.done.length > MOST) this.done.shift();
    this.undone = [];
  }

  /** Edits `{start, end, text}` that do not overlap, as one step. */
  splice(edits, extra = this.extra) {
    const sorted = [...edits].sort((one, other) => one.start - other.start);
    if (sorted.length === 0) return;
    let at = sorted[0].start;
    let inserted = '';
    for (const edit of sorted) {
      inserted += this.text.slice(at, edit.start) + edit.text;
      at = edit.end;
    }
    const start = sorted[0].start;
    const change = { start, removed: this.text.slice(start, at), inserted, extra: this.extra, then: extra };
    this.note(change);
    this.put(start, change.removed.length, inserted);
    this.extra = extra;
    this.after();
  }

  /** Another text, as one step. */
  replace(text, extra = this.extra) {
    const { start, removed, inserted } = difference(this.text, text);
    this.splice([{ start, end: start + removed.length, text: inserted }], extra);
  }

  put(start, length, text) {
    const top = this.field.scrollTop;
    this.field.setRangeText(text, start, start + length, 'end');
    this.field.scrollTop = top;
    this.text = this.field.value;
  }

  /** One step back, or forward. */
  step(isBack) {
    const change = (isBack ? this.done : this.undone).pop();
    if (!change) return;
    (isBack ? this.undone : this.done).push({ ...change, typed: 0 });
    const [old, now] = isBack ? [change.inserted, change.removed] : [change.removed, change.inserted];
    this.put(change.start, old.length, now);
    this.extra = isBack ? change.extra : change.then;
    this.show(change.start + now.length);
    this.after();
  }

  after() {
    this.starts = [0];
    for (let at = this.text.indexOf('\n'); at !== -1; at = this.text.indexOf('\n', at + 1)) this.starts.push(at + 1);
    this.draw();
    this.changed(this.extra);
  }

  lineOf(at) {
    let [low, high] = [0, this.starts.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (this.starts[middle] <= at) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Marks of findings: `{start, end, severity}`. */
  mark(marks) {
    this.marks = marks;
    this.draw();
  }

  /** Selects a place and shows it. */
  go(start, end) {
    this.field.focus();
    this.field.setSelectionRange(start, end);
    this.show(start);
  }

  show(at) {
    const top = this.lineOf(at) * ROW;
    const { scrollTop, clientHeight } = this.field;
    if (top < scrollTop || top > scrollTop + clientHeight - 2 * ROW) this.field.scrollTop = Math.max(0, top - clientHeight / 3);
  }

  draw() {
    const { scrollTop, scrollLeft, clientHeight } = this.field;
    const first = Math.max(0, Math.floor(scrollTop / ROW) - MORE);
    const last = Math.min(this.starts.length, Math.ceil((scrollTop + clientHeight) / ROW) + MORE);
    const worst = new Map();
    for (const mark of this.marks) {
      const line = this.lineOf(mark.start);
      if (line < first || line >= last) continue;
      worst.set(line, [...(worst.get(line) ?? []), mark]);
    }
    const numbers = [];
    const lines = [];
    for (let line = first; line < last; line += 1) {
      const marks = worst.get(line) ?? [];
      const kind = ['error', 'warning', 'hint'].find(one => marks.some(mark => mark.severity === one)) ?? '';
      numbers.push(h('div', { class: `line ${kind}` }, String(line + 1)));
      lines.push(this.line(line, marks));
    }
    fill(this.gutter, h('div', { class: 'layer' }, numbers));
    fill(this.lines, lines);
    const down = first * ROW - scrollTop;
    this.gutter.firstChild.style.transform = `translateY(${down}px)`;
    this.lines.style.transform = `translate(${-scrollLeft}px, ${down}px)`;
  }

  line(line, marks) {
    const start = this.starts[line];
    const text = this.text.slice(start, (this.starts[line + 1] ?? this.text.length + 1) - 1);
    const cuts = marks.map(mark => {
      const from = Math.min(mark.start - start, Math.max(0, text.length - 1));
      return { from, to: Math.max(from + 1, Math.min(mark.end - start, text.length)), severity: mark.severity };
    });
    const shown = [];
    let at = 0;
    for (const [name, part] of parts(text)) {
      const borders = [0, part.length];
      for (const { from, to } of cuts) borders.push(...[from - at, to - at].filter(border => border > 0 && border < part.length));
      borders.sort((one, other) => one - other);
      borders.slice(1).forEach((end, index) => {
        const from = borders[index];
        const mark = cuts.find(cut => cut.from <= at + from && at + end <= cut.to);
        shown.push(name || mark ? h('span', { class: `${name} ${mark ? `mark ${mark.severity}` : ''}` }, part.slice(from, end)) : part.slice(from, end));
      });
      at += part.length;
    }
    if (cuts.length > 0 && text.length === 0) shown.push(h('span', { class: `mark ${cuts[0].severity}` }, ' '));
    return h('div', { class: 'line' }, shown);
  }
}
