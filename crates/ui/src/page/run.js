// One run: its head, what waits for an answer, and the views of it.

import { block, clock, count, fill, get, h, main, number, runBadge, runLink, say, stateColour, time, trouble, usage } from '/base.js';
import { actions, waiting } from '/act.js';
import { showDetail, value } from '/detail.js';
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
    row.received = performance.now();
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

/** How long it took, and what it cost, in one line. */
function sums(head) {
  const notes = [...(head.failed ? [`${head.failed} failed`] : []), ...head.failed_work];
  const failed = notes.length ? ` (${notes.join(', ')})` : '';
  return h('p', { class: 'quiet sums' }, head.is_under_way ? 'for ' : 'took ', clock(head.active, head.is_under_way),
    ` · ${head.open_turn ? `in turn ${number(head.open_turn)}` : count(head.turns, 'turn')} · ${count(head.executions, 'execution')}${head.open_turn ? ' ended' : ''}${failed}`, head.usage.requests > 0 && ` · ${usage(head.usage)}`);
}

/** What the run is, for whoever asks. */
function facts(head) {
  const list = [
    ['run', head.id],
    ['begun', time(head.begun)],
    ['simulated', (head.simulated ?? []).join(', ')],
    ['file', head.file],
  ].filter(([, text]) => text);
  const from = head.forked_from;
  return h('dl', { class: 'facts' }, list.map(([name, text]) => h('div', {}, h('dt', {}, name), h('dd', {}, text))),
    from && h('div', {}, h('dt', {}, from.merged_with ? 'merged from' : 'forked from'), h('dd', {}, h('a', { href: runLink(from.run_id) }, from.run_id),
      from.merged_with && [' and ', h('a', { href: runLink(from.merged_with) }, from.merged_with)], ` after turn ${from.turn}`)));
}

/** What happened: the failure, or the result, once. */
function outcome(run, result) {
  const { head } = run;
  if (!head.sentence || head.state === 'waiting') return [];
  const { failure } = head;
  const outputs = head.outputs ?? [];
  const said = failure && [
    h('p', {}, h('a', { href: runLink(run.id, 'at', failure.turn, failure.agent) }, failure.execution > 1 ? `${failure.agent} #${failure.execution}` : failure.agent),
      ` failed in turn ${failure.turn}${failure.attempts > 1 ? ` after ${count(failure.attempts, 'attempt')}` : ''}${failure.kind === 'reported' ? '' : ` (${failure.kind.replaceAll('_', ' ')})`}:`),
    block(failure.error, 'failure')];
  const gave = result !== undefined ? [h('h2', {}, 'Result'), value(result)]
    : !head.has_result && !failure && outputs.map(one => [h('h2', {}, 'Output of ', h('a', { href: runLink(run.id, 'at', one.turn, one.agent) }, one.agent)), block(one.text)]);
  // The sentence of a failed agent repeats the failure.
  const isRepeated = failure && head.outcome === 'agent_failed';
  return h('section', { class: `outcome ${stateColour(head.state, head.success)}`, 'aria-label': 'What happened' },
    !isRepeated && head.sentence !== 'completed' && h('p', { class: 'sentence' }, head.sentence.replaceAll('_', ' ').replace(/^./, first => first.toUpperCase())), said, gave);
}

/** The run around a run that is inside of another one. */
function around(id) {
  const parts = id.split('/sub/');
  if (parts.length === 1) return [];
  const outer = parts.slice(0, -1).join('/sub/');
  return h('p', { class: 'around' }, 'Inside of ', h('a', { href: runLink(outer) }, outer));
}

function title(head) {
  const elsewhere = head.process && ['running', 'waiting'].includes(head.state) ? ` in process ${head.process}` : '';
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
  const asks = h('div', { class: 'questions' });
  const tabs = h('nav', { class: 'tabs', 'aria-label': 'Views of the run' });
  const panel = h('section', { class: 'panel', 'aria-label': 'View' });
  const side = h('section', { class: 'side', 'aria-label': 'Execution', tabindex: '-1' });
  const body = h('div', { class: 'body' }, panel, side);
  const parts = { title: h('div'), sums: h('div'), outcome: h('div', { class: 'happened' }), actions: h('section', { class: 'next', 'aria-label': 'What to do next' }), facts: h('div'), input: h('div') };
  const about = h('details', { class: 'given' }, h('summary', {}, 'About this run'), parts.facts, parts.input);
  fill(top, parts.title, parts.sums, parts.outcome, asks, parts.actions, about);
  let drawn = {};
  let result;
  let resultOf = '';

  /** The declared result, which is asked for when the run has ended. */
  async function loadResult() {
    const { head } = run;
    const now = head.has_result ? `${head.next} ${head.state}` : '';
    if (now === resultOf) return;
    resultOf = now;
    result = undefined;
    if (!now) return;
    try {
      const answer = await get('/api/result', { id });
      if (resultOf === now) result = answer.result;
    } catch (error) {
      trouble(`the result cannot be read: ${error.message}`);
    }
    if (resultOf === now) drawOutcome();
  }

  function drawOutcome() {
    const { head } = run;
    once('outcome', [head.sentence, head.state, head.failure, head.outputs, result], () => outcome(run, result));
  }

  function once(name, value, draw) {
    const text = JSON.stringify(value);
    if (drawn[name] === text) return;
    drawn[name] = text;
    fill(parts[name] ?? asks, draw());
  }

  function drawHead() {
    const head = run.head;
    document.title = `${head.ensemble} · ${head.state}`;
    once('title', [head.ensemble, head.state, head.process], () => [around(id), title(head)]);
    once('sums', [head.turns, head.open_turn, head.executions, head.failed, head.failed_work, head.usage, head.active], () => sums(head));
    drawOutcome();
    once('facts', [head.id, head.forked_from], () => facts(head));
    once('actions', [head.can, head.state], () => actions(run));
    once('input', [head.input, head.context], () => [
      head.input && [h('h3', {}, 'Input'), block(head.input)],
      Object.keys(head.context ?? {}).length > 0 && [h('h3', {}, 'Given values'), block(head.context)],
    ]);
    once('asks', [head.waiting, head.questions], () => waiting(run));
    loadResult();
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
        fill(main(), top, tabs, body);
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
