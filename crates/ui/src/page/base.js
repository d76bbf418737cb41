// Elements, requests, and numbers for people. Texts become text nodes, never markup.

/** An element: h('p', {class: 'x', onclick: f, 'aria-label': 'y'}, 'text', child, …). */
export function h(name, properties, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (key === 'value' || key === 'checked' || key === 'disabled' || key === 'hidden') element[key] = value;
    else element.setAttribute(key, value === true ? '' : value);
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** Gives the element these children and no others. */
export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
}

/**
 * A table with these columns, each `[label, class]`. In a narrow window, each row is a list of labelled values (`style.css`); the roles keep it a table
 * for screen readers.
 */
export function table(name, caption, head, body) {
  body.setAttribute('role', 'rowgroup');
  return h('table', { class: name, role: 'table' }, caption,
    h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, head.map(([label, kind]) => h('th', { scope: 'col', role: 'columnheader', class: kind }, label)))), body);
}

/** A row of such a table: each cell gets the label of its column. */
export function tableRow(head, ...cells) {
  const row = h('tr', { role: 'row' }, cells);
  [...row.children].forEach((cell, at) => {
    cell.setAttribute('role', cell.tagName === 'TH' ? 'rowheader' : 'cell');
    cell.dataset.label = head[at][0];
  });
  return row;
}

/** A row with one cell over all columns. */
export function wideRow(head, content) {
  return h('tr', { role: 'row' }, h('td', { role: 'cell', colspan: String(head.length) }, content));
}

export const main = () => document.getElementById('main');

/** Tells a screen reader. */
export function say(text) {
  document.getElementById('said').textContent = text;
}

/** Shows what went wrong until it is over. */
export function trouble(text) {
  const place = document.getElementById('trouble');
  if (place.textContent !== text) place.textContent = text;
  place.hidden = !text;
}

/** A failed request, with the status and the sentence of the server. */
export class Refused extends Error {
  /** `fields`: the inputs that are wrong, each with a sentence. */
  constructor(status, message, fields = {}) {
    super(message);
    this.status = status;
    this.fields = fields;
  }
}

async function answer(response) {
  const document = await response.json().catch(() => ({}));
  if (response.ok) return document;
  throw new Refused(response.status, document.error?.message ?? `the server answered ${response.status}`, document.error?.fields);
}

/** Asks the server. */
export async function get(path, parameters = {}) {
  return answer(await fetch(`${path}?${new URLSearchParams(parameters)}`));
}

/** Has the server do something. */
export async function post(path, body) {
  const headers = { 'content-type': 'application/json' };
  return answer(await fetch(path, { method: 'POST', headers, body: JSON.stringify(body) }));
}

/** The address of a view of a run. */
export function runLink(id, ...rest) {
  return '#/' + ['run', id, ...rest].map(part => encodeURIComponent(part)).join('/');
}

export function seconds(value) {
  if (value === null || value === undefined) return '';
  if (value < 0.001) return '< 1 ms';
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 60) return `${value.toFixed(1)} s`;
  const whole = Math.round(value);
  const [minutes, rest] = [Math.floor(whole / 60), whole % 60];
  return minutes < 60 ? `${minutes} min ${rest} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A time that goes on: `value` seconds have passed now. */
export function clock(value, isGoingOn = true) {
  const element = h('span', {}, seconds(value));
  if (isGoingOn) element.dataset.zero = String(performance.now() - value * 1000);
  return element;
}

function tick() {
  for (const element of document.querySelectorAll('[data-zero]')) element.textContent = seconds((performance.now() - Number(element.dataset.zero)) / 1000);
}
setInterval(() => document.hidden || tick(), 1000);

export function time(at) {
  return at ? new Date(at).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' }) : '';
}

export const number = value => (value ?? 0).toLocaleString();

export function count(value, word) {
  return `${number(value)} ${word}${value === 1 ? '' : 's'}`;
}

/** An amount of money, with as many digits as it needs. */
export function money(cost) {
  return cost === undefined || cost === null ? '' : cost.toLocaleString(undefined, { maximumSignificantDigits: 4, useGrouping: false });
}

/** Tokens and cost in a few words. Requests that failed have no tokens. */
export function usage(used) {
  if (!used || !used.requests) return '';
  const cost = used.cost === undefined ? '' : ` · cost ${money(used.cost)}`;
  const about = used.estimated ? '≈ ' : '';
  if (!used.input_tokens && !used.output_tokens) return `${count(used.requests, 'request')}${cost}`;
  return `${about}${number(used.input_tokens)} in · ${number(used.output_tokens)} out${cost}`;
}

/** Words for states of executions. States of runs are words already. */
const WORDS = { asks: 'waits for you', waits: 'waited', runs: 'running', retries: 'tries again', lost: 'interrupted', not_started: 'not started', ready: 'about to start' };
/** The colour of each state of a run; any other state is a failure. */
const COLOURS = { cancelled: 'stopped', timeout: 'stopped', running: 'running', waiting: 'asks', interrupted: 'interrupted' };

/** The colour of a run in this state. */
export function stateColour(state, success) {
  return success ? 'good' : COLOURS[state] ?? 'failed';
}

/** The badge of a run: its state in words, and the colour of how it goes or ended. */
export function runBadge(run, more = '') {
  return badge(stateColour(run.state, run.success), run.state + more);
}

/** A state as a word with a colour. */
export function badge(state, word = WORDS[state] ?? state) {
  return h('span', { class: `badge ${state}` }, String(word).replaceAll('_', ' '));
}

/** A value of JSON as text: strings as they are. */
export function shown(value) {
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
}

export function block(value, kind = '') {
  return h('pre', { class: `block ${kind}`, tabindex: '0' }, shown(value));
}

/** Says next to a control what went wrong with it; without a text, it says nothing any more. */
export function complain(control, text) {
  const place = control.closest('.actions') ?? control.closest('label') ?? control;
  const known = place.nextElementSibling?.matches('.complaint') ? place.nextElementSibling : null;
  if (!text) known?.remove();
  else if (known) known.textContent = text;
  else place.after(h('p', { class: 'failure complaint', role: 'alert' }, text));
}

/** A button whose work can fail; meanwhile it is off. What went wrong is said next to it. */
export function button(label, work, properties = {}) {
  const made = h('button', { type: 'button', ...properties, onclick: async () => {
    made.disabled = true;
    try {
      complain(made, '');
      await work();
    } catch (error) {
      if (error.status === 401) dispatchEvent(new Event('locked'));
      else if (made.isConnected) complain(made, error.message);
      else trouble(error.message);
    } finally {
      made.disabled = false;
    }
  } }, label);
  return made;
}
