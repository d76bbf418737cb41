// One run: its head, what waits for an answer, and the views of it.

import { count, fill, get, h, main, runBadge, runLink, seconds, say, time, trouble, usage } from '/base.js';
import { actions, waiting } from '/act.js';
import { showDetail } from '/detail.js';
import { showRows } from '/rows.js';
import { showGraph } from '/graph.js';
import { showAgents, showTalk } from '/talk.js';

const VIEWS = { rows: ['Timeline', showRows], talk: ['Conversation', showTalk], graph: ['Graph', showGraph], agents: ['Agents and cost', showAgents] };

/** The fold of the run, as far as the page has it. */
class Run {
  constructor(id) {
    this.id = id;
    this.head = null;
    this.rows = new Map();
    this.live = new Map();
    this.listeners = new Set();
  }

  tell(change) {
    for (const listener of [...this.listeners]) listener(change);
  }

  listen(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  begin({ head }) {
    this.head = head;
    this.rows.clear();
    this.live.clear();
    this.tell({ begin: true, rows: [] });
  }

  fold({ head, rows }) {
    // Input and given values are told once.
    this.head = { ...this.head, ...head };
    for (const row of rows) {
      this.keep(row);
      if (row.kind === 'execution' && row.seconds !== null) this.live.delete(`${row.agent} ${row.execution}`);
    }
    this.tell({ rows });
  }

  keep(row) {
    const known = this.rows.get(row.at);
    if (!known || known.seq <= row.seq) this.rows.set(row.at, row);
  }

  piece(live) {
    const key = `${live.agent} ${live.execution}`;
    const known = this.live.get(key) ?? { agent: live.agent, execution: live.execution, text: '', about: '' };
    if (live.kind === 'restarted') Object.assign(known, { text: '', about: 'asks again' });
    else if (live.kind === 'text') Object.assign(known, { text: known.text + live.text, about: '' });
    else if (live.kind === 'reasoning') known.about = 'thinks';
    else if (live.kind === 'tool_started') known.about = `calls ${live.text}`;
    else if (live.kind === 'retrying') known.about = live.text;
    else if (live.kind === 'pace_changed') say(known.about = live.text);
    else known.about = '';
    this.live.set(key, known);
    this.tell({ live: known, rows: [] });
  }

  /** The rows from `from` to `until`, as far as they are here; the others are asked for. */
  async load(from, until, whole = false) {
    const parameters = { id: this.id, from, count: until - from };
    if (whole) parameters.whole = 1;
    const answer = await get('/api/rows', parameters);
    if (!whole) answer.rows.forEach(row => this.keep(row));
    return answer.rows;
  }
}

function facts(head) {
  const notes = [...(head.failed ? [`${head.failed} failed`] : []), ...head.failed_work];
  const failed = notes.length ? ` (${notes.join(', ')})` : '';
  const list = [
    ['run', head.id],
    ['begun', time(head.begun)],
    ['took', `${seconds(head.active)}, ${count(head.turns, 'turn')}, ${count(head.executions, 'execution')}${failed}`],
    ['models', usage(head.usage)],
    ['simulated', (head.simulated ?? []).join(', ')],
    ['file', head.file],
  ].filter(([, text]) => text);
  const from = head.forked_from;
  return h('dl', { class: 'facts' }, list.map(([name, text]) => h('div', {}, h('dt', {}, name), h('dd', {}, text))),
    from && h('div', {}, h('dt', {}, 'forked from'), h('dd', {}, h('a', { href: runLink(from.run_id) }, from.run_id), ` after turn ${from.turn}`)));
}

function title(head) {
  const elsewhere = head.process ? ` in process ${head.process}` : '';
  return h('h1', {}, head.ensemble ?? '?', ' ', runBadge(head, elsewhere));
}

export function showRun([id, ...rest]) {
  const run = new Run(id);
  let view = 'rows';
  let closeView = () => {};
  let closeDetail = () => {};
  let source = null;
  let isFirst = true;
  let lastState = '';
  const top = h('div', { class: 'top' });
  const asks = h('div', { class: 'asks' });
  const tabs = h('nav', { class: 'tabs', 'aria-label': 'Views of the run' });
  const panel = h('section', { class: 'panel', 'aria-label': 'View' });
  const side = h('section', { class: 'side', 'aria-label': 'Execution', tabindex: '-1' });
  const body = h('div', { class: 'body' }, panel, side);
  const parts = { title: h('div'), detail: h('p', { class: 'detail' }), facts: h('div'), actions: h('div', { class: 'actions' }), input: h('div') };
  fill(top, parts.title, parts.detail, parts.actions, parts.facts, parts.input);
  let drawn = {};

  function once(name, value, draw) {
    const text = JSON.stringify(value);
    if (drawn[name] === text) return;
    drawn[name] = text;
    fill(parts[name] ?? asks, draw());
  }

  function drawHead() {
    const head = run.head;
    document.title = `${head.ensemble} · ${head.state}`;
    once('title', [head.ensemble, head.state, head.process], () => title(head));
    once('detail', head.detail, () => head.detail ?? '');
    once('facts', [head.id, head.turns, head.executions, head.failed, head.failed_work, head.usage, head.active], () => facts(head));
    once('actions', [head.can, head.state], () => actions(run));
    once('input', [head.input, head.context], () => [
      head.input && h('details', { class: 'given' }, h('summary', {}, 'Input'), h('pre', { class: 'block' }, head.input)),
      Object.keys(head.context ?? {}).length > 0 && h('details', { class: 'given' }, h('summary', {}, 'Given values'), h('pre', { class: 'block' }, JSON.stringify(head.context, null, 2))),
    ]);
    once('asks', [head.waiting, head.questions], () => waiting(run));
    const state = `${head.ensemble}: ${head.state}`;
    if (state !== lastState && lastState) say(state);
    lastState = state;
  }

  function drawTabs() {
    fill(tabs, Object.entries(VIEWS).map(([name, [label]]) =>
      h('a', { href: runLink(id, name), 'aria-current': name === view ? 'page' : null }, label)));
  }

  function arrive(rest) {
    const [first, turn, agent] = rest;
    const isDetail = first === 'at' && turn && agent;
    const wanted = first in VIEWS ? first : view;
    closeDetail();
    closeDetail = () => {};
    body.classList.toggle('with-side', Boolean(isDetail));
    if (wanted !== view || isFirst) {
      closeView();
      view = wanted;
      closeView = VIEWS[view][1](run, panel) ?? (() => {});
    }
    isFirst = false;
    if (isDetail) closeDetail = showDetail(run, side, Number(turn), agent, view) ?? (() => {});
    else fill(side);
    drawTabs();
    run.tell({ chosen: isDetail ? { turn: Number(turn), agent } : null, rows: [] });
  }

  function open() {
    source?.close();
    source = new EventSource(`/api/events?${new URLSearchParams({ id })}`);
    source.addEventListener('begin', event => {
      trouble('');
      run.begin(JSON.parse(event.data));
      drawHead();
      if (isFirst) {
        fill(main(), top, asks, tabs, body);
        arrive(rest);
      }
    });
    source.addEventListener('fold', event => {
      run.fold(JSON.parse(event.data));
      drawHead();
    });
    source.addEventListener('live', event => run.piece(JSON.parse(event.data)));
    source.onerror = lost;
  }

  /** The connection is tried again by the browser, unless the server refused it. */
  async function lost() {
    const tried = source;
    try {
      await get('/api/run', { id });
      if (tried === source && source.readyState === EventSource.CLOSED) open();
    } catch (error) {
      if (error.status === 401) dispatchEvent(new Event('locked'));
      else if (error.status) trouble(error.message);
      else {
        trouble('The connection to the server is lost. The run is not harmed; the page connects again when the server is there.');
        if (source.readyState === EventSource.CLOSED) setTimeout(() => tried === source && open(), 1000);
      }
    }
  }

  /** A page that nobody sees takes no connection: a browser has only six for one server. */
  function seen() {
    if (document.hidden) source?.close();
    else if (source.readyState === EventSource.CLOSED) open();
  }
  document.addEventListener('visibilitychange', seen);
  open();
  return {
    arrive,
    leave: () => {
      source?.close();
      source = null;
      closeView();
      closeDetail();
      document.removeEventListener('visibilitychange', seen);
    },
  };
}
